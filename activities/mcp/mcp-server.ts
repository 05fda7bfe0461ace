/**
 * The `ToolServer` on the MCP SDK: one session for each listing and each call, or for the calls of a run that may share
 * one (`kept-sessions.ts`).
 *
 * It owns the order of steps, what is sent again, deadline and cancellation. It does not own connections
 * (`session.ts`), or the meaning of a call's end (`classify-failure.ts`, `classify-result.ts`).
 * 1. A `tools/call`, or a read of a linked resource, is sent at most once (INV-X1). If the server continues it with
 *    questions, so is each leg.
 * 2. A second session is opened at most once: if the first never carried the call, or if the server's transport refused
 *    the call for its session or protocol version (`session-refusal.ts`). It is never opened after the server has asked
 *    something. A kept session counts as the first.
 * 3. Everything returned is scrubbed (INV-S1); a token lives as long as the session it was given to.
 * One file, because a call is one order of steps over its sessions, its legs and the request of each leg.
 */
import { setTimeout as pause } from 'node:timers/promises';
import {
  CLIENT_CAPABILITIES_META_KEY,
  type Progress,
  SdkError,
  SdkErrorCode,
  type Tool,
} from '@modelcontextprotocol/client';
import { defined } from '../../contracts/defined.ts';
import type { ToolDefinition } from '../../contracts/schemas/tool.ts';
import { answersTo, MOST_ROUNDS } from '../../domain/request/input.ts';
import { hashOf } from '../../domain/text/canonical.ts';
import type { ArtifactStore } from '../artifacts/port.ts';
import { currentTrace } from '../kit/trace.ts';
import type { Egress } from '../egress/fetch.ts';
import type { Scrubber } from '../scrubbing/scrubber.ts';
import {
  endingOfConnect,
  endingOfFailure,
  faultOf,
  halfway,
  INVALID_PARAMS,
  type Names,
  saysAfterwards,
  statusOf,
  type Trace,
  unfinished,
  withFault,
} from './classify-failure.ts';
import { isRead, meaningOf, namesOf, quoted, scrubberFor, secretIds, uriOf } from './classify-result.ts';
import { type Asked, readAsked } from './input-round.ts';
import { createKeptSessions, type KeptSessions, sharesSession } from './kept-sessions.ts';
import { listTools } from './listing.ts';
import type {
  AskPeople,
  CallEnding,
  CallProgress,
  ResumePoint,
  ServerConnection,
  ToolCall,
  ToolInput,
  ToolServer,
  WantedTask,
} from './port.ts';
import { type Pulse, startPulse } from './pulse.ts';
import { isSessionRefusal } from './session-refusal.ts';
import {
  ASKING,
  ConnectFailure,
  createPriors,
  IDEMPOTENCY_HEADER,
  NEVER_MS,
  openSession,
  type Priors,
  type RawAnswer,
  type Session,
  type SessionOptions,
  startWaiting,
  type Stop,
  takesTasks,
} from './session.ts';

/**
 * A server that has not greeted by then counts as down. Nothing was sent, so a later attempt is safe. A call may take
 * two sessions, and both must fit into what its activity has beside the call's own time (30 s).
 */
const CONNECT_MS = 10_000;

/** The least time in which a call is sent once more. */
const LEAST_MS = 1_000;

export interface McpReach {
  readonly artifacts: ArtifactStore;
  readonly egress: Egress;
}

export interface McpToolServerOptions extends McpReach {
  readonly connectMs?: number;
  /** How long a session of a run is kept without a call. */
  readonly keptMs?: number;
  /** Without it, servers of 2025-11-25 and before get plain calls: no task, and no question is answered. */
  readonly legacy?: LegacyCalls;
}

interface Sending extends Pick<LegParts, 'names' | 'told' | 'scrubber'> {
  readonly pulse: Pulse;
  readonly priors: Priors;
  readonly kept: KeptSessions;
  readonly options: Pick<SessionOptions, 'connectMs' | 'egress'>;
  readonly legacy: LegacyCalls | undefined;
}

