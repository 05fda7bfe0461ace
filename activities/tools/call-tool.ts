/**
 * The dispatch activity: the only way a `tools/call` leaves a worker (INV-G1).
 *
 * Owns: the order check → token → call → outcome. Does not own: the checks (`dispatch-check.ts`), tokens, the protocol.
 * 1. One attempt; every ending is a value. A thrown error means a fault of ours before anything was sent.
 * 2. A token is minted after the checks, for this call, and dropped with it (INV-S2).
 */
import { cancellationSignal, heartbeat, log } from '@temporalio/activity';
import type { DispatchInput, DispatchResult } from '../../contracts/activities.ts';
import { codedFailureIn } from '../../contracts/failure.ts';
import type { Verdict } from '../../contracts/schemas/call.ts';
import type { CatalogSnapshot } from '../../contracts/schemas/catalog.ts';
import type { Config } from '../../contracts/schemas/config.ts';
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
import { needOfEnding, needOfListing, needOfToken, wanting } from './authorization-need.ts';
import { withinLimits } from './limited-call.ts';
import type { LiveTools } from './live-tools.ts';
import { inputOf, pausedBy } from './input-leg.ts';
import { endedBeforeSending, resultOf, type Told } from './dispatch-result.ts';
import type { CallEnding, CallProgress, ToolServer } from './port.ts';
import { checkProvided } from './provision-check.ts';
import { checkRetry } from './retry-check.ts';
import { checkStanding } from './standing-check.ts';
import { provenCall } from './proven-call.ts';
import { currentScheduler } from './scheduler.ts';
import type { ServerLimits } from './server-limits.ts';
import { accessTo, connectionOf, credentialsOf, type ServerAccess } from './server-access.ts';
import type { StateSeal } from './state-seal.ts';

export interface CallToolParts {
  readonly config: Config;
  readonly conditions: Conditions;
  readonly loadToolset: LoadToolset;
  readonly readCatalog: ReadCatalog;
  readonly broker: TokenBroker;
  readonly server: ToolServer;
  readonly limits: ServerLimits;
  readonly liveTools: Pick<LiveTools, 'current'>;
  /** Without it no server may ask people for input. */
  readonly seal?: StateSeal | undefined;
  /** In trust mode `signed`. */
  readonly checkSignatures?: CheckSignatures;
  readonly saidAuthorizations?: SaidAuthorizations;
}

export function createCallTool(parts: CallToolParts): (input: DispatchInput) => Promise<DispatchResult> {
  const { loadToolset, readCatalog, checkSignatures } = parts;
  const checker = new ArgumentChecker();
  return async (input) => {
    const scheduler = currentScheduler();
    const unscheduled = checkScheduler(input, scheduler);
    if (unscheduled !== undefined) return unscheduled;
    const { run, server } = input;
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
    const weighed = await weigh(parts, checker, input, now, catalog);
    // A changed definition is looked at where it comes from; what is refused for another reason is nothing to ask a server about.
    if (weighed.refused !== undefined && weighed.refused.code !== 'DEFINITION_CHANGED') return weighed.refused;
    const meeting = { now, catalog, weighed, request: tokenRequest(input, given, catalog) };
    // The list before the call leaves from the same place as the call.
    return await withinLimits(parts.limits, parts.server, input, (limited) =>
      callAsListed({ ...parts, server: limited }, checker, input, meeting),
    );
  };
}

interface Meeting {
  readonly now: ToolNow;
  readonly catalog: CatalogSnapshot | undefined;
  readonly weighed: Weighed;
  readonly request: TokenRequest;
}

/** The call, where the tool as its server lists it now may be called. */
async function callAsListed(
  parts: CallToolParts,
  checker: ArgumentChecker,
  input: DispatchInput,
  { now, catalog, weighed: before, request }: Meeting,
): Promise<DispatchResult> {
  const { run, server } = input;
  heartbeat({ phase: 'connecting' });
  let tool: OfferedTool;
  try {
    const shown = input.target.definitionHash;
    // With the grant with which it is called: a fresh one may see other tools.
    const principal = { run, server, grant: request.grant };
    tool = await parts.liveTools.current(principal, now.tool, shown, catalog, cancellationSignal(), parts.server);
  } catch (error) {
    return wanting(endedBeforeSending(error), (failed) => needOfListing(parts.config, request, failed));
  }
  const weighed =
    tool === now.tool ? before : await weigh(parts, checker, input, { tool, pinned: now.pinned }, catalog);
  if (weighed.refused !== undefined) return weighed.refused;
  const unanswered = checkProvided(input);
  if (unanswered !== undefined) return unanswered;
  const { verdict } = weighed;
  // What people have approved needs no glass.
  if (verdict.kind === 'allow' && input.proof.kind === 'policy') tellBrokenGlass(warn, verdict, run, input, 'sent');
  const proven = provenCall(input, tool, verdict);
  return await callWithToken(parts, input, tool, catalog, { ...request, tool: tool.definition.name, call: proven });
}

