/**
 * Sends the heartbeats of a call: that it is alive, its progress, and where another worker can ask for its answer.
 *
 * 1. News is sent at once. The last heartbeat is repeated well within the heartbeat timeout (30 s), however silent the
 *    server is.
 * 2. The place where the answer comes is sent sealed, or not at all (INV-S1).
 */
import type { CallProgress, ResumePoint, ToolCall } from './port.ts';

/** Temporal throttles more frequent heartbeats. */
const EVERY_MS = 5_000;

/** Most calls end earlier, and cost Temporal no heartbeat. */
const FIRST_MS = 1_000;

/** Longer points are not kept: heartbeats are in Temporal's own store. */
const LONGEST_POINT = 2_048;

export type Pulse = ReturnType<typeof startPulse>;

/** @param latest details to begin with, for instance where a lost worker left off */
export function startPulse(
  { heartbeat, seal }: Pick<ToolCall, 'heartbeat' | 'seal'>,
  latest: CallProgress = { phase: 'connecting' },
) {
  let wanted: ResumePoint | undefined;
  let kept: ResumePoint | undefined;
  let isSealing = false;
  let isOver = false;
  heartbeat(latest);
  const timer = setInterval(() => heartbeat(latest), EVERY_MS);

  /** Seals one point at a time, so that an earlier point never replaces a later one; points in between are left out. */
  const sealWanted = async (sealed: NonNullable<ToolCall['seal']>): Promise<void> => {
    isSealing = true;
    while (wanted !== undefined) {
      const point = wanted;
      wanted = undefined;
      const resume = await sealed(point).catch(() => undefined);
      if (resume === undefined || isOver) continue;
      latest = { ...latest, resume };
      heartbeat(latest);
    }
    isSealing = false;
  };

  const keep = (point: ResumePoint): void => {
    if (seal === undefined || JSON.stringify(point).length > LONGEST_POINT) return;
    kept = point;
    wanted = point;
    if (!isSealing) void sealWanted(seal);
  };

  return {
    say: (details: CallProgress): void => {
      const { resume = latest.resume } = details;
      latest = resume === undefined || details.phase === 'connecting' ? details : { ...details, resume };
      heartbeat(latest);
    },
    /** From now on the answer is taken up after this point. */
    keep,
    /** The authority that is sealed with the point has changed, so the last point is sealed anew. */
    keepAgain: (): void => {
      if (kept !== undefined && !isOver) keep(kept);
    },
    stop: (): void => {
      isOver = true;
      wanted = undefined;
      clearInterval(timer);
    },
  };
}

/**
 * Keeps an activity alive from its first moment to its last. Lists, tokens and stores of others may take longer than
 * Temporal waits for a heartbeat, and a call that Temporal has given up may still be sent.
 */
export function pulsing<Input extends { readonly callId: string }, Result>(
  heartbeat: (details: CallProgress & { readonly callId: string }) => void,
  activity: (input: Input, pulse: Pulse) => Promise<Result>,
): (input: Input) => Promise<Result> {
  return async (input) => {
    const { callId } = input;
    let latest: CallProgress = { phase: 'connecting' };
    let isEarly = true;
    const tell = (details: CallProgress): void => {
      latest = details;
      // The id tells an observer which call it is.
      if (!isEarly) heartbeat({ ...details, callId });
    };
    const first = setTimeout(() => {
      isEarly = false;
      tell(latest);
    }, FIRST_MS);
    const pulse = startPulse({ heartbeat: tell });
    try {
      return await activity(input, pulse);
    } finally {
      clearTimeout(first);
      pulse.stop();
    }
  };
}