export function createMcpToolServer({
  artifacts,
  egress,
  legacy,
  connectMs = CONNECT_MS,
  keptMs,
}: McpToolServerOptions): ToolServer {
  const priors = createPriors();
  const kept = createKeptSessions(keptMs);
  const options = { connectMs, egress };
  return {
    list(connection, signal, { known = false } = {}) {
      return listTools({ connection, signal, priors, kept, known, ...options });
    },

    close: kept.close,

    async call(connection, call) {
      const told: string[] = call.input?.leg?.state === undefined ? [] : [call.input.leg.state];
      const scrubber = (): Scrubber => scrubberFor(connection, told);
      // A refusal may quote the session that has just begun.
      const names = namesOf(connection, call, (text) => quoted(scrubber(), text));
      const pulse = startPulse(call);
      const renewing = keepingUp(connection, pulse);
      const sending: Sending = { names, told, scrubber, pulse, priors, kept, options, legacy };
      const send = async (leg: ToolCall): Promise<CallEnding | Trace> => await attempt(renewing, leg, true, sending);
      try {
        const ended = await sendLegs(call, { names, told, scrubber, send });
        if (ended.kind === 'failed') return withFault(endingOfFailure(ended, names), faultOf(ended, 'call'));
        if (ended.kind !== 'answered') return ended;
        const task = legacy?.begunTask(ended, names, (ids) => scrubberFor(connection, [...told, ...ids]));
        const parts = { artifacts, scrub: scrubber(), names, asked: ended.asked };
        return task ?? (await meaningOf(ended.answer, call, parts));
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
  const { names, told, priors, kept } = sending;
  const taken = known && sharesSession(call) ? kept.take(connection) : undefined;
  // Streams that the server has left open end here. Else each call would leave one more.
  if (call.repeatable !== true || taken?.wire.isBusy() === true) await taken?.wire.reconnect();
  let session: Session;
  try {
    session = taken ?? (await open(connection, call, known, sending));
  } catch (error) {
    if (!(error instanceof ConnectFailure)) throw error;
    told.push(...secretIds(error.sessionId));
    return withFault(endingOfConnect(error.trace, names), faultOf(error.trace, 'asking'));
  }
  const { sessionId } = session.transport;
  told.push(...secretIds(sessionId));
  if (call.task?.only === true && !takesTasks(session)) {
    await session.close();
    const message = `Tool "${names.tool}" can only be called as a task, and server "${names.server}" takes no tasks (MCP 2025-11-25, capability tasks.requests.tools.call) by now; it was not called.`;
    return { kind: 'refused', code: 'TOOL_REFUSED', message };
  }
  let trace: Trace | undefined;
  const began = performance.now();
  let tookMs = 0;
  try {
    trace = await sendCall(session, call, sending);
    tookMs = performance.now() - began;
  } finally {
    if (trace !== undefined && isWhole(trace) && sharesSession(call)) await kept.keepOrEnd(connection, session);
    else await session.close(trace !== undefined && sending.legacy?.isTask(trace) === true ? 'kept' : undefined);
  }
  if (!known || trace.asked === true) return trace;
  // Perhaps the server is another one now, and says so in words that are no proof: the next session asks it.
  if (trace.kind === 'failed' && [400, 404].includes(statusOf(trace.error) ?? 0)) priors.forget(connection);
  if (!isSessionRefusal(trace, { sessionId, kept: taken !== undefined })) return trace;
  priors.forget(connection);
  // Both times together are one call's, which Temporal waits for.
  const timeoutMs = call.timeoutMs - tookMs;
  // A call that leaves with next to no time for its answer would be one of which nobody knows what became of it.
  if (timeoutMs < LEAST_MS) return trace;
  return await attempt(connection, { ...call, timeoutMs }, false, sending);
}

function isWhole(trace: Trace): boolean {
  return trace.kind === 'answered' && trace.answer.kind === 'result' && trace.asked === undefined;
}

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
      return await openSession({ ...common, prior });
    } catch (error) {
      if (!(error instanceof ConnectFailure) || error.trace.stopped !== undefined) throw error;
      priors.forget(connection);
    }
  }
  const session = await openSession(common);
  priors.learn(connection, session);
  return session;
}

/**
 * Says how the session declares that people may be asked. A task and a read never ask; their server is told the same as
 * for the listing, or it would not have the tool. A call whose run cannot hold it open declares nothing: it would
 * begin, and its question be refused.
 */
function asksOf({ asks }: ServerConnection, call: ToolCall): SessionOptions['asks'] {
  if (call.people !== undefined) return 'heard';
  return asks === true && (call.task !== undefined || isRead(call)) ? 'declared' : undefined;
}

/** Seals a renewed token too: this worker may be lost after its server has seen it. */
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

