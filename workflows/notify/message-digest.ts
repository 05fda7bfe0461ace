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
 * 5. It belongs to no build, as a ticket (`workflows/gate/call-ticket.ts`).
 */
import type { TemporalFailure } from '@temporalio/common';
import { defineSignal, proxyActivities, setHandler, setWorkflowOptions, sleep } from '@temporalio/workflow';
import { SIGNALS } from '../../contracts/names.ts';
import { isUndecodable } from '../../contracts/payload-converter.ts';
import type { Gathered } from '../../contracts/schemas/notify.ts';
import type { RunActivities } from '../../contracts/wire/activities.ts';
import { parseDigest, parseGathered } from '../../domain/shapes/inputs.ts';
import { pageOf } from '../../domain/text/page.ts';
import { parsed } from '../entity/entity.ts';
import { ofNoBuild } from '../entity/roll.ts';
import { assertFailure, seenAtStart } from '../entity/unread.ts';

const gatherSignal = defineSignal<[unknown]>(SIGNALS.gather);

/** Messages of runs that one digest has room for. Each lists up to twenty requests. */
const MOST_GATHERED = 1_000;

/**
 * @returns the keys of the messages that it has told, or that were over by then
 * @throws the failure of the last message that failed
 */
export async function messageDigest(given: unknown): Promise<readonly string[]> {
  const { seconds, tenant, channel, to } = parsed(parseDigest(seenAtStart(given)), 'MESSAGE_INVALID');
  const keys = new Set<string>();
  let waiting: Gathered[] = [];
  /** Counts what comes, whether it can be read or not: what may be read changes with the keys of a worker. */
  let came = 0;
  let unreadable = 0;
  const gather = (input: unknown): void => {
    came += 1;
    const read = parseGathered(input);
    if (isUndecodable(input)) unreadable += 1;
    if (read.kind === 'bad' || keys.has(read.value.key)) return;
    keys.add(read.value.key);
    waiting.push(read.value);
  };
  setHandler(gatherSignal, gather, { description: 'A run has something to tell' });
  let failure: TemporalFailure | undefined;
  let round = 0;
  do {
    round += 1;
    await sleep(seconds * 1_000, { summary: `gathers messages for ${channel}` });
    const newestFirst = pageOf(waiting.slice(-MOST_GATHERED).toReversed());
    const gathered = newestFirst.toReversed();
    const left = waiting.length - gathered.length + unreadable;
    waiting = [];
    [came, unreadable] = [0, 0];
    try {
      await digestActivities(`tells ${channel}`).sendDigest({ tenant, channel, to, round, gathered, left });
    } catch (error) {
      assertFailure(error);
      failure = error;
    }
  } while (came > 0);
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
