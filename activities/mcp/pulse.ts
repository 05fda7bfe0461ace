/**
 * Tells Temporal that a call is alive, how far it has come, and where another worker can ask for its answer.
 *
 * 1. What is new is said at once; the last word is repeated well within the heartbeat timeout (30 s), however silent the server.
 * 2. Where the answer comes is said sealed, or not at all (INV-S1).
 */
import type { CallProgress, ResumePoint, ToolCall } from './port.ts';

/** Temporal throttles what is more. */
const EVERY_MS = 5_000;

/** Longer ones are not kept: heartbeats stand in Temporal's own store. */
const LONGEST_POINT = 2_048;

export interface Pulse {
  say(details: CallProgress): void;
  /** From here on the answer is taken up behind this point. */
  keep(point: ResumePoint): void;
  /** What is sealed with the point has changed: the last one is sealed anew. */
  keepAgain(): void;
  stop(): void;
}

export function startPulse({ heartbeat, seal }: Pick<ToolCall, 'heartbeat' | 'seal'>, from?: CallProgress): Pulse {
  let latest: CallProgress = from ?? { phase: 'connecting' };
  let wanted: ResumePoint | undefined;
  let kept: ResumePoint | undefined;
  let isSealing = false;
  let isOver = false;
  heartbeat(latest);
  const timer = setInterval(() => heartbeat(latest), EVERY_MS);

  /** One at a time, so that an earlier point never takes the place of a later one; those between are left out. */
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
    say: (details) => {
      const { resume = latest.resume } = details;
      latest = resume === undefined || details.phase === 'connecting' ? details : { ...details, resume };
      heartbeat(latest);
    },
    keep,
    keepAgain: () => {
      if (kept !== undefined && !isOver) keep(kept);
    },
    stop: () => {
      isOver = true;
      wanted = undefined;
      clearInterval(timer);
    },
  };
}

/**
 * An activity that is alive from its first moment to its last. Lists, tokens and stores of others may take longer than Temporal waits
 * for a word, and what Temporal has given up may still be sent.
 */
export function pulsing<Input extends { readonly callId: string }, Result>(
  heartbeat: (details: CallProgress & { readonly callId: string }) => void,
  activity: (input: Input, pulse: Pulse) => Promise<Result>,
): (input: Input) => Promise<Result> {
  return async (input) => {
    const { callId } = input;
    // By the id, whoever watches knows which call it is.
    const pulse = startPulse({ heartbeat: (details) => heartbeat({ ...details, callId }) });
    try {
      return await activity(input, pulse);
    } finally {
      pulse.stop();
    }
  };
}
