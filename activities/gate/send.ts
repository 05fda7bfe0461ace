/**
 * The last step of a dispatch: mints a token for the call, sends the call with it (INV-S2), and turns its ending into
 * the result that the run reads.
 *
 * 1. A token is minted once everything has been checked, and given back with the call. Another is minted after a 401
 *    (`activities/tokens/broker.ts`).
 * 2. If people are asked in mid-call, their answers may need another token (`activities/discovery/access.ts`).
 * 3. A call that would leave too late to be waited for is not sent.
 * 4. One consent lets at most one call leave this process (INV-X1). A genuine run never sends twice by one consent:
 *    each dispatch is an attempt of its own. A reset brings another consent, or for calls that policy allows another
 *    Temporal run. Anyone who may write to the namespace can schedule a genuine input again, though.
 * 5. `rememberingCalls` is the memory of this process alone, and of its newest calls; an unknown call proves nothing.
 *    A call is known by its content and consent from the moment of the hand-over, so of two at once only one is sent.
 * 6. Every ending is a value, including a fault of this worker before the send: the run would take a thrown error for a
 *    lost answer. `not-sent` is proven not to have run, and likely to pass if it is tried again (INV-X1).
 */
import { cancellationDetails, cancellationSignal, Context, log } from '@temporalio/activity';
import { LRUCache } from 'lru-cache';
import { defined } from '../../contracts/defined.ts';
import { traitsOf } from '../../contracts/errors.ts';
import { codedFailureIn } from '../../contracts/failure.ts';
import type { CatalogSnapshot } from '../../contracts/schemas/catalog.ts';
import type { Config } from '../../contracts/schemas/config.ts';
import type { DispatchInput, DispatchResult } from '../../contracts/wire/tools.ts';
import { hashOf } from '../../domain/text/canonical.ts';
import { resultText } from '../../domain/views/model-text.ts';
import { STORING_MS } from '../artifacts/port.ts';
import type { LoadToolset, ReadCatalog } from '../catalog/reader.ts';
import {
  accessTo,
  authorityOf,
  type CallAuthority,
  connectionOf,
  type CurrentTool,
  type LiveTools,
  renewalOf,
  sessionOwner,
  shownOf,
  wanting,
} from '../discovery/access.ts';
import { faultName } from '../kit/activity.ts';
import type { ServerLimits } from '../limits/server-limits.ts';
import type { CallEnding, CallProgress, ServerConnection, ToolCall, ToolServer, WantedTask } from '../mcp/port.ts';
import type { Pulse } from '../mcp/pulse.ts';
import { goingOn, pausedBy, type StateSeal } from '../mcp/state-seal.ts';
import type { Conditions } from '../policy/condition.ts';
import type { ReadDiscarded } from '../run/discarded-tail.ts';
import type { ReadMessage } from '../run/read-transcript.ts';
import { secretsOf, withToken } from '../tokens/broker.ts';
import type { MintedToken, TokenBroker, TokenRequest } from '../tokens/port.ts';
import type { CheckSignatures, SaidAuthorizations } from '../trust/dispatch-proof.ts';
import { GRACE_MS, type HeldPeople, type HeldRun, type QuestionMacs } from './legacy-2025/open-question.ts';
import { sealPoint, taskResult } from './legacy-2025/seals.ts';
import type { Leaving } from './statement.ts';

/**
 * A call that leaves later has no time left for its answer. `callActivities` in `workflows/run/activities.ts` leaves 90
 * s beside the call, and storing the answer takes its part of them.
 */
const READY_WITHIN_MS = 90_000 - STORING_MS;

/** The tool as its server lists it now, and how it is called. */
interface Meant extends CurrentTool {
  readonly request: TokenRequest;
  readonly repeatable: boolean;
  readonly task: WantedTask | undefined;
  readonly leaving: Leaving;
  /** Lets the server ask people in mid-call; undefined if it may not. */
  readonly people: HeldPeople | undefined;
}

