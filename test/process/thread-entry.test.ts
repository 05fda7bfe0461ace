/**
 * Threads of workflows start however the process was started, and none is left where one does not start
 * (docs/adr/0064).
 */
import { execFile } from 'node:child_process';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from '@jest/globals';

const ROOT = join(import.meta.dirname, '../..');
const TSX = createRequire(import.meta.url).resolve('tsx');

/** Makes two threads of a bundle and asks them to end. The process then ends by itself, unless a thread is left. */
const SCRIPT = `
const { replaceThreads } = await import('./workers/workflow-threads.ts');
const { ThreadedVMWorkflowCreator } = await import('@temporalio/worker/lib/workflow/threaded-vm.js');
const { parseWorkflowCode } = await import('@temporalio/worker/lib/worker.js');
const code = { whole: 'globalThis.__webpack_module_cache__;__TEMPORAL__={api:{destroy(){}}};', broken: 'globalThis.__webpack_module_cache__; throw 1' };
replaceThreads();
const made = ThreadedVMWorkflowCreator.create({
  workflowBundle: parseWorkflowCode(code[process.argv[1]] + '\\n//# sourceMappingURL=data:application/json;base64,' + btoa('{"version":3,"sources":[],"names":[],"mappings":""}'), 'bundle.js'),
  threadPoolSize: 2,
  reuseV8Context: true,
  registeredActivityNames: new Set(),
  logger: console,
});
await made.then((creator) => creator.destroy()).then(() => console.log('made'), (error) => console.log('refused'));`;

test.each([
  ['whole', 'made'],
  ['broken', 'refused'],
])('of a bundle that is %s', async (bundle, said) => {
  const args = ['--import', TSX, '--input-type=module', '-e', SCRIPT, bundle];
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: ROOT, timeout: 30_000 });
  expect(stdout).toBe(`${said}\n`);
});
