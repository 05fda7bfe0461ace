/**
 * Asks a server of the legacy era for the answer to a call that another worker has sent (MCP 2025-11-25, transports,
 * "Resumability and Redelivery").
 *
 * It does not own what an answer means (`activities/mcp/classify-result.ts`).
 * 1. No call is sent: only GET with `Last-Event-ID` leaves, and DELETE for the session in the end (INV-X1). Any other
 *    request is refused on its way.
 * 2. Only an answer to the very request counts. A server that mixes its streams up proves nothing of this call, and
 *    events about another request do not move the place of the answer.
 * 3. The asking is bounded: some servers keep events under a name by which they do not find them again, and then stay
 *    silent for ever.
 */
import { setImmediate as immediate, setTimeout as pause } from 'node:timers/promises';
import {
  isJSONRPCErrorResponse,
  isJSONRPCNotification,
  isJSONRPCResultResponse,
  type JSONRPCMessage,
  type JSONRPCNotification,
  type RequestId,
  type StartSSEOptions,
  StreamableHTTPClientTransport,
} from '@modelcontextprotocol/client';
import type { SealedState } from '../../../contracts/schemas/input.ts';
import { isFiniteNumber } from '../../../domain/shapes/inputs.ts';
import type { Egress } from '../../egress/fetch.ts';
import { unknown } from '../classify-failure.ts';
import { isRead, meaningOf, namesOf, quoted, scrubberFor, secretIds } from '../classify-result.ts';
import { type Pulse, startPulse } from '../pulse.ts';
import { isFinalStatus, networkCodeOf } from '../../kit/network.ts';
import {
  answerIn,
  leaveSession,
  LONGEST_RETRY_MS,
  openWire,
  type RawAnswer,
  RESUME,
  transportOptions,
  type Wire,
} from '../session.ts';
import type { McpReach } from '../mcp-server.ts';
import type { CallEnding, CallProgress, ResumePoint, ServerConnection, ToolCall } from '../port.ts';
import { begunTask, isTaskAnswer } from './tasks.ts';

export interface AskedAnswer extends Omit<
  ToolCall,
  'arguments' | 'idempotencyKey' | 'input' | 'noInput' | 'people' | 'task'
> {
  readonly point: ResumePoint;
  readonly resume: SealedState;
  /** The answer may be a task: its session is then left open. */
  readonly mayBeTask?: true;
}

/** Its holder can learn the result of a call, and cannot send one. */
export type AnswerSource = ReturnType<typeof createMcpAnswerSource>;

const LOST = 'the worker that had sent it was lost';

export function createMcpAnswerSource({ artifacts, egress }: McpReach) {
  return {
    async resume(connection: ServerConnection, asked: AskedAnswer): Promise<CallEnding> {
      const { point, heartbeat, seal, resume } = asked;
      const scrub = scrubberFor(connection, secretIds(point.sessionId));
      const names = namesOf(connection, asked, (text) => quoted(scrub, text));
      const from: CallProgress = { phase: 'sent', sentAt: point.sentAt, resume };
      const pulse = startPulse({ heartbeat, ...(seal && { seal }) }, from);
      // The point is kept with the token that this worker shows, because the next worker must know that token too.
      pulse.keep(point);
      try {
        const answer = await answerTo({ ...asked, egress, connection, pulse });
        if (answer.kind === 'none') {
          const { reason, unauthorized } = answer;
          return { ...unknown(names, `${LOST}, and ${reason}`), ...(unauthorized && { unauthorized }) };
        }
        const { sessionId, protocolVersion: version } = point;
        const trace = { kind: 'answered', answer, session: { sessionId, version } } as const;
        const task = asked.mayBeTask && begunTask(trace, names, (ids) => scrubberFor(connection, ids));
        // Questions that the server asked of the lost worker are unknown here, so no error proves that the call did not
        // run.
        return task ?? (await meaningOf(answer, asked, { artifacts, scrub, names, asked: !isRead(asked) }));
      } finally {
        pulse.stop();
      }
    },
  };
}

interface AnswerStreamOptions extends Pick<AskedAnswer, 'point' | 'signal' | 'timeoutMs' | 'isHandedOn' | 'mayBeTask'> {
  readonly connection: ServerConnection;
  readonly pulse: Pulse;
  readonly egress: Egress;
}