export async function callWithToken(
  parts: Underway,
  input: DispatchInput,
  meant: Meant,
  catalog: CatalogSnapshot | undefined,
): Promise<DispatchResult> {
  const { request, secrets: held, shown = [], leaving, people } = meant;
  const access = accessTo(parts.config, input.server, catalog);
  const told: Told = {};
  const seen: MintedToken[] = [];
  const authority = (): CallAuthority => authorityOf(request, [...shown, ...seen.flatMap(shownOf)]);
  const got = await withToken(parts.broker, request, {
    use: async (minted) => {
      if (seen.length > 0) parts.pulse.say({ phase: 'connecting' });
      // The server has also seen earlier tokens, including one renewed while people were asked.
      const known = [...held, ...seen.flatMap(secretsOf)];
      seen.push(minted);
      const renewal =
        people === undefined ? undefined : renewalOf(parts.broker, request, minted, (next) => seen.push(next));
      try {
        const connection = {
          ...connectionOf(input.server, access, minted, known),
          ...sessionOwner(request, input.runId),
          ...(renewal && { renewal }),
        };
        return await send(parts, input, meant, connection, told, authority);
      } finally {
        renewal?.release();
      }
    },
    // A provider's word that the server answered 401 is no proof: a hosted call has one token, and is approved once.
    isRefused: (ending) =>
      access.hosted === undefined && ending.kind === 'refused' && ending.code === 'TOOL_UNAUTHORIZED',
  });
  if (got.kind === 'none') return wanting(parts.config, request, endedBeforeSending(got.error), leaving);
  const { used: ending, token } = got;
  if (ending.kind === 'input') return await pausedBy(ending, input, parts, token.evidence);
  if (ending.kind === 'task') return await taskResult(ending, input, parts, authority(), told.sentAt, token.evidence);
  // The person who must fix it reads why there is no fresh token, for instance that the server trusts another issuer.
  const whyNone = codedFailureIn(got.noOther)?.message;
  const said =
    ending.kind === 'refused' && whyNone !== undefined
      ? { ...ending, message: `${ending.message}. ${whyNone}` }
      : ending;
  const ended = resultOf(said, token, told);
  const answers = people?.told ?? [];
  const result = ended.kind === 'ended' && answers.length > 0 ? { ...ended, held: answers } : ended;
  return wanting(parts.config, request, result, leaving, said.kind === 'refused' ? said : undefined);
}

async function send(
  { server, seal, pulse, began }: Underway,
  input: DispatchInput,
  { tool, repeatable, task, people }: Meant,
  connection: ServerConnection,
  told: Told,
  authority: () => CallAuthority,
): Promise<CallEnding> {
  const readyWithinMs = READY_WITHIN_MS - (people === undefined ? 0 : GRACE_MS);
  if (Date.now() - began > readyWithinMs) return tooLate(input);
  return await server.call(connection, {
    definition: tool.definition,
    arguments: input.arguments,
    idempotencyKey: idempotencyKeyOf(input),
    timeoutMs: input.limits.callTimeoutSeconds * 1_000,
    resultBytes: input.limits.resultBytes,
    ...defined({ sharedBy: input.limits.sharedBy }),
    signal: cancellationSignal(),
    heartbeat: (details) => {
      told.last = details;
      told.sentAt = details.sentAt ?? told.sentAt;
      pulse.say(details);
    },
    ...sealing(input, seal, authority),
    isHandedOn: handingOn(told),
    repeatable,
    ...defined({ task, people: people?.ask }),
    ...defined({ approvalRequestId: input.approvalRequestId, storedAnswerId: input.storedAnswerId }),
    ...(await inputOf(input, seal)),
  });
}

/** Lets another worker ask for the answer. */
export function sealing(
  input: DispatchInput,
  seal: StateSeal | undefined,
  authority: () => CallAuthority,
): Pick<ToolCall, 'seal'> {
  if (input.resumable !== true || seal === undefined) return {};
  // The authority is read late, because another token may come with a person's answer.
  return { seal: async (point) => await sealPoint(input, { point, authority: authority() }, seal) };
}

