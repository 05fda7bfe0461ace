/**
 * Continue-as-new at a safe point, with requests open (INV-D3).
 *
 * 1. Transcript and ledger stand in the artifact store, acknowledged, before they leave this execution.
 * 2. A decision that arrives meanwhile is carried; nothing is dispatched until the next execution.
 */
import {
  allHandlersFinished,
  CancelledFailure,
  condition,
  makeContinueAsNewFunc,
  sleep,
  workflowInfo,
} from '@temporalio/workflow';
import type { RunActivities } from '../contracts/activities.ts';
import type { ArtifactRef } from '../contracts/schemas/json.ts';
import type { RunResult } from '../contracts/schemas/run-state.ts';
import type { RunSpecInput } from '../contracts/schemas/run-spec.ts';
import type { Carry } from '../domain/carry.ts';
import { rollReason, type RollReason } from '../domain/rollover.ts';
import { storeActivities } from './activity-stubs.ts';
import type { LiveRun } from './live-run.ts';
import { answered, type Answering } from './unread.ts';

/** A run that is spoken to without a pause continues all the same; a sender whose answer is lost then asks again. */
const MOST_TRIES = 3;

/** Ledger entries that the next execution is given in its input; up to 13 kB each where a long comment is among them. */
const MOST_CARRIED = 200;

export function wantsToRoll(live: LiveRun): boolean {
  return reasonToRoll(live) !== undefined;
}

function reasonToRoll(live: LiveRun): RollReason | undefined {
  const { nudged, updates, run, turnAtStart } = live;
  const { continueAsNewSuggested: suggested } = workflowInfo();
  if (!live.isPrepared) return rollReason({ nudged, updates, suggested });
  const turns = { had: run.turn - turnAtStart, most: live.prepared.limits.turnsPerExecution };
  return rollReason({ nudged, updates, turns, suggested });
}

/** Never returns: continue-as-new is thrown. */
export async function roll(live: LiveRun): Promise<never> {
  live.rolling = true;
  live.commit({
    run: live.run,
    facts: [{ kind: 'run.rolled', turn: live.run.turn, because: reasonToRoll(live) ?? 'request' }],
  });
  let stored = await storeOnce(live);
  // What the store's own delay let in goes with the run, within what one payload takes.
  while (live.journal.ledgerLength - stored.ledgerLength > MOST_CARRIED) stored = await storeOnce(live);
  // What it says of the keys is carried.
  if (live.isReadingTrust) await condition(() => !live.isReadingTrust);
  for (let tries = 0; tries < MOST_TRIES; tries += 1) {
    const length = live.journal.ledgerLength;
    await condition(allHandlersFinished);
    // A task of its own, so that no decision is answered in the task that ends this execution (temporalio/temporal#6375).
    await sleep(1, { summary: 'before continue-as-new' });
    // An edit that came meanwhile is in the ledger only once it is judged.
    if (live.journal.ledgerLength === length && live.judging.size === 0) break;
  }
  if (live.judging.size > 0) {
    live.takesNoEdits = true;
    await condition(() => live.judging.size === 0);
    await sleep(1, { summary: 'before continue-as-new' });
  }
  // Temporal forgets a cancellation that the execution ending now has heard and not acted on.
  if (live.work.consideredCancelled) throw new CancelledFailure('The run was cancelled while it handed over.');
  const next = makeContinueAsNewFunc<(spec: RunSpecInput, carry: Carry) => Promise<RunResult>>();
  // What was asked first stands in the transcript by now.
  return await next({ ...live.spec, input: [] }, live.carry(live.journal.head(stored.segment, stored.ledgerLength)));
}

/** Puts all that this execution holds into the artifact store, for its end: nothing is recorded any more once it is closing. */
export async function storeJournal(
  live: LiveRun,
  store: Answering<Pick<RunActivities, 'storeSegment'>> = storeActivities(),
): Promise<ArtifactRef> {
  for (;;) {
    const { segment, ledgerLength } = await storeOnce(live, store);
    if (live.journal.ledgerLength === ledgerLength) return segment;
  }
}

/** The segment, and up to where it holds the ledger: more may have come while it was stored. */
export async function storeOnce(
  live: Pick<LiveRun, 'journal' | 'looked'>,
  { storeSegment } = storeActivities(),
): Promise<{ segment: ArtifactRef; ledgerLength: number }> {
  const { journal } = live;
  const { ledgerLength } = journal;
  const stored = await storeSegment({
    workflowId: workflowInfo().workflowId,
    ...(journal.segment === undefined ? {} : { previous: journal.segment }),
    transcript: { from: journal.transcriptFrom, to: journal.transcriptLength },
    ledger: { from: journal.ledgerFrom, to: ledgerLength },
  });
  return { segment: answered(live, 'storeSegment', stored), ledgerLength };
}
