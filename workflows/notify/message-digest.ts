/**
 * The workflow `messageDigest` gathers for a time what several runs have to tell to one channel and one set of people,
 * and has it sent as one message (docs/adr/0086).
 *
 * It does not own what is told: it has pointers alone, and `activities/notify/digest.ts` reads the runs.
 * 1. It ends with a message. What comes while that is under way is gathered anew, for the same time. Where there is no
 *    room for all, the oldest are only counted: they are the likeliest to be decided by now.
 * 2. A message of a run that is handed over twice counts once, and its result tells which it had.
 * 3. What cannot be read is counted, and what is no pointer is left out. Neither stops anything.
 * 4. If a message fails, what came meanwhile is told all the same, and the digest fails at its end.
 * 5. It continues as new before its history is too long, also within its time: that may be a day, and Temporal takes
 *    10,000 signals of one execution. While a message is under way it waits for that.
 * 6. It belongs to no build, as a ticket (`workflows/gate/call-ticket.ts`).
 */
import {
  CancellationScope,
  CancelledFailure,
  defineSignal,
  makeContinueAsNewFunc,
  proxyActivities,
  setHandler,
  setWorkflowOptions,
  sleep,
  workflowInfo,
} from '@temporalio/workflow';
import { failureOf, final } from '../../contracts/failure.ts';
import { SIGNALS } from '../../contracts/names.ts';
import { isUndecodable } from '../../contracts/payload-converter.ts';
import type { Gathered } from '../../contracts/schemas/notify.ts';
import type { RunActivities } from '../../contracts/wire/activities.ts';
import { DIGEST_CARRY_VERSION, type DigestCarry } from '../../contracts/wire/notify.ts';
import { parseDigest, parseGathered } from '../../domain/shapes/inputs.ts';
import { pageOf } from '../../domain/text/page.ts';
import { assertBegun } from '../entity/beginning.ts';
import { parsed } from '../entity/entity.ts';
import { ofNoBuild } from '../entity/roll.ts';
import { assertFailure } from '../entity/unread.ts';
import { condition } from '../interceptors/condition.ts';

/** Messages of runs that one digest has room for. Each lists up to twenty requests. */
const MOST_GATHERED = 1_000;
/** Messages of runs that are known again in the next execution. */
const MOST_KEYS = 2_000;

/**
 * @param carry state of the previous execution; only continue-as-new passes it
 * @returns the keys of the messages that it has told, or that were over by then
 * @throws the failure of the last message that failed; `MESSAGE_UNDELIVERED` if that was in an earlier execution
 */
export async function messageDigest(given: unknown, carry?: DigestCarry | null): Promise<readonly string[]> {
  const read = parseDigest(given);
  assertBegun(given, carry, {
    code: 'MESSAGE_INVALID',
    input: 'What the digest was started with',
    alone: 'A digest is started with one argument',
    versions: [DIGEST_CARRY_VERSION],
    refuse: () =>
      read.kind === 'bad' ? { path: read.path, message: `${read.path || 'The digest'} ${read.reason}` } : undefined,
  });
  const { seconds, tenant, channel, to } = parsed(read, 'MESSAGE_INVALID');
  const windowMs = seconds * 1_000;
  const gathering = new Gathering(carry ?? undefined);
  setHandler(defineSignal(SIGNALS.gather), (input?: unknown) => gathering.take(input), {
    description: 'A run has something to tell',
  });
  /** Only what came makes a history long: an execution to which nothing comes never continues. */
  const isLong = (): boolean => gathering.came > 0 && workflowInfo().continueAsNewSuggested;
  let failure: Error | undefined = carry?.hasFailed === true ? FAILED_EARLIER : undefined;
  let { round, restMs } = carry ?? { round: 0, restMs: windowMs };
  const long = condition(isLong).then(() => false);
  for (;;) {
    const end = Date.now() + restMs;
    const window = sleep(restMs, { summary: `gathers messages for ${channel}` });
    const isOver = await Promise.race([window.then(() => true), long]);
    restMs = isOver ? windowMs : Math.max(1, end - Date.now());
    if (isOver) {
      round += 1;
      try {
        await digestActivities(`tells ${channel}`).sendDigest({ tenant, channel, to, round, ...gathering.handOut() });
      } catch (error) {
        assertFailure(error);
        failure = error;
      }
      if (gathering.came === 0) break;
    }
    if (!isLong()) continue;
    // Temporal forgets a cancellation that this execution has received and not acted on.
    if (CancellationScope.current().consideredCancelled) throw new CancelledFailure('It was cancelled.');
    const keys = [...gathering.keys].slice(-MOST_KEYS);
    const handed = { ...gathering.handOut(), keys, round, restMs, hasFailed: failure !== undefined };
    return await makeContinueAsNewFunc<typeof messageDigest>()(given, { version: DIGEST_CARRY_VERSION, ...handed });
  }
  if (failure !== undefined) throw failure;
  return [...gathering.keys];
}

class Gathering {
  readonly keys: Set<string>;
  /** Counts what comes, whether it can be read or not: what may be read changes with the keys of a worker. */
  came = 0;
  #waiting: Gathered[];
  #onlyCounted: number;

  constructor(carry: Pick<DigestCarry, 'keys' | 'gathered' | 'left'> = { keys: [], gathered: [], left: 0 }) {
    this.keys = new Set(carry.keys);
    this.#waiting = [...carry.gathered];
    this.#onlyCounted = carry.left;
  }

  take(input: unknown): void {
    this.came += 1;
    const read = parseGathered(input);
    if (isUndecodable(input)) this.#onlyCounted += 1;
    if (read.kind === 'bad' || this.keys.has(read.value.key)) return;
    this.keys.add(read.value.key);
    this.#waiting.push(read.value);
  }

  /** Gives what waits. Where there is no room for all, the newest. */
  handOut(): Pick<DigestCarry, 'gathered' | 'left'> {
    const newestFirst = pageOf(this.#waiting.slice(-MOST_GATHERED).toReversed());
    const left = this.#waiting.length - newestFirst.length + this.#onlyCounted;
    this.#waiting = [];
    [this.came, this.#onlyCounted] = [0, 0];
    return { gathered: newestFirst.toReversed(), left };
  }
}

const FAILED_EARLIER = final(
  failureOf('MESSAGE_UNDELIVERED', 'An earlier message of this digest failed. What came later was told.'),
);

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