const NO_KEY =
  'servers may ask people for input only where this worker can seal their state: configure a key in grants.keys';
const NOBODY_ASKED = 'policy lets this run ask nobody for input';

export async function inputOf(
  dispatch: DispatchInput,
  seal: StateSeal | undefined,
): Promise<Pick<ToolCall, 'input' | 'noInput'>> {
  const { input, attempt } = dispatch;
  if (input === undefined) return { noInput: NOBODY_ASKED };
  if (seal === undefined) return { noInput: NO_KEY };
  const isAsked = input.leg !== undefined || input.provided.length > 0;
  return { input: isAsked ? await goingOn(dispatch, input, seal) : { answers: [], dispatch: `0.${attempt}` } };
}

const KEY_DIGITS = 16;
/** What a header carries as it is (RFC 9110 §5.5): Latin-1, and no white space at its beginning. */
const CARRIED = /^(?![\t ])[\t\x20-\x7e\x80-\xff]*$/;

/**
 * Names the proven call, whatever key the input holds. After a reset the model may propose another call with the same
 * id: the digest tells them apart.
 */
function idempotencyKeyOf({ run, callId, target, arguments: args }: DispatchInput): string {
  const { workflowId } = run;
  const { serverUrl, tool } = target;
  const call = { serverUrl, tool, arguments: args };
  if (CARRIED.test(workflowId)) return `${workflowId}/${callId}/${keyDigest(call)}`;
  // A run may be called what this id is encoded to, so the digest is of the id too.
  return `${encodeURIComponent(workflowId)}/${callId}/${keyDigest({ ...call, workflowId })}`;
}

function keyDigest(call: object): string {
  return hashOf(call).slice(0, KEY_DIGITS);
}

function tooLate({ server, target }: DispatchInput): CallEnding {
  const message = `Listing the tools of server "${server.name}" and obtaining a token took more than ${READY_WITHIN_MS / 1_000} s; tool "${target.tool}" was not called.`;
  return { kind: 'not-sent', code: 'TOOL_UNAVAILABLE', message };
}

/** About a hundred bytes each. */
const MOST_KNOWN = 20_000;

/** Returns a function that takes a call, and returns false if this worker has sent it before. */
export function rememberingCalls(most = MOST_KNOWN): (input: DispatchInput) => boolean {
  const known = new LRUCache<string, true>({ max: most });
  return (input) => {
    const keys = consentsOf(input).map((consent) => keyOf(input, consent));
    if (keys.some((key) => known.has(key))) return false;
    for (const key of keys) known.set(key, true);
    return true;
  };
}

function consentsOf({ proof, runId }: DispatchInput): readonly string[] {
  switch (proof.kind) {
    case 'policy':
      return [runId];
    case 'decision':
      return [proof.decision, ...(proof.further ?? [])].map(({ digest }) => digest);
    case 'standing':
      return proof.decisions.map(({ digest }) => digest);
  }
}

function keyOf({ run, callId, attempt }: DispatchInput, consent: string): string {
  return hashOf({ namespace: run.namespace, workflowId: run.workflowId, callId, attempt, consent });
}

export interface Underway extends CallToolParts {
  readonly pulse: Pulse;
  /** Epoch ms. */
  readonly began: number;
}

export interface CallToolParts {
  readonly config: Config;
  readonly readMessage: ReadMessage;
  readonly heldRun: HeldRun;
  readonly readDiscarded: ReadDiscarded;
  readonly conditions: Conditions;
  readonly loadToolset: LoadToolset;
  readonly readCatalog: ReadCatalog;
  readonly broker: TokenBroker;
  readonly server: ToolServer;
  readonly limits: ServerLimits;
  readonly liveTools: Pick<LiveTools, 'current'>;
  /** Without these two no server may ask people for input. */
  readonly seal?: StateSeal | undefined;
  readonly macs?: QuestionMacs | undefined;
  /** In trust mode `signed`. */
  readonly checkSignatures?: CheckSignatures;
  readonly saidAuthorizations?: SaidAuthorizations;
}

