/**
 * The run's activities, with the reason for each number of their timeouts and retries. Each function gives only what
 * its options are for: a call that was made with those of a listing would be sent again and again (INV-X1).
 */
import { ActivityCancellationType, type ActivityOptions } from '@temporalio/workflow';
import { defined } from '../../contracts/defined.ts';
import type { ServerBinding } from '../../contracts/schemas/tool.ts';
import { MOST_TRIES } from '../../contracts/wire/legacy-2025.ts';
import type { ModelActivities, RunActivities, ToolActivities } from '../../contracts/wire/activities.ts';
import type { StretchBounds } from '../../contracts/wire/run.ts';
import { provenActivities } from '../interceptors/zone.ts';
import type { RunPriority } from '../../contracts/wire/identity.ts';

/**
 * Options for short, repeatable activities on the run's own workers. A store that is away for minutes does not fail a
 * run.
 *
 * None of them is a local activity. When a query arrives while a local activity runs, its result lands in a later
 * workflow task than in replay. An update in that task then makes a history that no worker can replay (SDK 1.23;
 * related: temporalio/sdk-rust#803). The clocks differ too, and with them the ledger.
 */
export function runActivities(summary: string) {
  return provenActivities<Pick<RunActivities, 'judge' | 'storeSegment'>>({
    // The activity reads what it stores page by page.
    startToCloseTimeout: '60s',
    cancellationType: ActivityCancellationType.TRY_CANCEL,
    retry: { initialInterval: '200ms', maximumInterval: '30s', maximumAttempts: 20 },
    summary,
  });
}

/** Options for a model step. Repeating costs tokens and harms nobody: Temporal retries until the run's wall clock. */
export function modelActivities(summary: string, priority: RunPriority) {
  return provenActivities<Pick<ModelActivities, 'modelStep'>>({
    startToCloseTimeout: STEP_SECONDS * 1_000,
    heartbeatTimeout: '60s',
    cancellationType: ActivityCancellationType.TRY_CANCEL,
    retry: { initialInterval: '1s', backoffCoefficient: 2, maximumInterval: '60s' },
    summary,
    priority,
  });
}

/** Options for the first activity, which may go on with a first stretch. The run's own priority is not known yet. */
export function beginActivities(summary: string) {
  return provenActivities<Pick<RunActivities, 'prepareRun'>>({
    startToCloseTimeout: '2h',
    heartbeatTimeout: '30s',
    cancellationType: ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
    retry: {
      initialInterval: '200ms',
      maximumInterval: '30s',
      maximumAttempts: 20,
      nonRetryableErrorTypes: LOST_WORKER,
    },
    summary,
  });
}

/** Temporal's names of the timeouts by which it notices a lost worker. */
const LOST_WORKER = ['TemporalTimeout:Heartbeat', 'TemporalTimeout:StartToClose'];

/**
 * Options for a stretch, with room for a step and a call that begin at its end. It is tried again only while nothing is
 * on record; if its worker is lost, Temporal tells the run what was. One no longer wanted returns what was done.
 */
export function stretchActivities(
  summary: string,
  { seconds }: StretchBounds,
  callTimeoutSeconds: number,
  priority: RunPriority,
) {
  return provenActivities<Pick<ModelActivities, 'stretch'>>({
    startToCloseTimeout: (seconds + STEP_SECONDS + callTimeoutSeconds + BESIDE_CALL_SECONDS) * 1_000,
    heartbeatTimeout: '30s',
    cancellationType: ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
    retry: {
      initialInterval: '1s',
      backoffCoefficient: 2,
      maximumInterval: '60s',
      nonRetryableErrorTypes: LOST_WORKER,
    },
    summary,
    priority,
  });
}

const STEP_SECONDS = 900;
/** Two tokens, two sessions after a 401, and storing the result. */
const BESIDE_CALL_SECONDS = 90;

/**
 * Options for listing tools, which changes nothing: Temporal retries it for as long as the run may wait
 * (docs/adr/0050). A run that stops or hands over waits for no server.
 */
