/**
 * The dispatch activity: the only way a `tools/call` leaves a worker (INV-G1).
 *
 * Owns: the order check → token → call → outcome. Does not own: the checks (`dispatch-check.ts`), tokens, the protocol.
 * 1. One attempt; every ending is a value. A thrown error means a fault of ours before anything was sent.
 * 2. A token is minted after the checks, for this call, and dropped with it (INV-S2).
 * 3. What its server would not take now is held back before anything is asked of it or its issuer, the list before the call included.
 */
import { cancellationSignal, heartbeat, log } from '@temporalio/activity';
import type { DispatchInput, DispatchResult } from '../../contracts/activities.ts';
import type { AuthorizationProof } from '../../contracts/dispatch-proof.ts';
import { codedFailureIn } from '../../contracts/failure.ts';
import type { CatalogSnapshot } from '../../contracts/schemas/catalog.ts';
import type { Config } from '../../contracts/schemas/config.ts';
import type { OfferedTool } from '../../domain/toolset.ts';
import { currentTool, type ToolNow } from '../catalog/layer.ts';
import type { ReadCatalog } from '../catalog/reader.ts';
import type { LoadToolset } from '../catalog/toolset.ts';
import { ArgumentChecker } from '../policy/arguments.ts';
import type { Conditions } from '../policy/conditions.ts';
import { tellBrokenGlass } from '../policy/judge.ts';
import type { MintedToken, TokenBroker, TokenRequest } from '../tokens/port.ts';
import type { SaidAuthorizations } from '../trust/authorization-proof.ts';
import type { CheckSignatures } from '../trust/dispatch-proof.ts';
import { checkCatalog, checkScheduler, checkTool } from './dispatch-check.ts';
import { provenAuthorization } from './authorization-check.ts';
import { needOfEnding, needOfListing, needOfToken, wanting } from './authorization-need.ts';
import { withinLimits } from './limited-call.ts';
import type { LiveTools } from './live-tools.ts';
import { inputOf, pausedBy } from './input-leg.ts';
import { endedBeforeSending, resultOf, type Told } from './dispatch-result.ts';
import type { CallEnding, ServerConnection, ToolServer } from './port.ts';
import { checkProvided } from './provision-check.ts';
import { provenCall } from './proven-call.ts';
import { type Pulse, pulsing } from './pulse.ts';
import { currentScheduler } from './scheduler.ts';
import type { ServerLimits } from './server-limits.ts';
import { accessTo, connectionOf, credentialsOf, secretsOf, type ServerAccess } from './server-access.ts';
import type { StateSeal } from './state-seal.ts';
import { STORING_MS } from './storing-time.ts';
import { weigh, type Weighed } from './weighing.ts';
import type { Leaving } from './word-now.ts';

/**
 * What leaves later has no time left in which its answer would be waited for: `callActivities` in `workflows/activity-stubs.ts` leaves
 * 90 s beside the call, and storing what it answers takes its part.
 */
const READY_WITHIN_MS = 90_000 - STORING_MS;

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
  return pulsing(heartbeat, async (input: DispatchInput, pulse): Promise<DispatchResult> => {
    const began = Date.now();
    const scheduler = currentScheduler();
    const unscheduled = checkScheduler(input, scheduler);
    if (unscheduled !== undefined) return unscheduled;
    const { run, server } = input;
    let said: readonly AuthorizationProof[];
    let now: ToolNow | undefined;
    let catalog: CatalogSnapshot | undefined;
    try {
      const unsigned = await checkSignatures?.(input, scheduler);
      if (unsigned !== undefined) return unsigned;
      said = (await parts.saidAuthorizations?.(input, scheduler)) ?? input.authorizations ?? [];
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
    const meeting = { now, catalog, weighed, said };
    // The list before the call leaves from the same place as the call.
    return await withinLimits(parts.limits, parts.server, input, (limited) =>
      callAsListed({ ...parts, server: limited, pulse, began }, checker, input, meeting),
    );
  });
}

interface Meeting {
  readonly now: ToolNow;
  readonly catalog: CatalogSnapshot | undefined;
  readonly weighed: Weighed;
  readonly said: readonly AuthorizationProof[];
}

