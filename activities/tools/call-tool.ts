/**
 * The dispatch activity: the only way a `tools/call` leaves a worker (INV-G1).
 *
 * Owns: the order check → token → call → outcome. Does not own: the checks (`dispatch-check.ts`), tokens, the protocol.
 * 1. One attempt; every ending is a value. A thrown error means a fault of ours before anything was sent.
 * 2. A token is minted after the checks, for this call, and dropped with it (INV-S2).
 */
import { cancellationDetails, cancellationSignal, heartbeat, log } from '@temporalio/activity';
import type { DispatchInput, DispatchResult } from '../../contracts/activities.ts';
import { traitsOf } from '../../contracts/errors.ts';
import { codedFailureIn } from '../../contracts/failure.ts';
import type { Verdict } from '../../contracts/schemas/call.ts';
import type { CatalogSnapshot } from '../../contracts/schemas/catalog.ts';
import type { Config } from '../../contracts/schemas/config.ts';
import type { IssuedCall } from '../../contracts/schemas/issued-claims.ts';
import { resultText } from '../../domain/model-text.ts';
import type { OfferedTool } from '../../domain/toolset.ts';
import { currentTool, type ToolNow } from '../catalog/layer.ts';
import type { ReadCatalog } from '../catalog/reader.ts';
import type { LoadToolset } from '../catalog/toolset.ts';
import { ArgumentChecker } from '../policy/arguments.ts';
import type { Conditions } from '../policy/conditions.ts';
import { tellBrokenGlass, verdictOn } from '../policy/judge.ts';
import type { MintedToken, TokenBroker, TokenRequest } from '../tokens/port.ts';
import type { SaidAuthorizations } from '../trust/authorization-proof.ts';
import type { CheckSignatures } from '../trust/dispatch-proof.ts';
import {
  checkCatalog,
  checkDefinition,
  checkProof,
  checkScheduler,
  checkTool,
  hasEditedArguments,
  type Refused,
} from './dispatch-check.ts';
import { provenAuthorization, type ProvenAuthorization } from './authorization-check.ts';
import { needOfEnding, needOfToken, wanting } from './authorization-need.ts';
import type { CallEnding, CallProgress, ToolServer } from './port.ts';
import { checkRetry } from './retry-check.ts';
import { checkStanding } from './standing-check.ts';
import { provenCall } from './proven-call.ts';
import { currentScheduler } from './scheduler.ts';
import { accessTo, connectionOf, credentialsOf, type ServerAccess } from './server-access.ts';

const CANCELLED_BEFORE_SENDING = {
  kind: 'ended',
  outcome: { kind: 'cancelled', reason: 'The call was cancelled before it was sent.' },
} as const satisfies DispatchResult;

export interface CallToolParts {
  readonly config: Config;
  readonly conditions: Conditions;
  readonly loadToolset: LoadToolset;
  readonly readCatalog: ReadCatalog;
  readonly broker: TokenBroker;
  readonly server: ToolServer;
  /** In trust mode `signed`. */
  readonly checkSignatures?: CheckSignatures;
  readonly saidAuthorizations?: SaidAuthorizations;
}