export function discoveryActivities(server: ServerBinding, priority: RunPriority) {
  const { startWaitSeconds } = server;
  return provenActivities<Pick<ToolActivities, 'discoverTools'>>({
    ...defined({ taskQueue: server.taskQueue }),
    startToCloseTimeout: '60s',
    retry: { initialInterval: '1s', backoffCoefficient: 2, maximumInterval: '30s' },
    cancellationType: ActivityCancellationType.TRY_CANCEL,
    ...(startWaitSeconds === undefined ? {} : { scheduleToCloseTimeout: startWaitSeconds * 1_000 }),
    summary: `list tools of ${server.name}`,
    priority,
  });
}

/**
 * Options for a message to people. After an hour nobody wants it any more: it is given up, and the run shows so. A
 * stopped run still tells what it has to tell. @param leftMs what is left of the hour
 */
export function messageActivities(summary: string, leftMs: number, priority: RunPriority) {
  return provenActivities<Pick<RunActivities, 'sendMessage'>>({
    startToCloseTimeout: '60s',
    scheduleToCloseTimeout: leftMs,
    retry: { initialInterval: '1s', backoffCoefficient: 2, maximumInterval: '5m' },
    summary,
    priority,
  });
}

/** Options for judging an edit. The sender waits for the verdict; one attempt has the time of a catalog review. */
export function editActivities(summary: string) {
  return provenActivities<Pick<RunActivities, 'judge'>>({
    startToCloseTimeout: '10s',
    scheduleToCloseTimeout: '60s',
    cancellationType: ActivityCancellationType.TRY_CANCEL,
    retry: { initialInterval: '200ms', maximumInterval: '2s' },
    summary,
  });
}

/** Options for a call: always one attempt (INV-X1). A lost answer is an outcome, and the run decides. */
export function callActivities(...call: CallOptions) {
  return provenActivities<Pick<ToolActivities, 'callTool'>>(optionsOf(...call));
}

/** Options for asking for an answer: those of the call; if no worker serves the queue, the run asks people instead. */
export function resumeActivities(...call: CallOptions) {
  return provenActivities<Pick<ToolActivities, 'resumeCall'>>({ ...optionsOf(...call), scheduleToStartTimeout: '5m' });
}

type CallOptions = readonly [server: ServerBinding, callTimeoutSeconds: number, summary: string, priority: RunPriority];

/** The heartbeat timeout is 30 s so that a worker under load is not taken for a dead one. */
function optionsOf(...[server, callTimeoutSeconds, summary, priority]: CallOptions): ActivityOptions {
  return {
    ...defined({ taskQueue: server.taskQueue }),
    // The call's own deadline ends it first.
    startToCloseTimeout: (callTimeoutSeconds + BESIDE_CALL_SECONDS) * 1_000,
    heartbeatTimeout: '30s',
    cancellationType: ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
    retry: { maximumAttempts: 1 },
    summary,
    priority,
  };
}

/**
 * Options for polling a task. A poll executes nothing, so Temporal retries it when a worker is lost. The 180 s hold
 * three short questions, a result and its storing. If no worker serves the queue, the run regains control every five
 * minutes: it checks the task's time and whether to hand over. A withdrawn poll is waited for: it may already hold the
 * result, which the server need not give twice.
 *
 * @param giveUp somebody waits for the end of the run, so a worker that does not come is not waited for
 */
export function pollActivities(server: ServerBinding, summary: string, priority: RunPriority, giveUp: boolean) {
  return provenActivities<Pick<ToolActivities, 'pollTask'>>({
    ...defined({ taskQueue: server.taskQueue }),
    startToCloseTimeout: '180s',
    ...(giveUp ? { scheduleToCloseTimeout: '240s' } : { scheduleToStartTimeout: '5m' }),
    heartbeatTimeout: '30s',
    cancellationType: giveUp
      ? ActivityCancellationType.TRY_CANCEL
      : ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
    retry: { initialInterval: '1s', maximumInterval: '10s', maximumAttempts: MOST_TRIES },
    summary,
    priority,
  });
}