/** The call, where the tool as its server lists it now may be called. */
async function callAsListed(
  parts: Underway,
  checker: ArgumentChecker,
  input: DispatchInput,
  { now, catalog, weighed: before, said }: Meeting,
): Promise<DispatchResult> {
  const { run, server } = input;
  const request = tokenRequest(input, said, catalog, before.leaving);
  let tool: OfferedTool;
  let held: readonly string[];
  try {
    const shown = input.target.definitionHash;
    // With the grant with which it is called: a fresh one may see other tools.
    const principal = { run, server, grant: request.grant };
    ({ tool, secrets: held } = await parts.liveTools.current(
      principal,
      now.tool,
      shown,
      catalog,
      cancellationSignal(),
      parts.server,
    ));
  } catch (error) {
    return wanting(endedBeforeSending(error), (failed) => needOfListing(parts.config, request, failed));
  }
  const weighed =
    tool === now.tool ? before : await weigh(parts, checker, input, { tool, pinned: now.pinned }, catalog);
  if (weighed.refused !== undefined) return weighed.refused;
  const { verdict, leaving } = weighed;
  const unanswered = checkProvided(input, leaving);
  if (unanswered !== undefined) return unanswered;
  // What people have approved needs no glass.
  if (verdict.kind === 'allow' && input.proof.kind === 'policy') tellBrokenGlass(warn, verdict, run, input, 'sent');
  const proven = provenCall(input, tool, verdict);
  const asked = tokenRequest(input, said, catalog, leaving);
  const called: TokenRequest = { ...asked, tool: tool.definition.name, call: proven };
  return await callWithToken(parts, input, tool, catalog, { request: called, held });
}

/** A dispatch that has begun. */
interface Underway extends CallToolParts {
  readonly pulse: Pulse;
  /** Epoch ms. */
  readonly began: number;
}

function warn(message: string, meta: Record<string, unknown>): void {
  log.warn(message, meta);
}

/** For listing; a call is given its tool, and what is proven of it, once it is known which tool it meets. */
function tokenRequest(
  input: DispatchInput,
  said: readonly AuthorizationProof[],
  catalog: CatalogSnapshot | undefined,
  leaving: Leaving | undefined,
): TokenRequest {
  const { run, server, grant: own } = input;
  const { grant = own, consented } = provenAuthorization(input, said, leaving);
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

interface Asking {
  readonly request: TokenRequest;
  /** Secrets with which its server was asked before. */
  readonly held: readonly string[];
}

async function callWithToken(
  parts: Underway,
  input: DispatchInput,
  tool: OfferedTool,
  catalog: CatalogSnapshot | undefined,
  { request, held }: Asking,
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
    first = await send(parts, input, tool, connectionOf(input.server, access, token, held), told);
  } finally {
    token.release?.();
  }
  if (first.kind !== 'refused' || first.code !== 'TOOL_UNAUTHORIZED' || token.accessToken === undefined)
    return await finish(first, token);
  // A 401 is proof that nothing ran: one fresh token, once (RFC 6750 §3.1).
  parts.pulse.say({ phase: 'connecting' });
  let fresh: MintedToken;
  try {
    fresh = await parts.broker.mint({ ...request, refused: token.accessToken });
  } catch (error) {
    return await finish({ ...first, message: `${first.message}${whyNone(error)}` }, token);
  }
  if (fresh.accessToken === token.accessToken) return await finish(first, token);
  try {
    // The server has seen the refused one, too.
    const connection = connectionOf(input.server, access, fresh, [...held, ...secretsOf(token)]);
    return await finish(await send(parts, input, tool, connection, told), fresh);
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
  { server, seal, pulse, began }: Underway,
  input: DispatchInput,
  tool: OfferedTool,
  connection: ServerConnection,
  told: Told,
): Promise<CallEnding> {
  if (Date.now() - began > READY_WITHIN_MS) return tooLate(input);
  return await server.call(connection, {
    definition: tool.definition,
    arguments: input.arguments,
    idempotencyKey: input.idempotencyKey,
    timeoutMs: input.limits.callTimeoutSeconds * 1_000,
    resultBytes: input.limits.resultBytes,
    ...(input.limits.sharedBy === undefined ? {} : { sharedBy: input.limits.sharedBy }),
    signal: cancellationSignal(),
    heartbeat: (details) => {
      told.last = details;
      pulse.say(details);
    },
    ...(await inputOf(input, seal)),
  });
}

function tooLate({ server, target }: DispatchInput): CallEnding {
  const message = `Listing the tools of server "${server.name}" and obtaining a token took more than ${READY_WITHIN_MS / 1_000} s; tool "${target.tool}" was not called.`;
  return { kind: 'not-sent', code: 'TOOL_UNAVAILABLE', message };
}
