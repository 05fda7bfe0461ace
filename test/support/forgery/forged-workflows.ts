/**
 * Holds workflows that a namespace writer could run beside ours. They are bundled for a worker of their own.
 */
import { RawValue } from '@temporalio/common';
import { makeContinueAsNewFunc, proxyActivities, workflowInfo } from '@temporalio/workflow';

type AnyActivity = (input: unknown) => Promise<unknown>;

/**
 * Schedules one activity of the real workers. `$self` in the input becomes the Temporal run id, which nobody knows
 * before.
 */
async function schedule(
  taskQueue: string,
  activity: string,
  input: Readonly<Record<string, unknown>>,
): Promise<unknown> {
  const activities = proxyActivities<Record<string, AnyActivity>>({
    taskQueue,
    startToCloseTimeout: '20s',
    retry: { maximumAttempts: 1 },
  });
  const call = activities[activity];
  if (call === undefined) throw new Error('a proxy has every activity');
  return await call(input['runId'] === '$self' ? { ...input, runId: workflowInfo().runId } : input);
}

/** The first has the name of the run workflow. */
export { schedule as agentRun, schedule as somethingElse };

/** A payload from a history, copied byte by byte with all its metadata. */
export interface CopiedPayload {
  readonly metadata: Readonly<Record<string, readonly number[]>>;
  readonly data: readonly number[];
}

/** Continues as a workflow of the real workers, with arguments of its own. */
export async function goesOn(taskQueue: string, workflowType: string, args: readonly CopiedPayload[]): Promise<void> {
  const payloads = args.map(({ metadata, data }) =>
    RawValue.fromPayload({
      metadata: Object.fromEntries(Object.entries(metadata).map(([name, bytes]) => [name, Uint8Array.from(bytes)])),
      data: Uint8Array.from(data),
    }),
  );
  await makeContinueAsNewFunc<(...given: unknown[]) => Promise<void>>({ taskQueue, workflowType })(...payloads);
}
