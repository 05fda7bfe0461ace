/** The run's activities with their timeouts and retries. Each number has its reason beside it. Their answers are opened by `answered`. */
import { ActivityCancellationType, type ActivityOptions } from '@temporalio/workflow';
import type { CatalogConnection } from '../../contracts/schemas/catalog.ts';
import type { ServerBinding } from '../../contracts/schemas/tool.ts';
import type { CatalogActivities } from '../../contracts/wire/catalog.ts';
import { MOST_TRIES } from '../../contracts/wire/legacy-2025.ts';
import type { ModelActivities, RunActivities, ToolActivities } from '../../contracts/wire/run.ts';
import type { Answering } from '../entity/unread.ts';
import { provenActivities } from '../entity/zone-activities.ts';
import type { RunPriority } from '../../contracts/wire/identity.ts';

/**
 * Short and repeatable, on the run's own workers. A store that is away for minutes does not fail a run.
 *
 * No local activities in a workflow that takes updates: where a query comes while one is under way, its result arrives in a later
 * workflow task than in replay, and an update in that task makes a history that no worker can replay (SDK 1.23; its kin is
 * temporalio/sdk-rust#803). Clocks differ too, and with them the ledger.
 */
export function runActivities(summary: string): Answering<RunActivities> {
  return provenActivities<Answering<RunActivities>>({
    // Storing reads what it stores page by page.
    startToCloseTimeout: '60s',
    cancellationType: ActivityCancellationType.TRY_CANCEL,
    retry: { initialInterval: '200ms', maximumInterval: '30s', maximumAttempts: 20 },
    summary,
  });
}

/** Nobody waits for it; whoever sends a message next may ask for it again. */
export function trustActivities(): Answering<Pick<RunActivities, 'readTrust'>> {
  return provenActivities<Answering<RunActivities>>({
    startToCloseTimeout: '15s',
    scheduleToCloseTimeout: '30s',
    retry: { initialInterval: '200ms', maximumInterval: '5s', maximumAttempts: 3 },
    summary: 'read the trusted keys',
  });
}

/** Without the store no run may roll or end, and none is lost for it: it waits until the store is back (docs/adr/0015). */
export function storeActivities(): Answering<Pick<RunActivities, 'storeSegment'>> {
  return provenActivities<Answering<RunActivities>>({
    // Storing reads what it stores page by page.
    startToCloseTimeout: '60s',
    retry: { initialInterval: '200ms', maximumInterval: '60s' },
    summary: 'store transcript and ledger',
  });
}

/** Repeating a model step costs tokens and harms nobody, so Temporal retries what may pass; the run's wall clock ends it. */
export function modelActivities(summary: string, priority: RunPriority | undefined): Answering<ModelActivities> {
  return provenActivities<Answering<ModelActivities>>({
    startToCloseTimeout: '15m',
    heartbeatTimeout: '60s',
    cancellationType: ActivityCancellationType.TRY_CANCEL,
    retry: { initialInterval: '1s', backoffCoefficient: 2, maximumInterval: '60s' },
    summary,
    ...inTurn(priority),
  });
}

/**
 * Listing tools changes nothing: retried for as long as the run may wait (docs/adr/0050), without a trace in history. Whoever stops
 * the run, or hands it over, does not wait for a server that does not answer.
 *
 * @param waits absent: some minutes, as runs of earlier releases did
 */
export function discoveryActivities(
  server: ServerBinding,
  priority: RunPriority | undefined,
  waits?: 'awaited',
): Answering<Pick<ToolActivities, 'discoverTools'>> {
  return provenActivities<Answering<ToolActivities>>({
    ...(server.taskQueue === undefined ? {} : { taskQueue: server.taskQueue }),
    startToCloseTimeout: '60s',
    ...(waits === undefined ? { retry: { ...LISTING, maximumAttempts: 8 } } : untilThere(server)),
    summary: `list tools of ${server.name}`,
    ...inTurn(priority),
  });
}

const LISTING = { initialInterval: '1s', backoffCoefficient: 2, maximumInterval: '30s' } as const;

function untilThere({ startWaitSeconds }: ServerBinding): ActivityOptions {
  return {
    retry: LISTING,
    cancellationType: ActivityCancellationType.TRY_CANCEL,
    ...(startWaitSeconds === undefined ? {} : { scheduleToCloseTimeout: startWaitSeconds * 1_000 }),
  };
}

