/** Waits for what happens to a stretch: by what Temporal has on record of it, and by the log of its worker. */
import { defaultPayloadConverter } from '@temporalio/common';
import { tsToMs } from '@temporalio/common/lib/time.js';
import type { Client } from '@temporalio/client';
import type { RunHandle } from '../../../client/index.ts';
import type { StretchRecord } from '../../../contracts/wire/stretch.ts';
import { until } from '../until.ts';
import type { WorkerProcess } from '../world/worker-process.ts';

type Run = Pick<RunHandle, 'runId'>;

/** Waits until Temporal has the result of this call on record. */
export async function resultRecorded(client: Client, { runId }: Run, callId: string): Promise<void> {
  await until(
    async () => {
      const { raw } = await client.workflow.getHandle(runId).describe();
      const [payload] = raw.pendingActivities?.[0]?.heartbeatDetails?.payloads ?? [];
      // The details of a stretch are its record; a first activity has turns once it has lists of tools.
      const record = payload && defaultPayloadConverter.fromPayload<Partial<StretchRecord>>(payload);
      const calls = record?.turns?.flatMap((turn) => turn.calls ?? []);
      return calls?.find((call) => call.callId === callId)?.result !== undefined;
    },
    { what: `the result of ${callId} of ${runId} on record`, withinMs: 60_000 },
  );
}

/** Waits until a stretch has heard that it is no longer wanted: Temporal says so with each heartbeat. */
export async function heardItsEnd(client: Client, { runId }: Run): Promise<void> {
  let since: number | undefined;
  await until(
    async () => {
      const [pending] = (await client.workflow.getHandle(runId).describe()).raw.pendingActivities ?? [];
      // PENDING_ACTIVITY_STATE_CANCEL_REQUESTED (temporal.api.enums.v1)
      if (pending?.state !== 3) return undefined;
      const at = tsToMs(pending.lastHeartbeatTime);
      since ??= at;
      return at > since;
    },
    { what: `a heartbeat of ${runId} after its end was asked for` },
  );
}

/** Waits until a worker has ended so many stretches of a run, the first activity included, by its own log of level `debug`. */
export async function stretchesEnded(worker: WorkerProcess, { runId }: Run, count: number): Promise<void> {
  const isEnd = (line: string): boolean =>
    /"activityType":"(?:stretch|prepareRun)"/.test(line) &&
    line.includes(runId) &&
    /"message":"Activity (?!started)/.test(line);
  await until(() => worker.output().split('\n').filter(isEnd).length >= count, {
    what: `the end of ${count} stretches of ${runId}`,
    withinMs: 60_000,
  });
}
