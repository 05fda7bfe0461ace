/** Records what people say to a run besides decisions: messages for the model, and the wish to stop. */
import { defined } from '../../contracts/defined.ts';
import { isListing } from '../../contracts/names.ts';
import type { Outcome } from '../../contracts/schemas/call.ts';
import type { Say, Stop } from '../../contracts/schemas/request.ts';
import { elicitationClosed } from '../legacy-2025/open-question.ts';
import { throttledCalls } from '../request/throttling.ts';
import { ended } from '../request/transitions.ts';
import { askingCalls, type Change, isSendable, MOST_ANSWERED, type Run } from '../state/run.ts';
import { byteLength, sha256Hex, shortHashOf } from '../text/canonical.ts';
import { type Refusal, refuse } from '../text/refusal.ts';

/** Most bytes that may wait for a turn's end, as the JSON in which they are carried. One message is taken anyway. */
export const MOST_QUEUED = 393_216;

/** Most messages that may wait. They travel with the run, and one that cannot be carried hands over no more. */
export const MOST_MESSAGES = 500;

/** Refuses a message that finds no room. A message heard before takes no room, but must be the same. */
export function admitSaid(run: Run, say: Say): Refusal | undefined {
  if (run.heard.includes(say.messageId)) return otherThanHeard(run, say);
  // Without the quotes around each.
  const bytes = [...run.queue, say].reduce((sum, { text }) => sum + byteLength(JSON.stringify(text)) - 2, 0);
  const isFull = run.queue.length >= MOST_MESSAGES;
  if (run.queue.length === 0 || (!isFull && bytes <= MOST_QUEUED)) return undefined;
  const most = isFull ? `${MOST_MESSAGES} messages` : `${MOST_QUEUED} bytes`;
  return refuse('LIMIT_REACHED', `More than ${most} would wait for the end of the turn; send it again then.`, {
    limit: 'queue',
  });
}

/** Refuses another message under a known id; asked again while recording, as two may pass the validator in one task. */
export function otherThanHeard({ heard: ids, heardHashes }: Run, say: Say): Refusal | undefined {
  const known = heardHashes[ids.indexOf(say.messageId)];
  if (known === undefined || known === hashOfSaid(say)) return undefined;
  return refuse('MESSAGE_INVALID', `Message id ${say.messageId} was used for another message; send a new id.`, {
    path: 'messageId',
  });
}

export function heard(run: Run, say: Say): Change {
  if (run.heard.includes(say.messageId)) return { run, facts: [] };
  const { interrupt } = say;
  const said: Change = {
    run: {
      ...run,
      queue: [...run.queue, say],
      heard: [...run.heard, say.messageId].slice(-MOST_ANSWERED),
      heardHashes: [...run.heardHashes, hashOfSaid(say)].slice(-MOST_ANSWERED),
    },
    facts: [
      {
        kind: 'said',
        messageId: say.messageId,
        from: say.from,
        textHash: sha256Hex(say.text),
        ...defined({ interrupt }),
      },
    ],
  };
  const withdrawn = interrupted(said.run);
  return { run: withdrawn.run, facts: [...said.facts, ...withdrawn.facts] };
}

/**
 * Withdraws what a waiting interruption overtakes: open requests and throttled calls. Calls in flight end by
 * themselves; a question on an open connection is closed. Lists of tools go on, since no model reads the message
 * without them.
 * @param putOff calls that are to be sent again after a while, or once their client is back; absent in runs of an older
 * build (patch `as-documented`)
 */
export function interrupted(run: Run, putOff: ReadonlySet<string> = new Set()): Change {
  const by = run.queue.find(({ interrupt }) => interrupt === true);
  if (by === undefined) return { run, facts: [] };
  const outcome: Outcome = {
    kind: 'cancelled',
    reason: `${by.from} interrupted with message ${by.messageId}, which follows: read it before you decide what to do.`,
  };
  const asking = askingCalls(run).filter(({ call }) => !isListing(call.callId));
  const later = run.calls.filter((state) => isSendable(state) && putOff.has(state.call.callId));
  return [...asking, ...throttledCalls(run), ...later].reduce<Change>(
    (before, state) => {
      const { callId } = state.call;
      const next =
        state.status === 'asking-on-connection'
          ? elicitationClosed(before.run, callId, 'cancelled')
          : ended(before.run, callId, outcome);
      return { run: next.run, facts: [...before.facts, ...next.facts] };
    },
    { run, facts: [] },
  );
}

/** Records a stop. The first one counts; a later one may only change `finish` to `cancel` for calls in flight. */
export function stopped(run: Run, stop: Stop): Change {
  const isHarder = run.stop?.inFlight === 'finish' && stop.inFlight === 'cancel';
  if (run.stop !== undefined && !isHarder) return { run, facts: [] };
  return {
    run: { ...run, stop: run.stop === undefined ? stop : { ...run.stop, inFlight: stop.inFlight } },
    facts: [{ kind: 'stop.requested', by: stop.by, reason: stop.reason, inFlight: stop.inFlight }],
  };
}

/** The waiting messages are read: what was refused before them may be asked again. */
export function unqueued(run: Run): Run {
  return run.queue.length === 0 ? run : { ...run, refusals: [], queue: [] };
}

function hashOfSaid({ text, from, interrupt }: Say): string {
  return shortHashOf({ text, from, interrupt });
}