/** Somebody waits for the answer: not for long. */
export function reviewActivities(): Answering<CatalogActivities> {
  return provenActivities<Answering<CatalogActivities>>({
    startToCloseTimeout: '10s',
    // Also where nobody takes it: a message that acts when its sender has given up would be worse than none.
    scheduleToCloseTimeout: '30s',
    retry: { initialInterval: '200ms', maximumInterval: '2s', maximumAttempts: 5 },
    summary: 'who may, and what can be honoured',
  });
}

/** Whoever edits waits for the verdict; as long as a review of a catalog, and as often. */
export function editActivities(summary: string): Answering<Pick<RunActivities, 'judge'>> {
  return provenActivities<Answering<RunActivities>>({
    startToCloseTimeout: '10s',
    scheduleToCloseTimeout: '60s',
    cancellationType: ActivityCancellationType.TRY_CANCEL,
    retry: { initialInterval: '200ms', maximumInterval: '2s' },
    summary,
  });
}

/** An operator waits for the end and may ask again: tried for about a minute. */
export function catalogDiscoveryActivities(
  server: string,
  { taskQueue }: CatalogConnection,
): Answering<Pick<ToolActivities, 'discoverCatalog'>> {
  return provenActivities<Answering<ToolActivities>>({
    ...(taskQueue === undefined ? {} : { taskQueue }),
    startToCloseTimeout: '60s',
    // Where nobody serves the queue, the refresh fails and says so.
    scheduleToStartTimeout: '60s',
    retry: { initialInterval: '1s', backoffCoefficient: 2, maximumInterval: '10s', maximumAttempts: 4 },
    summary: `list tools of ${server}`,
  });
}

/** One attempt, always (INV-X1): a lost answer is an outcome, and whether to send again is decided by the run. */
export function callActivities(...call: CallOptions): Answering<Pick<ToolActivities, 'callTool'>> {
  return provenActivities<Answering<ToolActivities>>(optionsOf(...call));
}

/** As the call whose answer it asks for. Where nobody serves the queue, people are asked rather than nobody. */
export function resumeActivities(...call: CallOptions): Answering<Pick<ToolActivities, 'resumeCall'>> {
  return provenActivities<Answering<ToolActivities>>({ ...optionsOf(...call), scheduleToStartTimeout: '5m' });
}

type CallOptions = readonly [
  server: ServerBinding,
  callTimeoutSeconds: number,
  summary: string,
  priority: RunPriority | undefined,
];

/** The heartbeat timeout is 30 s so that a worker under load is not taken for a dead one. */
function optionsOf(...[server, callTimeoutSeconds, summary, priority]: CallOptions): ActivityOptions {
  return {
    ...(server.taskQueue === undefined ? {} : { taskQueue: server.taskQueue }),
    // The call's own deadline ends it first; 90 s are for two tokens, two sessions after a 401, and storing the result.
    startToCloseTimeout: callTimeoutSeconds * 1_000 + 90_000,
    heartbeatTimeout: '30s',
    cancellationType: ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
    retry: { maximumAttempts: 1 },
    summary,
    ...inTurn(priority),
  };
}

/**
 * Executes nothing, so Temporal tries it again where a worker is lost. 180 s hold three short questions, a result and its storing.
 * Where nobody serves the queue, the run looks up every five minutes: at the time of the task, and whether to hand over.
 * One that is withdrawn is waited for: it may hold the result already, which the server need not give twice.
 *
 * @param giveUp somebody waits for the end of the run: not for a worker that does not come
 */
export function pollActivities(
  server: ServerBinding,
  summary: string,
  priority: RunPriority | undefined,
  giveUp: boolean,
): Answering<Pick<ToolActivities, 'pollTask'>> {
  return provenActivities<Answering<ToolActivities>>({
    ...(server.taskQueue === undefined ? {} : { taskQueue: server.taskQueue }),
    startToCloseTimeout: '180s',
    ...(giveUp ? { scheduleToCloseTimeout: '240s' } : { scheduleToStartTimeout: '5m' }),
    heartbeatTimeout: '30s',
    cancellationType: giveUp
      ? ActivityCancellationType.TRY_CANCEL
      : ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
    retry: { initialInterval: '1s', maximumInterval: '10s', maximumAttempts: MOST_TRIES },
    summary,
    ...inTurn(priority),
  });
}

function inTurn(priority: RunPriority | undefined): { priority?: RunPriority } {
  return priority === undefined ? {} : { priority };
}
