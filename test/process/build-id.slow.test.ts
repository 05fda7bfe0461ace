/** One code has one build id, wherever it lies and from wherever it is started. Real processes: webpack names modules by the directory it is started in. */
import { execFile } from 'node:child_process';
import { appendFile, cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, jest, test } from '@jest/globals';

const ROOT = join(import.meta.dirname, '../..');
/** All that the bundle is made of. */
const PARTS = ['contracts', 'domain', 'workflows', 'activities', 'workers', 'package.json'];
const TSX = createRequire(import.meta.url).resolve('tsx');
/** Makes it, makes it and leaves it beside the code as `npm run build` does, or takes what lies there. */
const MADE = `const { bundleWorkflows } = await import(process.argv[1] + '/workers/bundle.ts');
console.log(JSON.stringify(await bundleWorkflows(), ['buildId']));`;
const WRITTEN = `const { bundleWorkflows, writeBuiltBundle } = await import(process.argv[1] + '/workers/bundle.ts');
const made = await bundleWorkflows();
await writeBuiltBundle(made);
console.log(JSON.stringify(made, ['buildId']));`;
const READ = `const { readBuiltBundle } = await import(process.argv[1] + '/workers/bundle.ts');
console.log(JSON.stringify((await readBuiltBundle()) ?? {}, ['buildId']));`;

/** Each process loads all of the code, and some make a bundle. */
jest.setTimeout(180_000);

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'countersign-build-id-'));
});
afterAll(async () => rm(folder, { recursive: true, force: true }));

async function buildIdOf(root: string, startedIn: string, script: string): Promise<string | undefined> {
  const args = ['--import', TSX, '--input-type=module', '-e', script, root];
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: startedIn });
  // Sound: the scripts above print it.
  return (JSON.parse(stdout) as { buildId?: string }).buildId;
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

test('a copy elsewhere, through a link, with packages above it, started in another directory, has the id of this one', async () => {
  const copy = await farClone();
  const [here, there] = await Promise.all([buildIdOf(ROOT, ROOT, MADE), buildIdOf(copy, '/', WRITTEN)]);
  expect(here).toMatch(/^[0-9a-f]{12}$/);
  expect(there).toBe(here);

  // What lies beside the code is taken for as long as the code is the same.
  expect(await buildIdOf(copy, '/', READ)).toBe(here);
  const built = join(copy, 'workflow-bundle.json');
  const whole = await readFile(built, 'utf8');
  await writeFile(built, whole.replace('agentRun', 'agentRum'));
  expect(await buildIdOf(copy, '/', READ)).toBeUndefined();
  await writeFile(built, whole.slice(0, -1));
  expect(await buildIdOf(copy, '/', READ)).toBeUndefined();
  await writeFile(built, whole);
  await appendFile(join(copy, 'domain/run/limits.ts'), 'export const ANOTHER_LINE = 1;\n');
  const [other, kept] = await Promise.all([buildIdOf(copy, '/', MADE), buildIdOf(copy, '/', READ)]);
  expect(other).not.toBe(here);
  expect(kept).toBeUndefined();
});
