/**
 * Wraps the activities of a workflow that may check their answers: a repeatable activity is scheduled again if its
 * answer is unproven (docs/adr/0047).
 *
 * 1. A tool call is scheduled once, whatever comes of it (INV-X1), and so is every activity that its caller repeats by
 *    itself.
 * 2. A workflow that does not check gets the SDK's own activities, with no promise in between (INV-D1).
 */
import { ActivityFailure, ApplicationFailure, TimeoutFailure } from '@temporalio/common';
import { type ActivityOptions, proxyActivities, sleep } from '@temporalio/workflow';
import type { ErrorCode } from '../../contracts/errors.ts';
import { ACTIVITIES } from '../../contracts/names.ts';
import { isChecking } from '../interceptors/zone.ts';

/**
 * Number of tries, the first included. Ten take some minutes with their pauses, which covers workers that get their
 * keys one after another.
 */
const MOST_TRIES: Readonly<Record<string, number>> = {
  [ACTIVITIES.prepareRun]: 10,
  [ACTIVITIES.judge]: 10,
  [ACTIVITIES.modelStep]: 10,
  [ACTIVITIES.storeSegment]: 10,
  [ACTIVITIES.discoverTools]: 10,
  // Somebody waits for these.
  [ACTIVITIES.discoverCatalog]: 3,
  [ACTIVITIES.readTrust]: 3,
};
const FIRST_PAUSE_MS = 1_000;
const LAST_PAUSE_MS = 60_000;

const UNPROVEN: ErrorCode = 'ANSWER_UNPROVEN';

type Activity = (...args: readonly unknown[]) => Promise<unknown>;

/** Like `proxyActivities`, but checks the answers if the workflow checks. */
export function provenActivities<T extends object>(options: ActivityOptions): T {
  // Sound: `T` names activities, and the proxy has a function of each name.
  const activities = proxyActivities(options) as unknown as T & Readonly<Record<string, Activity>>;
  if (!isChecking()) return activities;
  const handler: ProxyHandler<T> = {
    get: (_, name) => {
      const type = String(name);
      return async (...args: readonly unknown[]) =>
        await asked(type, options, async () => await activities[type]?.(...args));
    },
  };
  // Sound: as above; every property that is read of it is an activity.
  return new Proxy({} as T, handler);
}

async function asked(type: string, options: ActivityOptions, ask: () => Promise<unknown>): Promise<unknown> {
  const most = MOST_TRIES[type] ?? 1;
  for (let tries = 1; ; tries += 1) {
    try {
      return await ask();
    } catch (error) {
      if (tries >= most || !isLost(error, options)) throw error;
    }
    const pause = Math.min(FIRST_PAUSE_MS * 2 ** (tries - 1), LAST_PAUSE_MS);
    await sleep(pause, { summary: `${type} again: what came back is not proven` });
  }
}

/** True if the activity may be scheduled again. A total time that a caller set is not extended when it is over. */
function isLost(error: unknown, { scheduleToCloseTimeout }: ActivityOptions): boolean {
  if (error instanceof ApplicationFailure) return error.type === UNPROVEN;
  return (
    scheduleToCloseTimeout === undefined && error instanceof ActivityFailure && error.cause instanceof TimeoutFailure
  );
}
