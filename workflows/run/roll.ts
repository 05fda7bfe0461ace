/**
 * Continues a run as new at a safe point, with requests open (INV-D3).
 *
 * 1. Transcript and ledger are in the artifact store, acknowledged, before they leave this execution.
 * 2. A decision that arrives meanwhile is carried; nothing is dispatched until the next execution.
 */
import { CancelledFailure, isCancellation, makeContinueAsNewFunc, patched, sleep } from '@temporalio/workflow';
import type { ArtifactRef } from '../../contracts/schemas/json.ts';
import type { RunSpecInput } from '../../contracts/schemas/run-spec.ts';
import type { RunResult } from '../../contracts/schemas/run-state.ts';
import type { Carry } from '../../contracts/wire/carry.ts';
import { tasksOf } from '../../domain/legacy-2025/tasks.ts';
import { byteLength } from '../../domain/text/canonical.ts';
import { onCurrentBuild, storeActivities, storeOnce, untilAnswered } from '../entity/roll.ts';
import type { LiveRun } from './live-run.ts';
import { act, settleAll } from './turn.ts';
import { condition } from '../interceptors/condition.ts';

/** Ledger entries passed to the next execution in its input. */
const MOST_CARRIED = 200;
/** The same in bytes; one entry takes up to 25 kB if it holds a long comment. Temporal takes an input of 2 MiB. */
const MOST_CARRIED_BYTES = 524_288;
/**
 * Attempts to find a moment without messages; then the run continues all the same, and a sender whose answer is lost
 * asks again. They are few: each waits for edits under way, and no approved call leaves meanwhile.
 */
const MOST_QUIET_TRIES = 3;

/** Continues as new, by a throw. Returns if the next input would not hold what has come: the run then goes on here. */
export async function roll(live: LiveRun): Promise<void> {
  live.handOver();
  let stored = await storeOnce(live);
  // Entries that arrived during a slow store are carried with the run, within what one payload holds.
  while (isTooMuch(live, stored.ledgerLength)) stored = await storeOnce(live);
  // The result of a reading of the keys is carried too.
  if (live.keys.isUnderWay) await condition(() => !live.keys.isUnderWay);
  for (let tries = 0; tries < MOST_QUIET_TRIES; tries += 1) {
    const length = live.journal.ledgerLength;
    await untilAnswered();
    // An edit that arrived meanwhile is in the ledger only once it is judged.
    if (live.journal.ledgerLength === length && live.judging.size === 0) break;
  }
  if (live.judging.size > 0) {
    live.takesNoEdits = true;
    await condition(() => live.judging.size === 0);
    await untilAnswered();
  }
  // Temporal forgets a cancellation that this execution has received and not acted on.
  if (live.work.consideredCancelled) throw new CancelledFailure('The run was cancelled while it handed over.');
  const head = live.journal.head(stored.segment, stored.ledgerLength);
  if (live.isTooLarge(head)) {
    await live.takeBack();
    live.takesNoEdits = false;
    return;
  }
  const next = makeContinueAsNewFunc<(spec: RunSpecInput, carry: Carry) => Promise<RunResult>>(onCurrentBuild());
  await next(live.carriedSpec, live.carry(head));
}

function isTooMuch({ journal }: LiveRun, from: number): boolean {
  const to = journal.ledgerLength;
  if (to - from > MOST_CARRIED) return true;
  return byteLength(JSON.stringify(journal.entries(from, to))) > MOST_CARRIED_BYTES && patched('as-documented');
}

/** Stores the whole journal of this execution at its end. Nothing more is recorded once the run is closing. */
export async function storeJournal(live: LiveRun, store = storeActivities()): Promise<ArtifactRef> {
  for (;;) {
    const { segment, ledgerLength } = await storeOnce(live, store);
    if (live.journal.ledgerLength === ledgerLength) return segment;
  }
}

/** True if Temporal's history is the run's whole record, so that nothing is stored at its end (docs/adr/0059). */
export function isKeptByHistory(live: LiveRun): boolean {
  return live.isPrepared && live.prepared.records === 'history' && live.journal.segment === undefined;
}

/** Gives an end its own task if this task answers a message, or (`isAnswering`) one of an earlier task. */
export async function ownTask(live: LiveRun, isAnswering: boolean): Promise<undefined> {
  if (isAnswering) await sleep(1, { summary: 'before the end' });
  for (let tries = 0; live.isAnswering && tries < MOST_QUIET_TRIES; tries += 1)
    await sleep(1, { summary: 'before the end' });
}

// Says what becomes of server tasks if handing over in mid-turn is interrupted, or the run fails.
//
// 1. A stopped run no longer hands over. It follows the tasks of its servers to their end, or polls each once more and
//    cancels it (docs/adr/0041).
// 2. One loop at a time settles a call: the one that has let go of it for the next execution is awaited first.

/** Follows the tasks to their end in this execution, after a cancellation has interrupted handing over. */
export async function endedHere(live: LiveRun): Promise<void> {
  await live.takeBack();
  await act(live);
}

export function isToEndHere(live: LiveRun, error: unknown): boolean {
  return isCancellation(error) && tasksOf(live.run).length > 0;
}

/** Withdraws the tasks of a run that fails: nobody will hear their results. */
export async function withdrawTasks(live: LiveRun): Promise<void> {
  live.work.cancel();
  live.flights.cancel();
  await live.takeBack();
  // The settling itself must not be cancelled, although everything that waits for people or servers is.
  await live.work.run(async () => void (await settleAll(live)));
}