type SoughtAnswer =
  | RawAnswer
  /**
   * `reason` continues a text after "and …". `unauthorized`: another token may bring the answer, and the session is
   * left open.
   */
  | { readonly kind: 'none'; readonly reason: string; readonly unauthorized?: true };

async function answerTo(options: AnswerStreamOptions): Promise<SoughtAnswer> {
  const { connection, point, egress, signal, timeoutMs } = options;
  const wire = openWire({ egress, server: connection });
  const stream = new AnswerStream(options, wire);
  const late = setTimeout(() => stream.end(none('the server did not give its answer in time')), timeoutMs);
  let isHandedOn = false;
  const onCancel = (): void => {
    isHandedOn = options.isHandedOn?.() === true;
    stream.end(none(isHandedOn ? 'so is the one that asked for its answer' : 'nobody waits for its answer any more'));
  };
  signal.addEventListener('abort', onCancel, { once: true });
  if (signal.aborted) onCancel();
  let answer: SoughtAnswer | undefined;
  try {
    answer = await stream.ask(point.eventId);
    return answer;
  } finally {
    clearTimeout(late);
    signal.removeEventListener('abort', onCancel);
    // The session stays for the next worker that asks, perhaps with another token, or for the task that the server
    // works on in it.
    const isTask = options.mayBeTask === true && answer !== undefined && isTaskAnswer(answer);
    const isKept = isHandedOn || isTask || (answer?.kind === 'none' && answer.unauthorized === true);
    await leaveSession(stream.transport, wire, isKept ? 'kept' : undefined);
  }
}

class AnswerStream {
  readonly transport: StreamableHTTPClientTransport;
  readonly #options: AnswerStreamOptions;
  readonly #wire: Wire;
  readonly #ended: Promise<SoughtAnswer>;
  #found: SoughtAnswer | undefined;
  #resolve: (answer: SoughtAnswer) => void = () => undefined;
  #onClosed: (pauseMs: number) => void = () => undefined;
  #eventId = '';
  #event = { isForeign: false };
  #silences = 0;

  constructor(options: AnswerStreamOptions, wire: Wire) {
    const { connection, point } = options;
    this.#options = options;
    this.#wire = wire;
    this.#ended = new Promise((resolve) => (this.#resolve = resolve));
    this.transport = new StreamableHTTPClientTransport(new URL(connection.url), {
      fetch: askingOnly(wire.fetch),
      ...transportOptions(connection),
      sessionId: point.sessionId,
      protocolVersion: point.protocolVersion,
      // The end of a stream is reported here, and only this class opens it again.
      reconnectionScheduler: (_, delayMs) => this.#onClosed(delayMs),
      reconnectionOptions: { ...RESUME, maxRetries: 1 },
    });
    this.transport.onmessage = (message) => this.#read(message);
    // The next step reports any error.
    this.transport.onerror = () => undefined;
  }

  end(answer: SoughtAnswer): void {
    this.#found ??= answer;
    this.#resolve(this.#found);
  }

  async ask(eventId: string): Promise<SoughtAnswer> {
    this.#eventId = eventId;
    await this.transport.start();
    // `end` reports its result; it throws nothing.
    void this.#follow();
    return await this.#ended;
  }