export function createCallTool(parts: CallToolParts): (input: DispatchInput) => Promise<DispatchResult> {
  const { config, conditions, loadToolset, readCatalog, checkSignatures } = parts;
  const checker = new ArgumentChecker();
  return async (input) => {
    const scheduler = currentScheduler();
    const unscheduled = checkScheduler(input, scheduler);
    if (unscheduled !== undefined) return unscheduled;
    const { run, server, runPolicy } = input;
    let given: ProvenAuthorization;
    let now: ToolNow | undefined;
    let catalog: CatalogSnapshot | undefined;
    try {
      const unsigned = await checkSignatures?.(input, scheduler);
      if (unsigned !== undefined) return unsigned;
      const said = (await parts.saidAuthorizations?.(input, scheduler)) ?? input.authorizations ?? [];
      given = provenAuthorization(input, said);
      const pinned = (await loadToolset(input.toolset)).find(({ modelName }) => modelName === input.name);
      catalog = await readCatalog({ tenant: run.initiator.tenant, server: server.name });
      now = pinned && (await currentTool(loadToolset, catalog, pinned));
    } catch (error) {
      return endedBeforeSending(error);
    }
    const mistaken = checkTool(input, now?.tool) ?? checkCatalog(server, catalog);
    if (mistaken !== undefined || now === undefined)
      return mistaken ?? { kind: 'refused', code: 'TOOL_UNKNOWN', message: 'The tool is not known.' };
    const { tool, pinned } = now;
    const verdict = await verdictOn(config, conditions, {
      run,
      runPolicy,
      now,
      catalog,
      callId: input.callId,
      arguments: input.arguments,
      earlier: input.earlier,
    });
    // What may not be called at all is not asked about again.
    if (verdict.kind === 'deny') return { kind: 'refused', code: verdict.code, message: verdict.message };
    // Nobody is asked for what cannot run; what the model proposed for the tool as it was pinned, the judge has checked.
    const isChecked = tool === pinned && !hasEditedArguments(input);
    const problems = isChecked ? [] : checker.problems(tool.hash, tool.definition.inputSchema, input.arguments);
    if (problems.length > 0) {
      const what = tool === pinned ? 'The edited arguments do not fit' : 'The tool has changed';
      return { kind: 'refused', code: 'ARGUMENTS_INVALID', message: `${what}: ${problems.join('; ')}.` };
    }
    const unproven =
      checkRetry(input, config, verdict) ??
      checkDefinition(input, tool, verdict) ??
      checkConsent(input, verdict, catalog);
    if (unproven !== undefined) return unproven;
    // What people have approved needs no glass.
    if (verdict.kind === 'allow' && input.proof.kind === 'policy') tellBrokenGlass(warn, verdict, run, input, 'sent');
    return await callWithToken(parts, input, tool, catalog, provenCall(input, tool, verdict), given);
  };
}

function warn(message: string, meta: Record<string, unknown>): void {
  log.warn(message, meta);
}

function checkConsent(
  input: DispatchInput,
  verdict: Exclude<Verdict, { kind: 'deny' }>,
  catalog: CatalogSnapshot | undefined,
): Refused | undefined {
  return input.proof.kind === 'standing'
    ? checkStanding(input, input.proof, verdict, catalog, Date.now())
    : checkProof(input, verdict, Date.now());
}

async function callWithToken(
  parts: CallToolParts,
  input: DispatchInput,
  tool: OfferedTool,
  catalog: CatalogSnapshot | undefined,
  call: IssuedCall,
  { grant = input.grant, consented }: ProvenAuthorization,
): Promise<DispatchResult> {
  let access: ServerAccess;
  let token: MintedToken;
  const request: TokenRequest = {
    run: input.run,
    server: input.server.name,
    serverUrl: input.server.url,
    tool: tool.definition.name,
    initiator: input.run.initiator,
    call,
    signal: cancellationSignal(),
    ...(grant === undefined ? {} : { grant }),
    ...(consented.length === 0 ? {} : { consented }),
    ...credentialsOf(catalog, input.run.initiator.tenant),
  };
  try {
    access = accessTo(parts.config, input.server, catalog);
    token = await parts.broker.mint(request);
  } catch (error) {
    return wanting(endedBeforeSending(error), (failed) => needOfToken(parts.config, request, failed));
  }
  const told: Told = {};
  const ended = (ending: CallEnding, used: MintedToken): DispatchResult =>
    wanting(resultOf(ending, used, told), () =>
      ending.kind === 'refused' ? needOfEnding(parts.config, request, ending) : undefined,
    );
  let first: CallEnding;
  try {
    first = await send(parts.server, input, tool, access, token, told);
  } finally {
    token.release?.();
  }
  if (first.kind !== 'refused' || first.code !== 'TOOL_UNAUTHORIZED' || token.accessToken === undefined)
    return ended(first, token);
  // A 401 is proof that nothing ran: one fresh token, once (RFC 6750 §3.1).
  let fresh: MintedToken;
  try {
    fresh = await parts.broker.mint({ ...request, refused: token.accessToken });
  } catch (error) {
    return ended({ ...first, message: `${first.message}${whyNone(error)}` }, token);
  }
  if (fresh.accessToken === token.accessToken) return ended(first, token);
  try {
    return ended(await send(parts.server, input, tool, access, fresh, told), fresh);
  } finally {
    fresh.release?.();
  }
}

