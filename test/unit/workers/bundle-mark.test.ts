/** A bundle is taken from this build of `bundleWorkflows` alone: without its converter and interceptors runs are damaged. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { assertMadeHere, type WorkflowBundle, withStackTraces, workflowFile } from '../../../workers/bundle.ts';
import { bundleWorkflows } from '../../../workers/index.ts';
import { packageVersion } from '../../../workers/setup.ts';
import { withCode } from '../../support/refusal.ts';
import { sharedBundle } from '../../support/shared-bundle.ts';

const MARK = /^\/\* workflow bundle of countersign (\S+), code ([0-9a-f]{12}) \*\//;

let bundle: WorkflowBundle;
let folder: string;
beforeAll(async () => {
  bundle = await sharedBundle();
  folder = await mkdtemp(join(import.meta.dirname, '../../../.build/own-workflows-'));
}, 60_000);
afterAll(async () => rm(folder, { recursive: true, force: true }));

test('a bundle of this build begins with its mark, and is taken', () => {
  expect(MARK.exec(bundle.code)?.[1]).toBe(packageVersion());
  expect(() => assertMadeHere(bundle)).not.toThrow();
});

test.each([
  ['of an older build with the same version', (code: string) => code.replace(/code [0-9a-f]{12}/, 'code 0123456789ab')],
  ['of another version', (code: string) => code.replace(`countersign ${packageVersion()}`, 'countersign 9.9.9')],
  ['with no mark', (code: string) => code.replace(MARK, '')],
  ['whose mark stands later', (code: string) => withStackTraces(code)],
])('one %s is refused', (_what, changed) => {
  const other = { ...bundle, code: changed(bundle.code) };
  expect(other.code).not.toBe(bundle.code);
  expect(() => assertMadeHere(other)).toThrow(
    expect.objectContaining({ code: 'BUNDLE_INCOMPLETE', message: expect.stringContaining('bundleWorkflows') }),
  );
});

test('a module that leaves out the workflow of digests is refused: nobody would send them', async () => {
  const workflowsPath = join(folder, 'some.ts');
  await writeFile(workflowsPath, `export { agentRun, toolCatalog } from '${workflowFile('index')}';\n`);
  await expect(bundleWorkflows({ workflowsPath })).rejects.toMatchObject({
    code: 'BUNDLE_INCOMPLETE',
    facts: { missing: 'messageDigest' },
  });
});

test('a folder, or a name without its ending, is no module of workflows', async () => {
  for (const workflowsPath of [folder, join(folder, 'workflows')])
    await expect(bundleWorkflows({ workflowsPath })).rejects.toMatchObject(
      withCode('BUNDLE_INCOMPLETE', workflowsPath),
    );
});
