/**
 * Goes on in a stretch, and takes over what was done in it (docs/adr/0058).
 *
 * 1. The run applies the transitions of each step and call as if it had made them itself, with their times.
 * 2. Results that need more than recording, and the calls of a last turn that did not leave, are settled by `act`.
 */
import { ActivityFailure, CancelledFailure, TimeoutFailure } from '@temporalio/common';
import { CancellationScope, isCancellation, patched, workflowInfo } from '@temporalio/workflow';
import { defined } from '../../contracts/defined.ts';
import { failureOf } from '../../contracts/failure.ts';
import type { ModelStepInput, StretchBounds } from '../../contracts/wire/run.ts';
import type {
  BeginRecord,
  BegunRun,
  StretchedTurn,
  StretchInput,
  StretchResult,
} from '../../contracts/wire/stretch.ts';
import { deedsOf, isConcluded, isOver, NotToLeave, stretchInput, stretchServers } from '../../domain/run/stretch.ts';
import { resultsOf } from '../../domain/run/turn.ts';
import { isAnswerOf } from '../../domain/shapes/inputs.ts';
import { withStretched } from '../../domain/views/temporal-ui.ts';
import { answered, assertFailure, assertReadable } from '../entity/unread.ts';
import { beginActivities, stretchActivities } from './activities.ts';
import { grantProofs } from './dispatch-input.ts';
import type { LiveRun } from './live-run.ts';

/** @returns the turns that were taken, none if it ended before the model had answered; and the model's final refusal */
export async function stretched(live: LiveRun, first: ModelStepInput, bounds: StretchBounds): Promise<StretchResult> {
  const { limits, priority } = live.prepared;
  const input = inputOf(live, first, bounds);
  const { turns, seconds } = input.bounds;
  const summary = `from turn ${first.turn}: ${live.spec.agent.model}, at most ${turns} turns, ${seconds} s`;
  const { stretch } = stretchActivities(summary, bounds, limits.callTimeoutSeconds, priority);
  const scope = new CancellationScope();
  try {
    const answer = await live.stretching.during(scope, () => scope.run(() => stretch(input)));
    return answered(live, 'stretch', answer);
  } catch (error) {
    assertFailure(error);
    const lost = lostRecord(live, error);
    if (lost !== undefined) return lost;
    // An interruption has ended the stretch before anything was done in it.
    if (isWithdrawn(error) && !live.work.consideredCancelled) return { turns: [] };
    throw asCancelled(error);
  }
}

/** Most times that a run begins anew because its worker was lost before anything was on record. */
const MOST_BEGINNINGS = 20;

/** Checks the spec, and takes over what was done with it. @param alone the run does the rest itself */
export async function begin(live: LiveRun, tries = 1, ...alone: [] | [alone: true]): Promise<void> {
  const { prepareRun } = beginActivities(
    alone.length > 0 ? 'check the spec' : 'check the spec, then go on from turn 1 as far as it may',
  );
  const scope = new CancellationScope();
  try {
    const answer = await live.stretching.during(scope, () => scope.run(() => prepareRun(live.spec, ...alone)));
    take(live, answered(live, 'prepareRun', answer));
  } catch (error) {
    assertFailure(error);
    // A message interrupted before a worker took the activity. The first model step is to read the message.
    if (isWithdrawn(error) && !live.work.consideredCancelled) return await begin(live, tries, true);
    const lost = lostRecord(live, error);
    if (lost === undefined) throw asCancelled(error);
    const { prepared, found, times, turns } = lost;
    if (prepared !== undefined) return take(live, { ...prepared, ...defined({ found, times }), turns });
    if (tries >= MOST_BEGINNINGS) throw error;
    await begin(live, tries + 1, ...alone);
  }
}

function take(live: LiveRun, { found, times, turns, failed, ...prepared }: BegunRun): void {
  live.prepare(prepared, times && timeOf(live, Math.max(live.run.startedAt, times.prepared)));
  const said = live.journal.transcriptLength;
  if (found !== undefined) live.begun = { said, found, ...defined({ times, turns, failed }) };
}

function inputOf(live: LiveRun, step: ModelStepInput, bounds: StretchBounds): StretchInput {
  const { prepared, run, spec, decidedIn, turnsLeft } = live;
  const proofs = stretchServers(prepared).flatMap(({ name }) => {
    const { authorizations } = grantProofs(live, name);
    return authorizations === undefined ? [] : [[name, authorizations] as const];
  });
  return stretchInput({
    step,
    run,
    prepared,
    bounds: { ...bounds, turns: Math.min(bounds.turns, turnsLeft) },
    decidedIn,
    ...(proofs.length === 0 ? {} : { authorizations: Object.fromEntries(proofs) }),
    ...live.signedSpec,
    ...defined({ grants: spec.grants }),
  });
}

/** In mode `signed` nothing that Temporal says is proven. @throws ApplicationFailure if the record has a wrong form */
function lostRecord(live: LiveRun, error: unknown): BeginRecord | undefined {
  const cause = error instanceof ActivityFailure ? error.cause : undefined;
  if (live.isSigned || !(cause instanceof TimeoutFailure)) return undefined;
  const details: unknown = cause.lastHeartbeatDetails;
  // Calls may have left by it: a worker that has the key takes it over.
  assertReadable(details);
  if (details === undefined || details === null) return { turns: [] };
  // Calls may have left that it does not name.
  if (!isAnswerOf('stretch', details)) throw failureOf('INTERNAL', 'The record of a stretch has a wrong form.');
  // Sound: it has every field that is read.
  return details as BeginRecord;
}

/** True if the activity was cancelled, or failed in a try after which Temporal made no other because it was. */
function isWithdrawn(error: unknown): boolean {
  return isCancellation(error) || (error instanceof ActivityFailure && error.retryState === 'CANCEL_REQUESTED');
}

function asCancelled(error: unknown): unknown {
  return isWithdrawn(error) && !isCancellation(error)
    ? new CancelledFailure('The step failed, and was no longer wanted.')
    : error;
}

/** Takes a turn's calls over, and closes it if all have ended. @throws ApplicationFailure if one was not to leave */
export function takeOver(live: LiveRun, turn: StretchedTurn): void {
  const answeredAt = timeOf(live, turn.at);
  try {
    for (const { at, apply } of deedsOf(turn.calls ?? [])) live.commit(apply(live.run), timeOf(live, at));
  } catch (error) {
    // This counts as no answer: the error itself would fail the workflow task for ever (docs/adr/0046).
    if (error instanceof NotToLeave) throw failureOf('INTERNAL', error.message);
    throw error;
  }
  if (turn.calls !== undefined) live.stretched = withStretched(live.stretched, live.run, turn.calls, answeredAt);
  for (const call of turn.calls ?? []) if (!isConcluded(call.result)) live.told.set(call.callId, call);
  if (isOver(turn)) live.closeTurn(resultsOf(live.run));
}

/** A time of a worker's clock as the ledger takes it: never before the entry before, never later than now. */
export function timeOf({ journal }: LiveRun, at: number): number {
  return Math.min(Date.now(), Math.max(at, lastAt(journal, at)));
}

/** What the execution before has recorded is not at hand; it was before this one started. */
function lastAt({ lastAt: own, ledgerFrom }: LiveRun['journal'], at: number): number {
  const startedAt = workflowInfo().startTime.getTime();
  if (own > 0 || ledgerFrom === 0 || at >= startedAt) return own;
  return patched('as-documented') ? startedAt : own;
}
