/** Runs the tool activities of a run in a mocked environment, without Temporal. */
import { ActivityCancellationDetails } from '@temporalio/common';
import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import { defined } from '../../../contracts/defined.ts';
import type { JsonObject } from '../../../contracts/schemas/json.ts';
import type { ServerBinding } from '../../../contracts/schemas/tool.ts';
import type { RunIdentity } from '../../../contracts/wire/identity.ts';
import type { DispatchInput } from '../../../contracts/wire/tools.ts';
import type { OfferedTool } from '../../../domain/run/toolset.ts';

export const RUN: RunIdentity = {
  namespace: 'default',
  workflowId: 'conformance',
  initiator: { id: 'ann', groups: [], tenant: 'default' },
  specHash: 'a'.repeat(64),
};
export const RUN_ID = 'run-1';

/** The attempt of an activity that is run. */
export interface Tried {
  readonly attempt: number;
  /** Epoch ms. All attempts together have four minutes. */
  readonly scheduledAt?: number;
  /** Start of this attempt; default: that of the first. */
  readonly attemptAt?: number;
  /** Type of the activity, where it matters. */
  readonly activity?: string;
}

/**
 * Runs an activity as Temporal would, for the one run that exists.
 * @param tried default: the first attempt
 */
export async function inActivity<Input, Output>(
  activity: (input: Input) => Promise<Output>,
  input: Input,
  tried?: Tried,
): Promise<Output> {
  return await environmentOfRun(tried).run(activity, input);
}

export function environmentOfRun(
  tried: Tried = { attempt: 1 },
  workflowId: string = RUN.workflowId,
): MockActivityEnvironment {
  const { attempt, scheduledAt = Date.now(), attemptAt = scheduledAt, activity } = tried;
  return new MockActivityEnvironment(
    {
      attempt,
      ...defined({ activityType: activity }),
      scheduledTimestampMs: scheduledAt,
      currentAttemptScheduledTimestampMs: attemptAt,
      scheduleToCloseTimeoutMs: 240_000,
      workflowType: 'agentRun',
      namespace: RUN.namespace,
      workflowNamespace: RUN.namespace,
      workflowExecution: { workflowId, runId: RUN_ID },
    },
    { logger: new DefaultLogger('ERROR') },
  );
}

export interface GoingActivity<Output> {
  readonly result: Promise<Output>;
  /** Heartbeats, in order. */
  readonly beats: readonly unknown[];
  /** Shuts down as Temporal does when a worker is stopped and its grace time is over. */
  shutDown(): void;
}

/** Does the same as `inActivity`, in a worker that is stopped meanwhile. */
export function goingActivity<Input, Output>(
  activity: (input: Input) => Promise<Output>,
  input: Input,
  tried?: Tried,
): GoingActivity<Output> {
  const environment = environmentOfRun(tried);
  const beats: unknown[] = [];
  environment.on('heartbeat', (details: unknown) => beats.push(details));
  return {
    result: environment.run(activity, input),
    beats,
    shutDown: () => environment.cancel('WORKER_SHUTDOWN', new ActivityCancellationDetails({ workerShutdown: true })),
  };
}

/** Makes the dispatch of a call that policy allows. */
export function allowedDispatch(
  tool: OfferedTool,
  args: JsonObject,
  toolset: DispatchInput['toolset'],
  { at = 0, callTimeoutSeconds = 20, server }: { at?: number; callTimeoutSeconds?: number; server: ServerBinding },
): DispatchInput {
  const callId = `t1.c${at}`;
  const { serverUrl, definition, hash, modelName } = tool;
  return {
    run: RUN,
    runId: RUN_ID,
    decidedIn: [RUN_ID],
    callId,
    name: modelName,
    target: { server: tool.server, serverUrl, tool: definition.name, definitionHash: hash },
    arguments: args,
    proof: { kind: 'policy', rules: ['organisation/strategy/never'] },
    toolset,
    server,
    limits: { resultBytes: 65_536, callTimeoutSeconds },
    attempt: 1,
    idempotencyKey: `${RUN.workflowId}/${callId}`,
  };
}