const CANCELLED_BEFORE_SENDING = {
  kind: 'ended',
  outcome: { kind: 'cancelled', reason: 'The call was cancelled before it was sent.' },
} as const satisfies DispatchResult;

/** The latest news of a call that Temporal has. */
export interface Told {
  last?: CallProgress;
  /** When the call left, if it did. */
  sentAt?: string | undefined;
}

/**
 * Tells whether the worker shuts down while the call is wanted and has reported where its answer comes. Called inside
 * the activity; what it returns may run outside.
 */
export function handingOn(told: Told): () => boolean {
  const context = Context.current();
  return () => context.cancellationDetails?.workerShutdown === true && told.last?.resume !== undefined;
}

export function resultOf(
  ending: Exclude<CallEnding, { kind: 'input' | 'task' }>,
  minted: Pick<MintedToken, 'evidence'> | undefined,
  told: Told,
): DispatchResult {
  const token = minted === undefined ? {} : { token: minted.evidence };
  const { last } = told;
  switch (ending.kind) {
    case 'executed': {
      const { isError, result } = ending;
      if (!isError) return { kind: 'ended', ...token, outcome: { kind: 'succeeded', result } };
      const message = resultText(result).slice(0, 500);
      return {
        kind: 'ended',
        ...token,
        outcome: { kind: 'failed', code: 'TOOL_FAILED', message, executed: true, result },
      };
    }
    case 'unknown':
      return {
        kind: 'ended',
        ...token,
        outcome: { kind: 'unknown', code: ending.code, message: ending.message },
        ...(last?.sentAt === undefined
          ? {}
          : { sent: { at: last.sentAt, ...defined({ bytes: ending.bytes, progress: last.progress }) } }),
        ...(handingOn(told)() && last?.resume !== undefined ? { resume: last.resume } : {}),
      };
    case 'not-sent':
      if (isWithdrawn()) return { ...CANCELLED_BEFORE_SENDING, ...token };
      return notSent(ending);
    case 'refused':
      // 429, and 503 with Retry-After, are sent before execution (RFC 6585 §4, RFC 9110 §15.6.4): the same as not sent.
      if (ending.code === 'TOOL_RATE_LIMITED' || ending.retryAfterMs !== undefined) return notSent(ending);
      return {
        kind: 'ended',
        ...token,
        outcome: { kind: 'failed', code: ending.code, message: ending.message, executed: false },
      };
  }
}

function notSent({
  code,
  message,
  retryAfterMs,
}: Extract<CallEnding, { kind: 'not-sent' | 'refused' }>): DispatchResult {
  return { kind: 'not-sent', code, message, ...defined({ retryAfterMs }) };
}

/** True if the call is no longer wanted; where its worker shuts down, another one takes it. */
function isWithdrawn(): boolean {
  return cancellationSignal().aborted && cancellationDetails()?.workerShutdown !== true;
}

/** Returns the result of a failure before sending: nothing has left, so the run tries again what may pass. */
export function endedBeforeSending(error: unknown): DispatchResult {
  if (isWithdrawn()) return CANCELLED_BEFORE_SENDING;
  if (cancellationSignal().aborted)
    return { kind: 'not-sent', code: 'TOOL_UNAVAILABLE', message: 'The worker shut down before the call was sent.' };
  const coded = codedFailureIn(error);
  if (coded === undefined) {
    const name = faultName(error);
    log.error('A call was not sent: a fault of this worker.', { error: name });
    const message = `This worker failed before the call was sent (${name}). Its log names the fault.`;
    // Another worker, or this one in a moment, may succeed, so an approval is not lost to this fault.
    return { kind: 'not-sent', code: 'INTERNAL', message };
  }
  const { code, message, facts } = coded;
  const { retryAfterMs } = facts;
  if (traitsOf(code).retryable)
    return { kind: 'not-sent', code, message, ...(typeof retryAfterMs === 'number' ? { retryAfterMs } : {}) };
  return { kind: 'ended', outcome: { kind: 'failed', code, message, executed: false } };
}
