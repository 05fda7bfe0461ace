/**
 * The `ToolServer` on the MCP SDK: one session for each listing and each call.
 *
 * Owns the order of things and what is sent again. Does not own connections (`session.ts`), the call itself (`tool-call.ts`), or
 * the meaning of its end (`ending.ts`, `result.ts`).
 *
 * 1. A `tools/call` is sent at most once, each leg of one that the server continues with questions by itself (INV-X1, `legs.ts`). A second session is opened only where the first never carried the call, or
 *    where the server's transport turned it away for its session or protocol version, and then once.
 * 2. A call that ran is reported as executed, whatever its result looks like.
 * 3. Everything returned is scrubbed (INV-S1); a token lives as long as the session it was given to.
 */
import type { ArtifactStore } from '../artifacts/port.ts';
import type { Egress, GuardedFetch } from '../egress/fetch.ts';
import {
  endingOfConnect,
  endingOfError,
  endingOfFailure,
  halfway,
  isV1UnknownTool,
  type Names,
  vanished,
} from './ending.ts';
import { listTools } from './listing.ts';
import type { CallEnding, ServerConnection, ToolCall, ToolServer } from './port.ts';
import { createPriors } from './priors.ts';
import { sendLegs } from './legs.ts';
import { type Pulse, startPulse } from './pulse.ts';
import { isSessionRefusal } from './refusal.ts';
import { toolResultOf } from './result.ts';
import { createScrubber, type Scrubber } from './scrub.ts';
import { faultOfCall, faultOfConnect, withFault } from './server-fault.ts';
import { ConnectFailure, openSession, type Session } from './session.ts';
import { sendCall, type Trace } from './tool-call.ts';

/**
 * A server that has not greeted by then counts as down: nothing was sent, so that a later attempt is safe. A call may take two
 * sessions, and both must fit into what its activity has beside the call's own time (30 s).
 */
const CONNECT_MS = 10_000;
const MAX_QUOTE_CHARACTERS = 300;

export interface McpToolServerOptions {
  readonly artifacts: ArtifactStore;
  readonly egress: Egress;
  /** In place of a guarded one, for tests. */
  readonly fetch?: GuardedFetch;
  readonly connectMs?: number;
}

export function createMcpToolServer({
  artifacts,
  egress,
  fetch,
  connectMs = CONNECT_MS,
}: McpToolServerOptions): ToolServer {
  const priors = createPriors();
  const sessionOptions = { connectMs, egress, ...(fetch === undefined ? {} : { fetch }) };

  /** Opens a session; what is known of the server is used, and dropped where it turns out wrong. */
  const open = async (connection: ServerConnection, call: ToolCall, known: boolean): Promise<Session> => {
    const prior = known ? priors.recall(connection) : undefined;
    const common = { connection, signal: call.signal, ...sessionOptions };
    try {
      const session = await openSession({ ...common, ...(prior === undefined ? {} : { prior }) });
      if (prior === undefined) priors.learn(connection, session.learned);
      return session;
    } catch (error) {
      if (prior === undefined || !(error instanceof ConnectFailure) || error.stopped !== undefined) throw error;
      priors.forget(connection);
      return open(connection, call, false);
    }
  };

  const attempt = async (
    connection: ServerConnection,
    call: ToolCall,
    known: boolean,
    names: Names,
    pulse: Pulse,
  ): Promise<CallEnding | Trace> => {
    let session: Session;
    try {
      session = await open(connection, call, known);
    } catch (error) {
      if (!(error instanceof ConnectFailure)) throw error;
      const { cause, exchange, stopped } = error;
      return withFault(endingOfConnect(cause, exchange, stopped, names), faultOfConnect(cause, exchange, stopped));
    }
    let trace: Trace;
    try {
      trace = await sendCall(session, call, pulse);
    } finally {
      await session.close();
    }
    if (!known || !isSessionRefusal(trace)) return trace;
    priors.forget(connection);
    return attempt(connection, call, false, names, pulse);
  };

  return {
    list(connection, signal, { known = false } = {}) {
      const scrub = scrubberFor(connection);
      return listTools({
        connection,
        signal,
        priors,
        known,
        scrub,
        quote: (text) => quoted(scrub, text),
        ...sessionOptions,
      });
    },

    async call(connection, call) {
      const scrubberWith = (states: readonly string[]): Scrubber => scrubberFor(connection, states);
      let scrub = scrubberWith(call.input?.leg?.state === undefined ? [] : [call.input.leg.state]);
      const names: Names = {
        server: connection.name,
        tool: call.definition.name,
        quote: (text) => quoted(scrub, text),
      };
      const pulse = startPulse(call.heartbeat);
      try {
        const { ended, states } = await sendLegs(call, {
          names,
          scrubberWith,
          send: (leg) => attempt(connection, leg, true, names, pulse),
        });
        scrub = scrubberWith(states);
        if (ended.kind === 'failed')
          return withFault(
            ended.exchange.tooLarge === true ? oversized(ended, names) : endingOfFailure(ended, names),
            faultOfCall(ended),
          );
        if (ended.kind !== 'answered') return ended;
        if (ended.answer.kind === 'error') return endingOfError(ended.answer, names, call.noInput);
        return await executed(ended.answer.result, call, { artifacts, scrub, names });
      } finally {
        pulse.stop();
      }
    },
  };
}

