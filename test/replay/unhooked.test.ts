/** A replay leaves nothing in its process that slows down what comes after it, and starts no threads for limits (docs/adr/0064). */
import { Script } from 'node:vm';
import { expect, jest, test } from '@jest/globals';
import { globalHandlers } from '@temporalio/worker/lib/workflow/vm-shared.js';
import { bundleWorkflows } from '../../workers/bundle.ts';
import { replayHistories } from '../../workers/replay/replay.ts';
import { sharedBundle } from '../support/shared-bundle.ts';
import { CONFIG, recorded } from './corpus.ts';

async function replayOne(): Promise<void> {
  const replayed = replayHistories(recorded(['agent-run.all-at-once-first']), {
    bundle: await sharedBundle(bundleWorkflows),
    config: CONFIG,
  });
  for await (const { error } of replayed) expect(error).toBeUndefined();
}

test('a hook that another replay of the process has installed is taken away', async () => {
  globalHandlers.install();
  expect(globalHandlers.promiseHookInstalled).toBe(true);
  const uninstall = jest.spyOn(globalHandlers, 'uninstall');
  await replayOne();
  expect(uninstall).toHaveBeenCalledTimes(1);
});

test('no hook on promises, no time limit on calls into workflow code', async () => {
  const call = jest.spyOn(Script.prototype, 'runInContext');
  await replayOne();
  expect(call.mock.calls.length).toBeGreaterThan(3);
  expect(call.mock.calls.filter(([, options]) => typeof options === 'object' && options.timeout !== undefined)).toEqual(
    [],
  );
  expect(globalHandlers).toMatchObject({ installed: true, promiseHookInstalled: false });
});
