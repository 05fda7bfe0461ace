/**
 * Short questions about a task in the session in which it was begun: nothing is agreed on anew, and the session goes on afterwards.
 *
 * Owns the requests. Does not own what is asked (`mcp-tasks.ts`).
 * 1. The SDK's client is left out: it has no tasks, and takes up no session without its own memory of the handshake.
 * 2. Each request has its time; no connection stands between two polls.
 */
import type { GuardedFetch, Egress } from '../egress/fetch.ts';
import type { ServerConnection, TaskId } from './port.ts';
import { firstId, leaveSession, RESUME, withoutStandingStream } from './session.ts';
import type { Stop, Trace } from './tool-call.ts';
import { SessionTransport } from './transport.ts';
import { openWire } from './wire.ts';

export interface TaskLink {
  ask(method: 'tasks/get' | 'tasks/result' | 'tasks/cancel', ms: number): Promise<Trace>;
  /** @param kept the task is not over: its session is left open */
  close(kept?: 'kept'): Promise<void>;
}

export interface TaskLinkOptions {
  readonly connection: ServerConnection;
  readonly id: TaskId;
  readonly signal: AbortSignal;
  readonly egress: Egress;
  readonly fetch?: GuardedFetch;
}

export async function openTaskLink({ connection, id, signal, egress, fetch }: TaskLinkOptions): Promise<TaskLink> {
  const { accessToken } = connection;
  const wire = openWire({ egress, server: connection, ...(fetch === undefined ? {} : { fetch }) });
  const transport = new SessionTransport(new URL(connection.url), {
    fetch: withoutStandingStream(wire.fetch),
    reconnectionOptions: RESUME,
    requestInit: { headers: { ...connection.headers } },
    redirectPolicy: 'same-origin',
    onInsufficientScope: 'throw',
    streaming: () => wire.exchange().streamed === true,
    ...(id.sessionId === undefined ? {} : { sessionId: id.sessionId }),
    ...(id.version === undefined ? {} : { protocolVersion: id.version }),
    ...(accessToken === undefined ? {} : { authProvider: { token: () => Promise.resolve(accessToken) } }),
  });
  let heard: () => void = () => undefined;
  transport.onAnswer = () => heard();
  // Told by what `send` throws; without a listener the transport is as silent.
  transport.onerror = () => undefined;
  await transport.start();
  let next = firstId();
  return {
    async ask(method, ms) {
      const over = new AbortController();
      let stopped: Stop | undefined;
      const answered = new Promise<void>((resolve) => {
        heard = resolve;
        over.signal.addEventListener('abort', () => resolve(), { once: true });
      });
      const stop = (why: Stop): void => {
        stopped ??= why;
        over.abort(new Error(`ended: ${why}`));
      };
      const onCancel = (): void => stop('cancelled');
      transport.onLost = () => stop('lost');
      signal.addEventListener('abort', onCancel, { once: true });
      if (signal.aborted) onCancel();
      const timer = setTimeout(() => stop('deadline'), ms);
      let error: unknown;
      try {
        transport.answer = undefined;
        const request = { jsonrpc: '2.0', id: next, method, params: { taskId: id.taskId } } as const;
        next += 1;
        const sent = transport.send(request, { requestSignal: over.signal });
        await Promise.all([sent, answered]);
      } catch (failure) {
        error = failure;
      } finally {
        clearTimeout(timer);
        signal.removeEventListener('abort', onCancel);
        transport.onLost = undefined;
      }
      const { answer } = transport;
      if (answer !== undefined) return { kind: 'answered', answer };
      return { kind: 'failed', error, stopped, reached: wire.reached(), exchange: wire.exchange() };
    },
    close: (kept) => leaveSession(transport, wire, kept),
  };
}
