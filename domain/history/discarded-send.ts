/**
 * What a history says of one dispatch that a reset has discarded: the run does not know of it any more, and its server may.
 *
 * Pure. Owns which dispatches count as sent, and how that is told to people. Does not own reading histories.
 * 1. A dispatch counts as sent unless the history proves that it was not (INV-X1).
 * 2. What stands in a history came from outside: what does not read as an answer of a dispatch is no proof.
 */
import { isFields } from '../shapes/fields.ts';
import { canonicalJson, sha256Hex } from '../text/canonical.ts';

export type SendEnding =
  /** Proven: nothing has left. */
  | 'unsent'
  /** Its server asked for something, or works on it: the call was sent and has not ended. */
  | 'begun'
  | 'succeeded'
  | 'failed'
  | 'unknown';

export interface DiscardedSend {
  readonly callId: string;
  /** Epoch ms: when it was handed to a worker. */
  readonly at: number;
  /** Temporal run whose history says so. */
  readonly runId: string;
  readonly ending: SendEnding;
}

/** Of the answer of a dispatch that came. */
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
    // A dispatch says so of what it has not sent, and of nothing else.
    case 'cancelled':
      return 'unsent';
    default:
      return 'unknown';
  }
}

/** The same for two calls that do the same: same server, tool and arguments. Undefined where the input of a dispatch does not say. */
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

/** For people who say what became of the call. */
export function describeSend(callId: string, { callId: sent, at, runId, ending }: DiscardedSend): string {
  const which = sent === callId ? 'This call' : `The same call, then ${sent},`;
  return (
    `${which} was handed to a worker at ${new Date(at).toISOString()} in Temporal run ${runId}, before the run was reset. ` +
    `That history says ${SAYS[ending]}. It is not sent again by itself.`
  );
}

/** Where that history is not kept any more. */
export function describeForgotten(): string {
  return (
    'The run was reset, and Temporal has not kept all of its history: ' +
    'nobody can tell whether this call was sent in a part that was discarded. It is not sent by itself.'
  );
}