  async #follow(): Promise<void> {
    while (this.#found === undefined) {
      const closed = new Promise<number>((resolve) => (this.#onClosed = resolve));
      const failure = await this.#open();
      if (failure?.final !== undefined) return this.end(failure.final);
      const delayMs =
        failure === undefined
          ? Math.min(await Promise.race([closed, this.#ended.then(() => 0)]), LONGEST_RETRY_MS)
          : (failure.afterMs ?? 0);
      // The large message may be of any kind, because this stream brings messages of every kind. A stream that does not
      // open may open later.
      if (failure === undefined && this.#wire.exchange().tooLarge === true)
        return this.end(none('what the server says there is larger than this service reads'));
      // By then `#passed` knows what every event that has come holds.
      await immediate();
      // A server that names no time may be starting again.
      const { initialReconnectionDelay: firstMs, maxReconnectionDelay: lastMs } = RESUME;
      const backoffMs = Math.min(firstMs * 2 ** this.#silences, lastMs);
      this.#silences += 1;
      await Promise.race([pause(Math.max(delayMs, backoffMs), undefined, { ref: false }), this.#ended]);
    }
  }

  /** Undefined: the stream is open. Else it says whether another try is worth it. */
  async #open(): Promise<{ readonly final?: SoughtAnswer; readonly afterMs?: number } | undefined> {
    try {
      // This is `resumeStream` without its last option. The SDK does not reopen a stream that has held any response,
      // and would tell nobody of its end. The method is private; the suite of lost answers fails if this does not reach
      // it.
      const opened: StartSSEOptions = {
        resumptionToken: this.#eventId,
        onresumptiontoken: (eventId) => this.#passed(eventId),
        onRequestStreamEnd: () => this.#onClosed(0),
      };
      // Sound: that is its signature in 2.4.0, which the SDK's types leave out.
      await (this.transport as unknown as Opener)._startOrAuthSse(opened);
    } catch (error) {
      const { status, forbidden, retryAfterMs: afterMs } = this.#wire.exchange();
      if (forbidden !== undefined)
        return { final: none(`the server may not be asked for its answer: ${forbidden.message}`) };
      if (status === 401)
        return { final: { ...none('its server does not accept the token for asking (HTTP 401)'), unauthorized: true } };
      // A 409 means that the lost connection still stands.
      if (status !== undefined && isFinalStatus(status))
        return { final: none(`${reasonFor(status)} (HTTP ${status})`) };
      // A server that cannot be reached may be starting again.
      if (networkCodeOf(error) === undefined && status === undefined)
        return { final: none('its answer could not be asked for') };
      return afterMs !== undefined && (status === 429 || status === 503) ? { afterMs } : {};
    }
    // The SDK takes it for a server without streams, and reports nothing.
    return this.#wire.exchange().status === 405
      ? { final: none('the server gives no answer twice (HTTP 405)') }
      : undefined;
  }

  /** Deferred, so that the next worker that asks does not skip the event which holds the answer. */
  #passed(eventId: string): void {
    const event = { isForeign: false };
    this.#event = event;
    setImmediate(() => {
      if (this.#found !== undefined || event.isForeign) return;
      this.#eventId = eventId;
      this.#silences = 0;
      this.#options.pulse.keep({ ...this.#options.point, eventId });
    });
  }

  #read(message: JSONRPCMessage): void {
    const { point, pulse } = this.#options;
    const { requestId, sentAt } = point;
    const answer = answerIn(message, requestId);
    if (answer !== undefined) return this.end(answer);
    if (isForeign(message, requestId)) this.#event.isForeign = true;
    else if (isProgress(message)) {
      const { progress, total } = message.params ?? {};
      if (isFiniteNumber(progress))
        pulse.say({ phase: 'sent', sentAt, progress, ...(isFiniteNumber(total) ? { total } : {}) });
    }
  }
}

interface Opener {
  _startOrAuthSse(options: StartSSEOptions): Promise<void>;
}

/** True if the message is of another request. The SDK gives each request the progress token of its id. */
function isForeign(message: JSONRPCMessage, requestId: RequestId): boolean {
  if (isJSONRPCResultResponse(message) || isJSONRPCErrorResponse(message)) return message.id !== requestId;
  return isProgress(message) && message.params?.['progressToken'] !== requestId;
}

function isProgress(message: JSONRPCMessage): message is JSONRPCNotification {
  return isJSONRPCNotification(message) && message.method === 'notifications/progress';
}

function reasonFor(status: number): string {
  if (status === 403) return 'the token for asking does not reach so far at its server';
  return status < 400 ? 'its server sends whoever asks elsewhere' : 'the server has its answer no more';
}

function none(reason: string): Extract<SoughtAnswer, { kind: 'none' }> {
  return { kind: 'none', reason };
}

function askingOnly(fetch: Wire['fetch']): Wire['fetch'] {
  return async (url, init) => {
    const asks = init?.method === 'GET' && new Headers(init.headers).has('last-event-id');
    if (!asks && init?.method !== 'DELETE') throw new Error('nothing is sent where an answer is asked for');
    return await fetch(url, init);
  };
}
