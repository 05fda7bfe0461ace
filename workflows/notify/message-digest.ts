/**
 * The workflow `messageDigest` gathers for a time what several runs have to tell to one channel and one set of people,
 * and has it sent as one message (docs/adr/0086).
 *
 * It does not own what is told: it has pointers alone, and `activities/notify/digest.ts` reads the runs.
 * 1. It ends with a message. What comes while that is under way is gathered anew, for the same time.
 *    Where there is no room for all, the oldest are only counted: they are the likeliest to be decided by now.
 * 2. A message of a run that is handed over twice counts once, and its result tells which it had.
 * 3. What cannot be read is counted, and what is no pointer is left out. Neither stops anything.
 * 4. If a message fails, what came meanwhile is told all the same, and the digest fails at its end.
 * 5. It continues as new before its history is too long, also within its time: that may be a day, and Temporal takes
 *    10,000 signals. A failure is not handed on; metric and log have told it.
 * 6. It belongs to no build, as a ticket (`workflows/gate/call-ticket.ts`).
 */
import type { TemporalFailure } from '@temporalio/common';
import {
  condition,
  defineSignal,
  makeContinueAsNewFunc,
  proxyActivities,
  setHandler,
  setWorkflowOptions,
  sleep,
  workflowInfo,
} from '@temporalio/workflow';
import { SIGNALS } from '../../contracts/names.ts';
import { isUndecodable } from '../../contracts/payload-converter.ts';
import type { DigestCarry } from '../../contracts/schemas/notify.ts';
import type { RunActivities } from '../../contracts/wire/activities.ts';
import { parseDigest, parseDigestCarry, parseGathered } from '../../domain/shapes/inputs.ts';
import { pageOf } from '../../domain/text/page.ts';
import { parsed } from '../entity/entity.ts';
import { ofNoBuild } from '../entity/roll.ts';
import { assertFailure, seenAtStart } from '../entity/unread.ts';

const gatherSignal = defineSignal<[unknown]>(SIGNALS.gather);

/** Messages of runs that one digest has room for. Each lists up to twenty requests. */
const MOST_GATHERED = 1_000;
/** Messages of runs that are known again in the next execution. */
const MOST_KEYS = 2_000;

/**
 * @param carried by the execution before
 * @returns the keys of the messages that it has told, or that were over by then
 * @throws the failure of the last message that failed, if no other execution follows
 */
export async function messageDigest(given: unknown, carried?: unknown): Promise<readonly string[]> {
  const { seconds, tenant, channel, to } = parsed(parseDigest(seenAtStart(given)), 'MESSAGE_INVALID');
  const carry: DigestCarry =
    carried === undefined
      ? { gathered: [], left: 0, keys: [], round: 0, restMs: seconds * 1_000 }
      : parsed(parseDigestCarry(seenAtStart(carried)), 'MESSAGE_INVALID');
  const keys = new Set(carry.keys);
  let waiting = [...carry.gathered];
  /** Counts what comes, whether it can be read or not: what may be read changes with the keys of a worker. */
  let came = 0;
  let uncounted = carry.left;
  const gather = (input: unknown): void => {
    came += 1;
    const read = parseGathered(input);
    if (isUndecodable(input)) uncounted += 1;
    if (read.kind === 'bad' || keys.has(read.value.key)) return;
    keys.add(read.value.key);
    waiting.push(read.value);
  };
  setHandler(gatherSignal, gather, { description: 'A run has something to tell' });
  /** Takes what waits. Where there is no room for all, the newest. */
  const taken = (): Pick<DigestCarry, 'gathered' | 'left'> => {
    const newestFirst = pageOf(waiting.slice(-MOST_GATHERED).toReversed());
    const left = waiting.length - newestFirst.length + uncounted;
    waiting = [];
    [came, uncounted] = [0, 0];
    return { gathered: newestFirst.toReversed(), left };
  };
  const isLong = (): boolean => workflowInfo().continueAsNewSuggested;
  const next = makeContinueAsNewFunc<typeof messageDigest>();
  let failure: TemporalFailure | undefined;
  let { round, restMs } = carry;
  for (;;) {
    const end = Date.now() + restMs;
    const window = sleep(restMs, { summary: `gathers messages for ${channel}` });
    const isOver = await Promise.race([window.then(() => true), condition(isLong).then(() => false)]);
    restMs = isOver ? seconds * 1_000 : Math.max(1, end - Date.now());
    if (isOver) {
      round += 1;
      try {
        await digestActivities(`tells ${channel}`).sendDigest({ tenant, channel, to, round, ...taken() });
      } catch (error) {
        assertFailure(error);
        failure = error;
      }
      if (came === 0) break;
    }
    if (isLong()) return await next(given, { ...taken(), keys: [...keys].slice(-MOST_KEYS), round, restMs });
  }
  if (failure !== undefined) throw failure;
  return [...keys];
}

/** Options for a digest. As a message of one run it is tried for an hour; a try reads many runs before it sends. */
function digestActivities(summary: string): Pick<RunActivities, 'sendDigest'> {
  return proxyActivities<RunActivities>({
    startToCloseTimeout: '150s',
    scheduleToCloseTimeout: '1h',
    retry: { initialInterval: '1s', backoffCoefficient: 2, maximumInterval: '5m' },
    summary,
  });
}

setWorkflowOptions(ofNoBuild, messageDigest);