/** @param states that the server gave in this call: secret as the token is, and echoed as it is */
function scrubberFor({ secrets, accessToken }: ServerConnection, states: readonly string[] = []): Scrubber {
  return createScrubber([...secrets, ...(accessToken === undefined ? [] : [accessToken]), ...states]);
}

async function executed(
  raw: Readonly<Record<string, unknown>>,
  { definition, resultBytes, sharedBy, signal, noInput }: ToolCall,
  { artifacts, scrub, names }: { readonly artifacts: ArtifactStore; readonly scrub: Scrubber; readonly names: Names },
): Promise<CallEnding> {
  const { resultType } = raw;
  // Absent before 2026-07-28.
  if (resultType !== undefined && resultType !== 'complete')
    return halfway(names, typeof resultType === 'string' ? resultType : typeof resultType, noInput);
  const { outputSchema } = definition;
  const result = await toolResultOf(raw, {
    artifacts,
    scrub,
    signal,
    maxBytes: resultBytes,
    ...(sharedBy === undefined ? {} : { sharedBy }),
    ...(outputSchema === undefined ? {} : { outputSchema }),
  });
  // Absent means false (MCP server/tools); anything odd is no success.
  const isError = raw['isError'] !== undefined && raw['isError'] !== false;
  const [only, ...others] = result.content;
  if (isError && others.length === 0 && only?.type === 'text' && isV1UnknownTool(only.text, names.tool))
    return vanished(names);
  return { kind: 'executed', isError, result };
}

/** An answer larger than a session reads. Of all that a server may say in a call, only a result can be that large. */
function oversized(trace: Extract<Trace, { kind: 'failed' }>, names: Names): CallEnding {
  if (trace.exchange.status !== 200) return endingOfFailure(trace, names);
  const note = 'the result is larger than this service reads, and is lost';
  return {
    kind: 'executed',
    isError: false,
    result: { content: [{ type: 'text', text: `[The tool has run; ${note}.]` }], warnings: [note] },
  };
}

/** Words of a server, fit to stand in a message of ours: scrubbed, on one line, bounded. */
function quoted(scrub: Scrubber, text: string): string {
  const line = scrub
    .text(text)
    .slice(0, 10 * MAX_QUOTE_CHARACTERS)
    .replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\s]+/gu, ' ')
    .trim();
  return line.length > MAX_QUOTE_CHARACTERS ? `${line.slice(0, MAX_QUOTE_CHARACTERS)}…` : line;
}