// Sends one `tools/call`, or one `resources/read`, over an open session, once, and waits for its end.
//
// 1. An answer that came counts, even if the deadline passed while it was being read.
// 2. The server is told of a cancellation in fixed text: a reason of ours may name people or other servers.
// 3. A server of 2026-07-28 is told with the call itself whether it may ask people, and how.

/** Twin of the header, for servers behind something that drops headers. MCP itself has no such key (SEP-3182). */
const IDEMPOTENCY_META = 'countersign/idempotency-key';

const STOP_TEXT: Record<Exclude<Stop, 'left'>, string> = {
  deadline: 'the deadline of the call has passed',
  cancelled: 'the call was cancelled',
  lost: 'the response stream ended without an answer',
};

/** Ways that only MCP 2025-11-25 and earlier revisions have (`legacy-2025/`). */
export interface LegacyCalls {
  /**
   * Answers what the server asks on the call's own connection.
   * @param signal aborted once the call is over
   */
  answerQuestions(session: Session, questions: Questions, deadline: CallDeadline, signal: AbortSignal): void;
  /** True if a task was given instead of a result. */
  isTask(trace: Trace): boolean;
  /** Returns the ending of a call that has become a task. @param scrubbing knows the connection's secrets and these */
  begunTask(trace: Trace, names: Names, scrubbing: (ids: readonly string[]) => Scrubber): CallEnding | undefined;
}

interface Questions {
  readonly people: AskPeople;
  readonly scrubbed: (value: unknown) => unknown;
}

export type CallDeadline = ReturnType<typeof startDeadline>;

/**
 * Sends one leg, and reports how that ended. Does not throw for the server or the network. One function, because what
 * is heard on the way changes what is kept, said and returned in the end.
 */
async function sendCall(session: Session, call: ToolCall, { pulse, scrubber, legacy }: Sending): Promise<Trace> {
  const scrubbed = (value: unknown): unknown => scrubber().value(value);
  const { transport, wire } = session;
  const ending = new AbortController();
  const end = (why: Stop): void => {
    // The connection is dropped without a word: neither that the call is cancelled, nor that its session may go.
    if (why === 'left') return void transport.close().catch(() => {});
    // A reason that is an SdkError comes back unchanged; any other is put into a text that legacy servers are sent.
    ending.abort(new SdkError(SdkErrorCode.RequestTimeout, STOP_TEXT[why]));
  };
  const cancelled = (): Stop => (call.isHandedOn?.() === true ? 'left' : 'cancelled');
  const waiting = startWaiting(transport, call.signal, end, { cancelled });
  let passed: Pick<ResumePoint, 'requestId' | 'eventId'> | undefined;
  const keepPassed = (): void => {
    const { sessionId, protocolVersion } = transport;
    const heldMs = deadline.heldMs();
    // Servers of 2026-07-28 have no sessions: an answer they have not given is lost with the connection.
    if (passed !== undefined && sessionId !== undefined && protocolVersion !== undefined)
      pulse.keep({ sessionId, protocolVersion, ...passed, sentAt, ...(heldMs === 0 ? {} : { heldMs }) });
  };
  transport.onPassed = (requestId, eventId) => {
    passed = { requestId, eventId };
    keepPassed();
  };
  const deadline = startDeadline(call.timeoutMs, () => waiting.stop('deadline'), keepPassed);
  const over = new AbortController();
  if (call.people !== undefined && session.learned.kind === 'legacy')
    legacy?.answerQuestions(session, { people: call.people, scrubbed }, deadline, over.signal);

  let sentAt = new Date().toISOString();
  let sent: CallProgress = { phase: 'sent', sentAt };
  const asTask = call.task !== undefined && takesTasks(session) ? call.task : undefined;
  // A call that has not left has no time of leaving.
  wire.onReached(() => {
    sentAt = new Date().toISOString();
    sent = { phase: 'sent', sentAt };
    pulse.say(sent);
  });
  // A read has no effect, whatever is asked in the middle of it.
  const asked = (): { readonly asked?: true } => (transport.asked && !isRead(call) ? { asked: true } : {});
  try {
    await request(session, call, asTask, {
      signal: ending.signal,
      onprogress: ({ progress, total }) => pulse.say({ ...sent, progress, ...defined({ total }) }),
    });
  } catch (error) {
    // The exchange is read at once: leaving the session makes further exchanges.
    if (transport.answer === undefined) {
      const stopped = waiting.stopped();
      const reached = wire.reached();
      // A server before 2026-07-28 is told that the call is over, and the request itself goes on to wait for its
      // connection: nothing of it is to leave any more.
      if (!reached) await transport.close().catch(() => {});
      return { kind: 'failed', error, stopped, reached, exchange: wire.exchange(), ...asked() };
    }
  } finally {
    deadline.stop();
    over.abort();
    waiting.over();
    transport.onPassed = undefined;
  }
  if (transport.answer === undefined) throw new Error('the MCP client returned without an answer');
  pulse.say({ phase: 'answered' });
  const { answer, sessionId, protocolVersion: version } = transport;
  const found = asTask === undefined ? undefined : defined({ sessionId, version });
  return { kind: 'answered', answer, status: wire.exchange().status, ...asked(), ...defined({ session: found }) };
}

