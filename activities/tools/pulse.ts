/**
 * Tells Temporal that a call is alive, and how far it has come.
 *
 * 1. What is new is said at once; the last word is repeated well within the heartbeat timeout (30 s), however silent the server.
 */
import type { CallProgress } from './port.ts';

/** Temporal throttles what is more. */
const EVERY_MS = 5_000;

export interface Pulse {
  say(details: CallProgress): void;
  stop(): void;
}

export function startPulse(heartbeat: (details: CallProgress) => void): Pulse {
  let latest: CallProgress = { phase: 'connecting' };
  heartbeat(latest);
  const timer = setInterval(() => heartbeat(latest), EVERY_MS);
  return {
    say: (details) => {
      latest = details;
      heartbeat(details);
    },
    stop: () => clearInterval(timer),
  };
}

/**
 * An activity that is alive from its first moment to its last. Lists, tokens and stores of others may take longer than Temporal waits
 * for a word, and what Temporal has given up may still be sent.
 */
export function pulsing<Input, Result>(
  heartbeat: (details: CallProgress) => void,
  activity: (input: Input, pulse: Pulse) => Promise<Result>,
): (input: Input) => Promise<Result> {
  return async (input) => {
    const pulse = startPulse(heartbeat);
    try {
      return await activity(input, pulse);
    } finally {
      pulse.stop();
    }
  };
}
