/**
 * Sends one `tools/call` over an open session and waits for its end.
 *
 * Owns deadline and cancellation. Does not own what an end means (`ending.ts`, `result.ts`).
 *
 * 1. Sent once. Nothing here sends again, whatever happens.
 * 2. An answer that came counts, also where the deadline passed while it was being read.
 * 3. What is told to the server on cancellation is fixed text: a reason of ours may name people or other servers.
 * 4. A server of 2026-07-28 is told with the call itself whether it may ask people, and how. Servers of earlier revisions never
 *    are: their questions die with the call (MCP 2025-11-25, client/elicitation).
 */
import { createHash } from 'node:crypto';
import { CLIENT_CAPABILITIES_META_KEY, SdkError, SdkErrorCode, type Tool } from '@modelcontextprotocol/client';
import type { ToolDefinition } from '../../contracts/schemas/tool.ts';
import { canonicalJson } from '../../domain/canonical.ts';
import type { CallProgress, ToolCall } from './port.ts';
import type { Pulse } from './pulse.ts';
import { NEVER_MS, type Session } from './session.ts';
import type { RawAnswer } from './transport.ts';
import { type Exchange, IDEMPOTENCY_HEADER } from './wire.ts';

/** `_meta` twin of the header, for servers behind something that drops headers. MCP itself has no such key (SEP-3182). */
const IDEMPOTENCY_META = 'countersign/idempotency-key';

export type Stop = 'deadline' | 'cancelled' | 'lost';

export type Trace =
  | { readonly kind: 'answered'; readonly answer: RawAnswer }
  /** No answer that could be read. */
  | {
      readonly kind: 'failed';
      readonly error: unknown;
      readonly stopped: Stop | undefined;
      readonly reached: boolean;
      readonly exchange: Exchange;
    };

const STOP_TEXT: Record<Stop, string> = {
  deadline: 'the deadline of the call has passed',
  cancelled: 'the call was cancelled',
  lost: 'the response stream ended without an answer',
};

export async function sendCall(session: Session, call: ToolCall, pulse: Pulse): Promise<Trace> {
  const { client, transport, wire } = session;
  const ending = new AbortController();
  let stopped: Stop | undefined;
  const stop = (why: Stop): void => {
    stopped ??= why;
    // A reason that is an SdkError comes back as it is; any other is put into a text that legacy servers are sent.
    ending.abort(new SdkError(SdkErrorCode.RequestTimeout, STOP_TEXT[why]));
  };
  const onCancel = (): void => stop('cancelled');
  transport.onLost = () => stop('lost');
  call.signal.addEventListener('abort', onCancel, { once: true });
  if (call.signal.aborted) onCancel();
  const deadline = setTimeout(() => stop('deadline'), call.timeoutMs);

  const sent: CallProgress = { phase: 'sent', sentAt: new Date().toISOString() };
  const key = legKey(call);
  const mayAsk = call.input !== undefined && session.learned.kind === 'modern';
  pulse.say(sent);
  try {
    await client.callTool(
      {
        name: call.definition.name,
        arguments: call.arguments,
        // What is given here goes before what the SDK adds by itself.
        _meta: { [IDEMPOTENCY_META]: key, ...(mayAsk ? { [CLIENT_CAPABILITIES_META_KEY]: ASKING } : {}) },
        ...continuation(call),
      },
      {
        allowInputRequired: true,
        signal: ending.signal,
        timeout: NEVER_MS,
        // Without this no progress token is sent (opencode#21701).
        onprogress: ({ progress }) => pulse.say({ ...sent, progress }),
        headers: { [IDEMPOTENCY_HEADER]: key },
        toolDefinition: unvalidated(call.definition),
      },
    );
  } catch (error) {
    // Read at once: leaving the session makes further exchanges.
    if (transport.answer === undefined) {
      return { kind: 'failed', error, stopped, reached: wire.reached(), exchange: wire.exchange() };
    }
  } finally {
    clearTimeout(deadline);
    call.signal.removeEventListener('abort', onCancel);
    transport.onLost = undefined;
  }
  if (transport.answer === undefined) throw new Error('the MCP client returned without an answer');
  pulse.say({ phase: 'answered' });
  return { kind: 'answered', answer: transport.answer };
}

/** Questions in the terms of a client's capabilities. Sampling and roots are not among them. */
const ASKING = { elicitation: { form: {}, url: {} } };

/** Known to the protocol and the SDK's wire, and missing from the type of `callTool` (2.4.0). */
function continuation({ input }: ToolCall): object {
  if (input?.leg === undefined) return {};
  const { responses, state } = input.leg;
  return {
    ...(Object.keys(responses).length === 0 ? {} : { inputResponses: responses }),
    ...(state === undefined ? {} : { requestState: state }),
  };
}

/**
 * Each leg is a request of its own: under the key of another one a server would give the other one's answer again. The same leg
 * has the same key in every attempt.
 */
function legKey({ idempotencyKey, input }: ToolCall): string {
  const pass = input?.begunAnew === true ? `${idempotencyKey}/anew-${input.dispatch}` : idempotencyKey;
  if (input?.leg === undefined) return pass;
  const { responses, state } = input.leg;
  const hash = createHash('sha256').update(canonicalJson({ responses, state })).digest('hex');
  return `${pass}/${hash.slice(0, 16)}`;
}

/**
 * The pinned definition, from which the SDK mirrors `Mcp-Param-*` headers. Without its output schema, because the SDK answers a
 * violation with the same error as an unknown tool, after the tool has run.
 */
function unvalidated({ name, inputSchema }: ToolDefinition): Tool {
  // Sound: discovery accepts only schemas whose type is "object", and the SDK reads nothing else of a definition given here.
  return { name, inputSchema: inputSchema as Tool['inputSchema'] };
}