type Weighed =
  | { readonly refused: Refused }
  | { readonly refused: undefined; readonly verdict: Exclude<Verdict, { kind: 'deny' }> };

/** Would policy, schema and consent let the tool, as it is now, be called? */
async function weigh(
  { config, conditions }: Pick<CallToolParts, 'config' | 'conditions'>,
  checker: ArgumentChecker,
  input: DispatchInput,
  now: ToolNow,
  catalog: CatalogSnapshot | undefined,
): Promise<Weighed> {
  const { tool, pinned } = now;
  const { run, runPolicy, callId, earlier } = input;
  const call = { run, runPolicy, now, catalog, callId, arguments: input.arguments, earlier };
  const verdict = await verdictOn(config, conditions, call);
  // What may not be called at all is not asked about again.
  if (verdict.kind === 'deny') return { refused: { kind: 'refused', code: verdict.code, message: verdict.message } };
  // Nobody is asked for what cannot run; what the model proposed for the tool as it was pinned, the judge has checked.
  const isChecked = tool === pinned && !hasEditedArguments(input);
  const problems = isChecked ? [] : checker.problems(tool.hash, tool.definition.inputSchema, input.arguments);
  if (problems.length > 0) {
    const what = tool === pinned ? 'The edited arguments do not fit' : 'The tool has changed';
    return { refused: { kind: 'refused', code: 'ARGUMENTS_INVALID', message: `${what}: ${problems.join('; ')}.` } };
  }
  const refused =
    checkRetry(input, config, verdict) ?? checkDefinition(input, now, verdict) ?? checkConsent(input, verdict, catalog);
  return refused === undefined ? { refused, verdict } : { refused };
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

/** For listing; a call is given its tool, and what is proven of it, once it is known which tool it meets. */
function tokenRequest(
  { run, server, grant: own }: DispatchInput,
  { grant = own, consented }: ProvenAuthorization,
  catalog: CatalogSnapshot | undefined,
): TokenRequest {
  return {
    run,
    server: server.name,
    serverUrl: server.url,
    initiator: run.initiator,
    signal: cancellationSignal(),
    ...(grant === undefined ? {} : { grant }),
    ...(consented.length === 0 ? {} : { consented }),
    ...credentialsOf(catalog, run.initiator.tenant),
  };
}

async function callWithToken(
  parts: CallToolParts,
  input: DispatchInput,
  tool: OfferedTool,
  catalog: CatalogSnapshot | undefined,
  request: TokenRequest,
): Promise<DispatchResult> {
  let access: ServerAccess;
  let token: MintedToken;
  try {
    access = accessTo(parts.config, input.server, catalog);
    token = await parts.broker.mint(request);
  } catch (error) {
    return wanting(endedBeforeSending(error), (failed) => needOfToken(parts.config, request, failed));
  }
  const told: Told = {};
  const finish = async (ending: CallEnding, minted: MintedToken): Promise<DispatchResult> =>
    ending.kind === 'input'
      ? await pausedBy(ending, input, parts.seal, minted.evidence)
      : wanting(resultOf(ending, minted, told), () =>
          ending.kind === 'refused' ? needOfEnding(parts.config, request, ending) : undefined,
        );
  let first: CallEnding;
  try {
    first = await send(parts, input, tool, access, token, told);
  } finally {
    token.release?.();
  }
  if (first.kind !== 'refused' || first.code !== 'TOOL_UNAUTHORIZED' || token.accessToken === undefined)
    return await finish(first, token);
  // A 401 is proof that nothing ran: one fresh token, once (RFC 6750 §3.1). Metadata and issuer may take most of a heartbeat's time.
  heartbeat({ phase: 'connecting' } satisfies CallProgress);
  let fresh: MintedToken;
  try {
    fresh = await parts.broker.mint({ ...request, refused: token.accessToken });
  } catch (error) {
    return await finish({ ...first, message: `${first.message}${whyNone(error)}` }, token);
  }
  if (fresh.accessToken === token.accessToken) return await finish(first, token);
  try {
    return await finish(await send(parts, input, tool, access, fresh, told), fresh);
  } finally {
    fresh.release?.();
  }
}

/** Of a fresh token, for whoever has to mend it: that the server trusts another issuer, for instance. */
function whyNone(error: unknown): string {
  const coded = codedFailureIn(error);
  return coded === undefined ? '' : ` ${coded.message}`;
}

async function send(
  { server, seal }: CallToolParts,
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
    ...(input.limits.sharedBy === undefined ? {} : { sharedBy: input.limits.sharedBy }),
    signal: cancellationSignal(),
    heartbeat: (details) => {
      told.last = details;
      heartbeat(details);
    },
    ...(await inputOf(input, seal)),
  });
}
