/**
 * A history discarded by a reset may show dispatches that the run no longer knows of, although the server may.
 *
 * 1. A dispatch counts as sent unless the history proves that it was not (INV-X1).
 * 2. A history is outside input: an entry that does not read as the result of a dispatch proves nothing.
 */
import type { StretchedTurn } from '../../contracts/wire/stretch.ts';
import { isAnswerOf, isFields } from '../shapes/inputs.ts';
import { callsOf } from '../state/run.ts';
import { canonicalJson, sha256Hex } from '../text/canonical.ts';

export type SendEnding =
  /** Proven: nothing was sent. */
  | 'unsent'
  /** The server asked for something, or works on the call: it was sent and has not ended. */
  | 'begun'
  | 'succeeded'
  | 'failed'
  | 'unknown';

export interface DiscardedSend {
  readonly callId: string;
  /** Time at which a worker got the call, epoch ms. */
  readonly at: number;
  readonly runId: string;
  readonly ending: SendEnding;
}

export function endingOf(result: unknown): SendEnding {
  if (!isFields(result)) return 'unknown';
  switch (result['kind']) {
    case 'not-sent':
    case 'reopen':
    case 'refused':
      return 'unsent';
    case 'input':
    case 'task':
      return 'begun';
    case 'ended':
      return endingOfOutcome(result['outcome']);
    default:
      return 'unknown';
  }
}

function endingOfOutcome(outcome: unknown): SendEnding {
  if (!isFields(outcome)) return 'unknown';
  switch (outcome['kind']) {
    case 'succeeded':
      return 'succeeded';
    case 'failed':
      return outcome['executed'] === false ? 'unsent' : 'failed';
    // A dispatch reports `cancelled` only for a call that it has not sent.
    case 'cancelled':
      return 'unsent';
    default:
      return 'unknown';
  }
}

export interface StretchedSend extends Omit<DiscardedSend, 'runId'> {
  readonly server: string;
  readonly tool: string;
  readonly deed: string | undefined;
}

/** Reads a stretch's record, its result or last heartbeat; undefined if unreadable: then it may name any call. */
export function stretchedSends(record: unknown): readonly StretchedSend[] | undefined {
  const turns = isFields(record) ? record['turns'] : undefined;
  // The first activity of a run may have taken no turn.
  if (isFields(record) && turns === undefined) return [];
  if (!isAnswerOf('stretch', { turns })) return undefined;
  // Sound: it has every field that is read.
  return (turns as readonly StretchedTurn[]).flatMap(({ step, calls = [] }) =>
    calls.map(({ callId, sentAt, result }) => {
      const target = step.judged?.judgements.find((judgement) => judgement.callId === callId)?.target;
      const args = callsOf(step).find((call) => call.callId === callId)?.arguments;
      const { server = '', tool = '' } = target ?? {};
      return { callId, server, tool, at: sentAt, ending: endingOf(result), deed: deedOf({ target, arguments: args }) };
    }),
  );
}

/** Hashes what a call does: server, tool and arguments. Undefined if the dispatch's input lacks one of them. */
export function deedOf(input: unknown): string | undefined {
  if (!isFields(input) || !isFields(input['target']) || !isFields(input['arguments'])) return undefined;
  const { serverUrl, tool } = input['target'];
  return sha256Hex(canonicalJson({ serverUrl, tool, arguments: input['arguments'] }));
}

const SAYS: Readonly<Record<SendEnding, string>> = {
  unsent: 'that it was not sent',
  begun: 'that its server had begun on it',
  succeeded: 'that it succeeded',
  failed: 'that its tool ran and failed',
  unknown: 'not how it ended',
};

export function describeSend(callId: string, { callId: sent, at, runId, ending }: DiscardedSend): string {
  const which = sent === callId ? 'This call' : `The same call, then ${sent},`;
  return (
    `${which} was handed to a worker at ${new Date(at).toISOString()} in Temporal run ${runId}, before the run was reset. ` +
    `That history says ${SAYS[ending]}. It is not sent again by itself.`
  );
}

export function describeForgotten(): string {
  return (
    'The run was reset, and Temporal has not kept all of its history: ' +
    'nobody can tell whether this call was sent in a part that was discarded. It is not sent by itself.'
  );
}
