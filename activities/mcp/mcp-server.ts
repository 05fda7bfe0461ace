/**
 * The `ToolServer` on the MCP SDK: one session for each listing and each call.
 *
 * It owns the order of steps, and what is sent again. It does not own connections (`session.ts`), the call itself
 * (`tool-call.ts`), or the meaning of its end (`classify-failure.ts`, `classify-result.ts`).
 * 1. A `tools/call`, or a read of a linked resource, is sent at most once (INV-X1). If the server continues it with
 *    questions, so is each leg (`tool-call.ts`).
 * 2. A second session is opened at most once: if the first never carried the call, or if the server's transport refused
 *    the call for its session or protocol version. It is never opened after the server has asked something.
 * 3. Everything returned is scrubbed (INV-S1); a token lives as long as the session it was given to.
 */
import { defined } from '../../contracts/defined.ts';
import type { ArtifactStore } from '../artifacts/port.ts';
import { ConnectFailure, createPriors, openSession, type Priors, type Session, type SessionOptions, takesTasks } from './session.ts';
import type { Egress, GuardedFetch } from '../egress/fetch.ts';
import { type Pulse, startPulse } from './pulse.ts';
import type { Scrubber } from '../scrubbing/scrubber.ts';
import {
  endingOfConnect,
  endingOfFailure,
  faultOf,
  isSessionRefusal,
  type Names,
  type Trace,
  withFault,
} from './classify-failure.ts';
import { meaningOf, isRead, namesOf, oversized, quoted, scrubberFor, secretIds } from './classify-result.ts';
import type { Exchange } from './transport.ts';
import { listTools } from './listing.ts';
import type { CallEnding, ServerConnection, ToolCall, ToolServer } from './port.ts';
import { type LegacyCalls, type Questions, sendCall, sendLegs } from './tool-call.ts';

/**
 * A server that has not greeted by then counts as down. Nothing was sent, so a later attempt is safe. A call may take
 * two sessions, and both must fit into what its activity has beside the call's own time (30 s).
 */
const CONNECT_MS = 10_000;

export interface McpToolServerOptions {
  readonly artifacts: ArtifactStore;
  readonly egress: Egress;
  /** Replaces the guarded fetch, for tests. */
  readonly fetch?: GuardedFetch;
  readonly connectMs?: number;
  /** Without it, servers of 2025-11-25 and before get plain calls: no task, and no question is answered. */
  readonly legacy?: LegacyCalls;
}

/** A stream brings messages of every kind, and nobody knows which of them was too large. */
function isAnswerTooLarge({ tooLarge, status, streamed }: Exchange): boolean {
  return tooLarge === true && status === 200 && streamed !== true;
}

/** One call, over all sessions that it takes. */
interface Sending extends Pick<Questions, 'scrubbed'> {
  readonly names: Names;
  readonly pulse: Pulse;
  /** Their ids are secret. */
  readonly sessions: string[];
  readonly priors: Priors;
  readonly options: Pick<SessionOptions, 'connectMs' | 'egress' | 'fetch'>;
  readonly legacy: LegacyCalls | undefined;
}

