/**
 * What a server of MCP 2025-11-25 or before asks in the middle of a call, on the call's own stream (client/elicitation). The
 * question ends with the connection, so the call is held open for it (docs/adr/0040).
 *
 * Owns which requests are answered, and with what error where they are not. Does not own how people are asked, nor for how long
 * (`activities/gate/legacy-2025/open-question.ts`).
 * 1. Only where the call may ask people, which its session was told; sampling and roots are never declared, and not answered.
 * 2. People are asked what is understood whole, and scrubbed of what the server was given (INV-S1): `activities/mcp/input-round.ts`.
 * 3. Whether the server was given the answer is told to whoever asked people.
 * 4. What the server takes back is waited for no longer, and the time of the call goes on.
 * 5. A question that a stream brings twice, as after it was resumed, is one question.
 */
import { ProtocolError, ProtocolErrorCode, type RequestId } from '@modelcontextprotocol/client';
import type { ErrorCode } from '../../contracts/errors.ts';
import type { InputRequests, InputResponse } from '../../contracts/schemas/input.ts';
import { hashOf } from '../../domain/text/canonical.ts';
import { readAsked } from './input-round.ts';
import { refusalIn } from './classify-failure.ts';
import type { AskPeople } from './port.ts';
import type { Session } from './session.ts';

const METHOD = 'elicitation/create';
/** There is one question in a request, and it has no name. */
export const QUESTION = 'question';

/** Of one call: more are not held in mind, so that a repeat is a new question. */
const MOST_REMEMBERED = 100;

export interface Questions {
  readonly people: AskPeople;
  /** Takes secrets out of a JSON value. */
  readonly scrubbed: (value: unknown) => unknown;
}

/** @param signal the call is over */
export function answerQuestions(
  { client, transport }: Pick<Session, 'client' | 'transport'>,
  { people, scrubbed }: Questions,
  deadline: CallDeadline,
  signal: AbortSignal,
): void {
  const known = new Map<string, { readonly answer: Promise<InputResponse>; readonly takenBack: AbortController }>();
  const saying = new Map<RequestId, (code: ErrorCode | undefined) => void>();
  transport.onSaid = (id, failure) => {
    saying.get(id)?.(failure && (refusalIn(failure.error, {}, () => '')?.code ?? 'TOOL_UNAVAILABLE'));
    saying.delete(id);
  };
  const ask = async (id: RequestId, requests: InputRequests, takenBack: AbortSignal): Promise<InputResponse> => {
    const goOn = deadline.hold();
    const said = new Promise<ErrorCode | undefined>((resolve) => saying.set(id, resolve));
    try {
      return await people(requests, AbortSignal.any([signal, takenBack]), said);
    } finally {
      goOn();
    }
  };
  // Not a handler for the method: that is for clients which declare the capability whatever their server speaks.
  client.fallbackRequestHandler = async ({ method, params = {} }, { mcpReq }) => {
    if (method !== METHOD) throw new ProtocolError(ProtocolErrorCode.MethodNotFound, 'Method not found');
    const asked = readAsked({ inputRequests: { [QUESTION]: { method, params } } }, scrubbed);
    if (asked.kind === 'not-understood') throw new ProtocolError(ProtocolErrorCode.InvalidParams, asked.reason);
    const key = hashOf({ id: mcpReq.id, asked: asked.requests });
    const takenBack = new AbortController();
    const one = known.get(key) ?? { answer: ask(mcpReq.id, asked.requests, takenBack.signal), takenBack };
    if (known.size < MOST_REMEMBERED) known.set(key, one);
    // By `notifications/cancelled`, which the SDK hears: then it sends no answer. The last one of a question that came twice is heard.
    const takeBack = (): void => one.takenBack.abort();
    mcpReq.signal.addEventListener('abort', takeBack, { once: true });
    if (mcpReq.signal.aborted) takeBack();
    return { ...(await one.answer) };
  };
}

/**
 * The time that a call has, which stands still while people are asked.
 */
export interface CallDeadline {
  /** Stands still from now on. @returns what lets it run again; as many as there are must do so */
  hold(): () => void;
  /** For how long it has stood still so far. */
  heldMs(): number;
  stop(): void;
}
