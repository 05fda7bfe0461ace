/** A slow machine does not end a worker: each activation of a workflow has a minute (docs/adr/0057). */
import { expect, test } from '@jest/globals';
import { Runtime } from '@temporalio/worker';
import { compileWorkerOptions } from '@temporalio/worker/lib/worker-options.js';
import { Config } from '../../../contracts/schemas/config.ts';
import { sizesFor } from '../../../workers/memory.ts';
import { workerOptions } from '../../../workers/replay/replay.ts';
import { commonOptions } from '../../../workers/worker.ts';

const config = Config.parse({});
const bundle = { code: '', buildId: 'b' };

test.each([
  ['a worker', (): object => commonOptions(config, sizesFor(2 ** 30))],
  ['a replay', (): object => workerOptions({ bundle, config })],
])('the SDK takes the limit of %s', (_, optionsOf) => {
  const { logger, metricMeter } = Runtime.instance();
  const compiled = compileWorkerOptions({ taskQueue: 'runs', ...optionsOf() }, logger, metricMeter);
  expect(compiled.isolateExecutionTimeoutMs).toBe(60_000);
});
