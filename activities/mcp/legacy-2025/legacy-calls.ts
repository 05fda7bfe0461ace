/**
 * Adds to a call what only servers of MCP 2025-11-25 or before do: make a task of it (`tasks.ts`), or ask people
 * in the middle of it, on the call's own stream (client/elicitation). A question ends with the connection, so the call
 * is held open for it (docs/adr/0040).
 *
 * It owns which requests are answered, and the error for the others. It does not own how people are asked, nor for how
 * long (`activities/gate/legacy-2025/open-question.ts`).
 * 1. People are asked only questions that are understood whole, scrubbed of the secrets that the server was given
 *    (INV-S1): `activities/mcp/input-round.ts`.
 * 2. A question that the server takes back is no longer waited for, and the time of the call goes on.
 * 3. A question that a stream brings twice, for instance after it was resumed, is one question.
 */
import { ProtocolError, ProtocolErrorCode, type RequestId } from '@modelcontextprotocol/client';
import type { ErrorCode } from '../../../contracts/errors.ts';
import type { InputRequests, InputResponse } from '../../../contracts/schemas/input.ts';
import { hashOf } from '../../../domain/text/canonical.ts';
import { refusalIn } from '../classify-failure.ts';
import { readAsked } from '../input-round.ts';
import type { LegacyCalls } from '../mcp-server.ts';
import { begunTask, isTask } from './tasks.ts';

const METHOD = 'elicitation/create';
/** A request holds one question, which has no name of its own. */
export const QUESTION = 'question';

/** Questions of one call that are remembered; beyond them a repeat is a new question. */
const MOST_REMEMBERED = 100;

const answerQuestions: LegacyCalls['answerQuestions'] = (
  { client, transport },
  { people, scrubbed },
  deadline,
  signal,
) => {
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
  // A handler for the method would not do: the SDK takes it only from clients that declare the capability to every
  // server.
  client.fallbackRequestHandler = async ({ method, params = {} }, { mcpReq }) => {
    if (method !== METHOD) throw new ProtocolError(ProtocolErrorCode.MethodNotFound, 'Method not found');
    const asked = readAsked({ inputRequests: { [QUESTION]: { method, params } } }, scrubbed);
    if (asked.kind === 'not-understood') throw new ProtocolError(ProtocolErrorCode.InvalidParams, asked.reason);
    const key = hashOf({ id: mcpReq.id, asked: asked.requests });
    const takenBack = new AbortController();
    const one = known.get(key) ?? { answer: ask(mcpReq.id, asked.requests, takenBack.signal), takenBack };
    if (known.size < MOST_REMEMBERED) known.set(key, one);
    // `notifications/cancelled` takes a question back; the SDK hears it and sends no answer. For a repeated question
    // the last one counts.
    const takeBack = (): void => one.takenBack.abort();
    mcpReq.signal.addEventListener('abort', takeBack, { once: true });
    if (mcpReq.signal.aborted) takeBack();
    return { ...(await one.answer) };
  };
};

export const LEGACY_CALLS: LegacyCalls = { answerQuestions, isTask, begunTask };
