/**
 * Takes from a replay what the SDK installs for its debugger (docs/adr/0064).
 *
 * 1. A replay runs on the main thread. For the query `__stack_trace`, the SDK puts a hook on every promise of the whole
 *    process, compiles a function in each call of it, and never takes it away. No replay is asked that query.
 * 2. Each call into workflow code has a limit of 49 days, and Node.js starts a system thread for every limit.
 */
import { ReusableVMWorkflowCreator } from '@temporalio/worker/lib/workflow/reusable-vm.js';
import { globalHandlers } from '@temporalio/worker/lib/workflow/vm-shared.js';

let isDone = false;

/** Call it before a replayer is made; later calls change nothing. */
export function unhookReplays(): void {
  if (isDone) return;
  isDone = true;
  // What another replay of this process has installed.
  if (globalHandlers.installed) globalHandlers.uninstall();
  Object.assign(globalHandlers, { setPromiseHook: () => undefined, promiseHookInstalled: false });
  const create = ReusableVMWorkflowCreator.create.bind(ReusableVMWorkflowCreator);
  // Sound: the SDK hands the limit on to `node:vm`, which takes `undefined` for none.
  const unlimited = undefined as unknown as number;
  Object.assign(ReusableVMWorkflowCreator, {
    create: async (bundle: Parameters<typeof create>[0], _limit: number, ...rest: Rest) =>
      await create(bundle, unlimited, ...rest),
  });
}

type Rest = Parameters<typeof ReusableVMWorkflowCreator.create> extends [unknown, unknown, ...infer R] ? R : never;
