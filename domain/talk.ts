/** What people say to a run besides decisions: messages for the model, and that it shall end. */
import type { Say, Stop } from '../contracts/schemas/decision.ts';
import { byteLength, sha256Hex } from './canonical.ts';
import { withoutRefusals } from './repeats.ts';
import { type Change, MOST_ANSWERED, type Run } from './run.ts';

/** UTF-8 bytes of messages (the longest one has as many) that may wait for the end of a turn: they are carried through continue-as-new. */
export const MOST_QUEUED = 393_216;

/** Whether another message may wait; one that was heard before takes no room. */
export function hasRoomFor(run: Run, say: Say): boolean {
  const queued = run.queue.reduce((sum, { text }) => sum + byteLength(text), 0);
  return run.heard.includes(say.messageId) || queued + byteLength(say.text) <= MOST_QUEUED;
}

export function heard(run: Run, say: Say): Change {
  if (run.heard.includes(say.messageId)) return { run, facts: [] };
  return {
    run: { ...run, queue: [...run.queue, say], heard: [...run.heard, say.messageId].slice(-MOST_ANSWERED) },
    facts: [{ kind: 'said', messageId: say.messageId, from: say.from, textHash: sha256Hex(say.text) }],
  };
}

/** The first stop counts; a later one may only say that calls in flight are not waited for after all. */
export function stopped(run: Run, stop: Stop): Change {
  const isHarder = run.stop?.inFlight === 'finish' && stop.inFlight === 'cancel';
  if (run.stop !== undefined && !isHarder) return { run, facts: [] };
  return {
    run: { ...run, stop: run.stop === undefined ? stop : { ...run.stop, inFlight: stop.inFlight } },
    facts: [{ kind: 'stop.requested', by: stop.by, reason: stop.reason, inFlight: stop.inFlight }],
  };
}

/** The queued user messages, taken. */
export function unqueued(run: Run): Run {
  return run.queue.length === 0 ? run : { ...withoutRefusals(run), queue: [] };
}
