/** One code has one build id, wherever it lies and from wherever it is started. Real processes: webpack names modules by the directory it is started in. */
import { execFile } from 'node:child_process';
import { appendFile, cp, mkdir, mkdtemp, rm, symlink } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from '@jest/globals';

const ROOT = join(import.meta.dirname, '../..');
/** All that the bundle is made of. */
const PARTS = ['contracts', 'domain', 'workflows', 'workers', 'package.json'];
const TSX = createRequire(import.meta.url).resolve('tsx');
const PRINT = `const { bundleWorkflows } = await import(process.argv[1] + '/workers/bundle.ts');
console.log(JSON.stringify({ buildId: (await bundleWorkflows()).buildId }));`;

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'countersign-build-id-'));
});
afterAll(async () => rm(folder, { recursive: true, force: true }));

async function buildIdOf(root: string, startedIn: string): Promise<string> {
  const args = ['--import', TSX, '--input-type=module', '-e', PRINT, root];
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: startedIn });
  // Sound: the script above prints it.
  return (JSON.parse(stdout) as { buildId: string }).buildId;
}

/** A copy many folders away from its packages, which are reached by a link, as it is itself. */
async function farClone(): Promise<string> {
  const clone = join(folder, 'a folder/of another/length than ours/clone');
  await mkdir(clone, { recursive: true });
  for (const part of PARTS) await cp(join(ROOT, part), join(clone, part), { recursive: true });
  await symlink(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
  const link = join(folder, 'link');
  await symlink(clone, link);
  return link;
}

test('a copy elsewhere, through a link, with packages above it, started in another directory, has the id of this one; another line of code has another', async () => {
  const copy = await farClone();
  const [here, there] = await Promise.all([buildIdOf(ROOT, ROOT), buildIdOf(copy, '/')]);
  expect(here).toMatch(/^[0-9a-f]{12}$/);
  expect(there).toBe(here);
  await appendFile(join(copy, 'domain/limits.ts'), 'export const ANOTHER_LINE = 1;\n');
  expect(await buildIdOf(copy, '/')).not.toBe(here);
});