export function createMcpToolServer({
  artifacts,
  egress,
  fetch,
  legacy,
  connectMs = CONNECT_MS,
}: McpToolServerOptions): ToolServer {
  const priors = createPriors();
  const options = { connectMs, egress, ...defined({ fetch }) };
  return {
    list(connection, signal, { known = false } = {}) {
      const scrub = scrubberFor(connection);
      const quote = (text: string): string => quoted(scrub, text);
      return listTools({ connection, signal, priors, known, scrub, quote, ...options });
    },

    async call(connection, call) {
      const sessions: string[] = [];
      const scrubberWith = (states: readonly string[]): Scrubber => scrubberFor(connection, [...states, ...sessions]);
      let scrub = scrubberWith(call.input?.leg?.state === undefined ? [] : [call.input.leg.state]);
      const names = namesOf(connection, call, (text) => quoted(scrub, text));
      const pulse = startPulse(call);
      const renewing = keepingUp(connection, pulse);
      const scrubbed = (value: unknown): unknown => scrubberWith([]).value(value);
      const sending: Sending = { names, pulse, sessions, scrubbed, priors, options, legacy };
      const send = async (leg: ToolCall): Promise<CallEnding | Trace> => await attempt(renewing, leg, true, sending);
      try {
        const { ended, states } = await sendLegs(call, { names, scrubberWith, send });
        scrub = scrubberWith(states);
        if (ended.kind === 'failed') {
          const ending = isAnswerTooLarge(ended.exchange) ? oversized() : endingOfFailure(ended, names);
          return withFault(ending, faultOf(ended, 'call'));
        }
        if (ended.kind !== 'answered') return ended;
        const task = legacy?.begunTask(ended, names, (ids) => scrubberWith([...states, ...ids]));
        return task ?? (await meaningOf(ended.answer, call, { artifacts, scrub, names, asked: ended.asked }));
      } finally {
        pulse.stop();
      }
    },
  };
}

async function attempt(
  connection: ServerConnection,
  call: ToolCall,
  known: boolean,
  sending: Sending,
): Promise<CallEnding | Trace> {
  const { names, pulse, sessions, scrubbed, priors, legacy } = sending;
  let session: Session;
  try {
    session = await open(connection, call, known, sending);
  } catch (error) {
    if (!(error instanceof ConnectFailure)) throw error;
    const { cause, exchange, stopped } = error;
    const fault = faultOf({ error: cause, exchange, stopped }, 'asking');
    return withFault(endingOfConnect(cause, exchange, stopped, names), fault);
  }
  sessions.push(...secretIds(session.transport.sessionId));
  if (call.task?.only === true && !takesTasks(session)) {
    await session.close();
    const message = `Tool "${names.tool}" can only be called as a task, and server "${names.server}" takes no tasks (MCP 2025-11-25, capability tasks.requests.tools.call) by now; it was not called.`;
    return { kind: 'refused', code: 'TOOL_REFUSED', message };
  }
  let trace: Trace | undefined;
  try {
    trace = await sendCall(session, call, pulse, { scrubbed, legacy });
  } finally {
    await session.close(trace !== undefined && legacy?.isTask(trace) === true ? 'kept' : undefined);
  }
  if (!known || trace.asked === true || !isSessionRefusal(trace)) return trace;
  priors.forget(connection);
  return await attempt(connection, call, false, sending);
}

/** Opens a session with the remembered facts about the server, and drops those that turn out wrong. */
async function open(
  connection: ServerConnection,
  call: ToolCall,
  known: boolean,
  { priors, options }: Sending,
): Promise<Session> {
  const common = { connection, signal: call.signal, asks: asksOf(connection, call), ...options };
  const prior = known ? priors.recall(connection) : undefined;
  if (prior !== undefined) {
    try {
      return await openSession({ ...common, ...prior });
    } catch (error) {
      if (!(error instanceof ConnectFailure) || error.stopped !== undefined) throw error;
      priors.forget(connection);
    }
  }
  const session = await openSession(common);
  priors.learn(connection, session);
  return session;
}

/**
 * Says how the session declares that people may be asked. A task and a read never ask people by their connection. Their
 * server is still told the same as for the listing; otherwise it would not have the tool. A call whose run cannot hold
 * it open is not told so: the call would begin, and its question be refused.
 */
function asksOf({ asks }: ServerConnection, call: ToolCall): SessionOptions['asks'] {
  if (call.people !== undefined) return 'heard';
  return asks === true && (call.task !== undefined || isRead(call)) ? 'declared' : undefined;
}

/** Leaves a renewed token behind too, in case this worker is lost after its server has seen that token. */
function keepingUp(connection: ServerConnection, pulse: Pulse): ServerConnection {
  const { renewal } = connection;
  if (renewal === undefined) return connection;
  const mint: typeof renewal.mint = async (refused) => {
    const token = await renewal.mint(refused);
    pulse.keepAgain();
    return token;
  };
  return { ...connection, renewal: { ...renewal, mint } };
}