async function request(
  { client, learned }: Session,
  call: ToolCall,
  asTask: WantedTask | undefined,
  watch: { readonly signal: AbortSignal; readonly onprogress: (progress: Progress) => void },
): Promise<void> {
  const key = legKey(call);
  const mayAsk = call.input !== undefined && learned.kind === 'modern';
  // Fields given here replace those that the SDK adds by itself.
  const _meta = {
    [IDEMPOTENCY_META]: key,
    ...(mayAsk ? { [CLIENT_CAPABILITIES_META_KEY]: ASKING } : {}),
    ...currentTrace(),
  };
  // Without `onprogress` no progress token is sent (opencode#21701).
  const options = { allowInputRequired: true, timeout: NEVER_MS, headers: { [IDEMPOTENCY_HEADER]: key }, ...watch };
  const params = { _meta, ...continuation(call) };
  const uri = uriOf(call);
  // `readResource` would not do: it may answer from a cache of the SDK's.
  if (uri !== undefined) await client.request({ method: 'resources/read', params: { uri, ...params } }, options);
  else {
    // The protocol has this field, but the type of `callTool` no longer does.
    const task = asTask && { ttl: asTask.ttlMs };
    const asked = { name: call.definition.name, arguments: call.arguments, ...params, ...defined({ task }) };
    await client.callTool(asked, { ...options, toolDefinition: unvalidated(call.definition) });
  }
}

/** The protocol and the SDK's wire have these fields; the types of its requests do not (2.4.0). */
function continuation({ input }: ToolCall): object {
  if (input?.leg === undefined) return {};
  const { responses, state } = input.leg;
  const inputResponses = Object.keys(responses).length === 0 ? undefined : responses;
  return defined({ inputResponses, requestState: state });
}

/**
 * Each leg has a key of its own, the same in every attempt: under another's a server would repeat that leg's answer.
 */
function legKey({ idempotencyKey, input }: ToolCall): string {
  const pass = input?.begunAnew === true ? `${idempotencyKey}/anew-${input.dispatch}` : idempotencyKey;
  if (input?.leg === undefined) return pass;
  const { responses, state } = input.leg;
  return `${pass}/${hashOf({ responses, state }).slice(0, 16)}`;
}

/**
 * The pinned definition, from which the SDK mirrors `Mcp-Param-*` headers. It lacks the output schema: the SDK reports
 * a violation, after the tool has run, with the same error as an unknown tool.
 */
function unvalidated({ name, inputSchema }: ToolDefinition): Tool {
  // Sound: discovery accepts only schemas whose type is "object", and the SDK reads nothing else of a definition given
  // here.
  return { name, inputSchema: inputSchema as Tool['inputSchema'] };
}

/**
 * Starts the time that a call has, which stands still while people are asked.
 * @param onPassed called once, when the time is over
 * @param onGoesOn called each time the time runs again
 */
