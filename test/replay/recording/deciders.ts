/**
 * Starts a worker that does the workflow tasks of a queue and none of its activities. Scheduled activities
 * wait as if all workers were busy.
 */
import { Runtime } from '@temporalio/worker';
import type { Config } from '../../../contracts/schemas/config.ts';
import type { WorkflowBundle } from '../../../workers/bundle.ts';
import { createTracing } from '../../../workers/tracing.ts';
import { createWorkerDataConverter } from '../../../workers/codec.ts';
import { countRefused } from '../../../workers/connection.ts';
import { ZoneCodec } from '../../../workers/zone.ts';
import { type OwnWorker, startOwnWorker } from '../../support/world/own-worker.ts';

export async function startDeciders({
  address,
  namespace,
  config,
  bundle,
}: {
  readonly address: string;
  readonly namespace: string;
  readonly config: Config;
  readonly bundle: WorkflowBundle;
}): Promise<OwnWorker> {
  return await startOwnWorker(address, {
    namespace,
    identity: 'worker',
    taskQueue: config.taskQueue,
    workflowBundle: { code: bundle.code },
    buildId: bundle.buildId,
    dataConverter: createWorkerDataConverter(config, new ZoneCodec([])),
    plugins: [createTracing(config.tracing)],
    stickyQueueScheduleToStartTimeout: config.worker.stickyQueueTimeoutMs,
    sinks: countRefused(Runtime.instance()),
  });
}
