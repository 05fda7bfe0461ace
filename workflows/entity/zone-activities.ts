/**
 * Activities of a workflow that may check what comes back: what may be repeated is scheduled again where it is not proven
 * (docs/adr/0047).
 *
 * 1. A call of a tool is scheduled once, whatever comes of it (INV-X1), and so is what its callers ask for again themselves.
 * 2. Without checking these are the activities of the SDK, with no promise between (INV-D1).
 */
import { ActivityFailure, ApplicationFailure, TimeoutFailure } from '@temporalio/common';
import { type ActivityOptions, proxyActivities, sleep } from '@temporalio/workflow';
import type { ErrorCode } from '../../contracts/errors.ts';
import { ACTIVITIES } from '../../contracts/names.ts';
import { isChecking } from '../interceptors/zone.ts';

/** The first included. With the pauses between, ten are some minutes: workers that are given their keys one after the other are waited for. */
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

/** As `proxyActivities`. */
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
  // Sound: as above; whatever is read of it is an activity.
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

/** A time that somebody waits at the most is over when it is over. */
function isLost(error: unknown, { scheduleToCloseTimeout }: ActivityOptions): boolean {
  if (error instanceof ApplicationFailure) return error.type === UNPROVEN;
  return (
    scheduleToCloseTimeout === undefined && error instanceof ActivityFailure && error.cause instanceof TimeoutFailure
  );
}