export function startDeadline(timeoutMs: number, onPassed: () => void, onGoesOn?: () => void) {
  let leftMs = timeoutMs;
  let runningSince = performance.now();
  let heldMs = 0;
  let heldSince = 0;
  let holders = 0;
  let isOver = false;
  const pass = (): void => {
    if (isOver) return;
    isOver = true;
    onPassed();
  };
  let timer = setTimeout(pass, leftMs);
  return {
    /** Stops the time, until every holder has called the function that it got. */
    hold: (): (() => void) => {
      holders += 1;
      if (holders === 1) {
        clearTimeout(timer);
        heldSince = performance.now();
        leftMs = Math.max(0, leftMs - (heldSince - runningSince));
        // A server that holds it again and again would otherwise leave the timer no time to fire.
        if (leftMs === 0) pass();
      }
      let isHeld = true;
      return () => {
        if (!isHeld) return;
        isHeld = false;
        holders -= 1;
        if (holders > 0 || isOver) return;
        runningSince = performance.now();
        heldMs += runningSince - heldSince;
        timer = setTimeout(pass, leftMs);
        onGoesOn?.();
      };
    },
    heldMs: (): number => Math.round(holders === 0 ? heldMs : heldMs + performance.now() - heldSince),
    stop: (): void => {
      isOver = true;
      clearTimeout(timer);
    },
  };
}

// Sends a call that a server answers with questions, leg after leg, until there is a result or a question without an
// answer (MCP 2026-07-28, multi round-trip requests).
//
// 1. The next leg is sent only if the server itself has said that the last answer is not a result (INV-X1).
// 2. If the server refuses its state, the call begins anew, once. People's answers are given again, each once, to the
//    same questions.
// 3. All legs together have the time of one call, and are bounded in number.

/** One leg for each answer, the one whose state was refused, and some that a server only wants repeated. */
const MOST_LEGS = MOST_ROUNDS + 6;
/** Pause in ms before a leg without answers: the server wants to be asked again, but not at once. */
const PACE_MS = 500;
const MOST_HEARD = 500;

export interface LegParts {
  readonly names: Names;
  /** Secrets that the server has given so far: the state of each leg, and ids of sessions. */
  readonly told: string[];
  /** Knows what was told until now. */
  readonly scrubber: () => Scrubber;
  readonly send: (call: ToolCall) => Promise<CallEnding | Trace>;
}

export async function sendLegs(call: ToolCall, { names, told, scrubber, send }: LegParts): Promise<CallEnding | Trace> {
  const until = Date.now() + call.timeoutMs;
  let { input } = call;
  for (let legs = 1; ; legs += 1) {
    const ended = await send({ ...call, timeoutMs: Math.max(1, until - Date.now()), ...defined({ input }) });
    if (ended.kind !== 'answered' || input === undefined) return ended;
    if (ended.asked === undefined && isStateRefusal(ended.answer, input)) {
      input = { answers: input.answers, dispatch: input.dispatch, begunAnew: true };
      continue;
    }
    const { answer } = ended;
    if (answer.kind !== 'result' || answer.result['resultType'] !== 'input_required') return ended;
    const asked = readAsked(answer.result, (value, state) => {
      if (state !== undefined) told.push(state);
      return scrubber().value(value);
    });
    if (asked.kind === 'not-understood') return halfway(names, 'input_required', asked.reason);
    const next = continued(input, asked);
    if (next === undefined) {
      const { kind: _, ...question } = asked;
      return { kind: 'input', ...question, used: input.leg?.used ?? [] };
    }
    if (legs >= MOST_LEGS) return unfinished(names, `the server asked for input ${legs} times in one call`);
    // If cancelled, the next leg reports it.
    if (Object.keys(asked.requests).length === 0)
      await pause(PACE_MS, undefined, { signal: call.signal }).catch(() => undefined);
    input = next;
  }
}

function continued(input: ToolInput, { requests, state }: Extract<Asked, { kind: 'asked' }>): ToolInput | undefined {
  const used = input.leg?.used ?? [];
  const { responses, missing } = answersTo(requests, input.answers, used);
  if (missing.length > 0) return undefined;
  const hashes = Object.values(requests).map(({ hash }) => hash);
  return { ...input, leg: { responses, ...defined({ state }), used: [...used, ...hashes] } };
}

/**
 * Tells whether the server refused its state. The spec has a server send -32602. The words are those of the SDKs, and
 * must name the request's state, because another parameter of the call may be meant. An error sent after the tool has
 * run begins nothing anew, whatever it names (INV-X1).
 */
function isStateRefusal(answer: RawAnswer, { leg, begunAnew }: ToolInput): boolean {
  if (answer.kind !== 'error' || leg?.state === undefined || begunAnew !== undefined) return false;
  const { code, message } = answer;
  if (code !== INVALID_PARAMS || saysAfterwards(message)) return false;
  // A server may send megabytes.
  return /\brequest[ _-]?state\b/i.test(message.slice(0, MOST_HEARD));
}