/** Of a fresh token, for whoever has to mend it: that the server trusts another issuer, for instance. */
function whyNone(error: unknown): string {
  const coded = codedFailureIn(error);
  return coded === undefined ? '' : ` ${coded.message}`;
}

/** What Temporal was told last of a call: what is known where it ends without an answer. */
interface Told {
  last?: CallProgress;
}

async function send(
  server: ToolServer,
  input: DispatchInput,
  tool: OfferedTool,
  access: ServerAccess,
  token: MintedToken,
  told: Told,
): Promise<CallEnding> {
  return await server.call(connectionOf(input.server, access, token), {
    definition: tool.definition,
    arguments: input.arguments,
    idempotencyKey: input.idempotencyKey,
    timeoutMs: input.limits.callTimeoutSeconds * 1_000,
    resultBytes: input.limits.resultBytes,
    signal: cancellationSignal(),
    heartbeat: (details) => {
      told.last = details;
      heartbeat(details);
    },
  });
}

function resultOf(ending: CallEnding, { evidence }: MintedToken, { last }: Told): DispatchResult {
  const token = evidence;
  switch (ending.kind) {
    case 'executed':
      return ending.isError
        ? {
            kind: 'ended',
            token,
            outcome: {
              kind: 'failed',
              code: 'TOOL_FAILED',
              message: resultText(ending.result).slice(0, 500),
              executed: true,
              result: ending.result,
            },
          }
        : { kind: 'ended', token, outcome: { kind: 'succeeded', result: ending.result } };
    case 'unknown':
      return {
        kind: 'ended',
        token,
        outcome: { kind: 'unknown', code: ending.code, message: ending.message },
        ...sentOf(last, ending),
      };
    case 'not-sent':
      if (isWithdrawn()) return { ...CANCELLED_BEFORE_SENDING, token };
      return notSent(ending);
    case 'refused':
      // 429, and 503 with Retry-After, are said before execution (RFC 6585 §4, RFC 9110 §15.6.4): the same as not sent.
      if (ending.code === 'TOOL_RATE_LIMITED' || ending.retryAfterMs !== undefined) return notSent(ending);
      return {
        kind: 'ended',
        token,
        outcome: { kind: 'failed', code: ending.code, message: ending.message, executed: false },
      };
  }
}

function sentOf(
  last: CallProgress | undefined,
  { bytes }: Extract<CallEnding, { kind: 'unknown' }>,
): Pick<Extract<DispatchResult, { kind: 'ended' }>, 'sent'> {
  if (last?.sentAt === undefined) return {};
  const { sentAt, progress } = last;
  return {
    sent: {
      at: sentAt,
      ...(bytes === undefined ? {} : { bytes }),
      ...(progress === undefined ? {} : { progress }),
    },
  };
}

function notSent({
  code,
  message,
  retryAfterMs,
}: Extract<CallEnding, { kind: 'not-sent' | 'refused' }>): DispatchResult {
  return { kind: 'not-sent', code, message, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) };
}

/** Does nobody want the call any more? A worker that shuts down cancels its activities too, and another one takes their place. */
function isWithdrawn(): boolean {
  return cancellationSignal().aborted && cancellationDetails()?.workerShutdown !== true;
}

/** What may pass is tried again by the run; nothing has left this worker. */
function endedBeforeSending(error: unknown): DispatchResult {
  if (isWithdrawn()) return CANCELLED_BEFORE_SENDING;
  if (cancellationSignal().aborted)
    return { kind: 'not-sent', code: 'TOOL_UNAVAILABLE', message: 'The worker shut down before the call was sent.' };
  const coded = codedFailureIn(error);
  if (coded === undefined) throw error;
  const { code, message, facts } = coded;
  const { retryAfterMs } = facts;
  if (traitsOf(code).retryable) {
    return { kind: 'not-sent', code, message, ...(typeof retryAfterMs === 'number' ? { retryAfterMs } : {}) };
  }
  return { kind: 'ended', outcome: { kind: 'failed', code, message, executed: false } };
}
