/**
 * Checks whether a dispatch may leave this worker at all: who scheduled it, for which tool, whether it left before, and
 * whether policy, schema and people's consent let the tool be called as it is now.
 *
 * It trusts nothing in its input (INV-G1). It compares everything with this worker's configuration, the pinned
 * definition, and Temporal's own word on who scheduled the dispatch. Reads of linked resources are checked at the end;
 * statements of people are proven in `statement.ts`.
 */
import { CountersignError } from '../../contracts/errors.ts';
import { READ_RESOURCE, RUN_WORKFLOW } from '../../contracts/names.ts';
import type { ToolTarget } from '../../contracts/schemas/call.ts';
import type { CatalogSnapshot } from '../../contracts/schemas/catalog.ts';
import type { Config } from '../../contracts/schemas/config.ts';
import type { JsonValue } from '../../contracts/schemas/json.ts';
import type { ServerBinding, ToolDefinition } from '../../contracts/schemas/tool.ts';
import type { Message } from '../../contracts/schemas/transcript.ts';
import type { RunIdentity } from '../../contracts/wire/identity.ts';
import type { DispatchInput, DispatchResult } from '../../contracts/wire/tools.ts';
import { definitionDiff } from '../../domain/catalog/discovery.ts';
import { hostedBy } from '../../domain/run/hosted.ts';
import { describeForgotten, describeSend } from '../../domain/history/discarded-send.ts';
import { namesLink, notLinked, readsLinks } from '../../domain/run/resource-link.ts';
import type { OfferedTool } from '../../domain/run/toolset.ts';
import { canonicalJson } from '../../domain/text/canonical.ts';
import { bounded } from '../../domain/text/escape.ts';
import { currentTool, heldHash, type ToolNow } from '../catalog/reader.ts';
import { forbidden, type Refused, refused, type Scheduler, unknownOutcome } from '../kit/activity.ts';
import type { Conditions } from '../policy/condition.ts';
import { type ArgumentChecker, shownOf, verdictOn } from '../policy/judge.ts';
import { reachHash } from '../tokens/configured.ts';
import type { ReadDiscarded } from '../run/discarded-tail.ts';
import type { ReadMessage } from '../run/read-transcript.ts';
import type { CallToolParts } from './send.ts';
import {
  type Allowing,
  answerersNow,
  checkConsent,
  checkRetry,
  hasEditedArguments,
  type Leaving,
  reopen,
} from './statement.ts';

type Ended = Extract<DispatchResult, { kind: 'ended' }>;

export function checkRun(run: RunIdentity, { workflowType, workflowId, namespace }: Scheduler): Refused | undefined {
  if (workflowType !== RUN_WORKFLOW) return forbidden('Tools are called only by runs.');
  if (workflowId !== run.workflowId || namespace !== run.namespace)
    return forbidden('The call names another run than the one that scheduled it.');
  return undefined;
}

export function checkScheduler(input: DispatchInput, scheduler: Scheduler): Refused | undefined {
  const mistaken = checkRun(input.run, scheduler);
  if (mistaken !== undefined) return mistaken;
  if (scheduler.runId === input.runId) return undefined;
  const message =
    'The call was scheduled before the run was reset, and may have been sent then; it needs a fresh decision.';
  return reopen('DISPATCH_STALE_RUN', message);
}

/**
 * Checks that Temporal hands this dispatch to a worker for the first time. Anyone who may write to the namespace can
 * make Temporal hand it out again and restart the attempt count, but only in the first attempt does the attempt's time
 * equal the activity's. In any other, the call may have left.
 */
export function checkFirst({ attempt, scheduledAt, attemptAt }: Scheduler): Ended | undefined {
  if (attempt === 1 && attemptAt === scheduledAt) return undefined;
  const message =
    'Temporal was made to hand this call to a worker anew, by somebody who has failed, paused or reset its activity: it may have left before, and was not sent again. Find out at the server before anything is done again.';
  return unknownOutcome(message);
}

/** Finds the tool that the dispatch names, as it was pinned and as its catalog has it now. */
export async function foundTool(
  { config, loadToolset, readCatalog }: Pick<CallToolParts, 'config' | 'loadToolset' | 'readCatalog'>,
  input: DispatchInput,
): Promise<{ readonly refused: Refused } | { readonly now: ToolNow; readonly catalog: CatalogSnapshot | undefined }> {
  const { run, server } = input;
  const pinned = (await loadToolset(input.toolset)).find(({ modelName }) => modelName === input.name);
  if (pinned === undefined) return { refused: forbidden('The tool is not among those the run may use.') };
  const catalog = await readCatalog({ tenant: run.initiator.tenant, server: server.name });
  const now = await currentTool(loadToolset, catalog, pinned);
  const mistaken = checkTool(input, now.tool, config) ?? checkCatalog(server, catalog);
  return mistaken === undefined ? { now, catalog } : { refused: mistaken };
}

export function checkTool(
  { target, server, approvalRequestId, storedAnswerId }: DispatchInput,
  tool: OfferedTool,
  config: Pick<Config, 'servers' | 'models'>,
): Refused | undefined {
  const same =
    tool.server === target.server &&
    tool.serverUrl === target.serverUrl &&
    tool.definition.name === target.tool &&
    server.name === tool.server &&
    // An approval holds for one way of calling only.
    tool.hosted?.model === target.hosted &&
    server.hosted === target.hosted &&
    (target.hosted === undefined) === (approvalRequestId === undefined) &&
    (storedAnswerId === undefined || approvalRequestId !== undefined) &&
    // The judgement and signature name an address; the call goes to the address of the binding.
    server.url === target.serverUrl;
  if (!same) return forbidden('The call names another tool than the one that was judged.');
  const { hosted } = tool;
  if (hosted === undefined || canonicalJson(hosted) === canonicalJson(hostedBy(config, server.name, hosted.model)))
    return undefined;
  return forbidden(
    `The provider of model ${hosted.model} is reached at another address, or calls another connector for ${server.name}, than when the run listed its tools. Start the run again.`,
  );
}

/** Checks that the definition is the one shown. If it is not, the fresh decision is about the new definition. */
export function checkDefinition(
  { target }: DispatchInput,
  { tool, pinned }: ToolNow,
  verdict: Allowing,
): Refused | undefined {
  if (tool.hash === target.definitionHash) return undefined;
  const shown = pinned.hash === target.definitionHash ? pinned.definition : undefined;
  const reopened = reopen('DEFINITION_CHANGED', describeDrift(shown, tool.definition), verdict);
  return { ...reopened, definition: { hash: tool.hash, ...shownOf(tool) } };
}

/**
 * Checks that a standing decision is used on the way to the server on which the run listed its tools. That is known
 * here: workers that judge may have no credentials of the server.
 */
export function checkReach(
  { server, proof }: DispatchInput,
  config: Pick<Config, 'servers' | 'credentials'>,
  { reachedBy }: OfferedTool,
  verdict: Allowing,
  catalog: CatalogSnapshot | undefined,
): Refused | undefined {
  if (proof.kind !== 'standing' || reachedBy === undefined) return undefined;
  if (reachedBy === reachHash(config, server, catalog?.connection?.credentials)) return undefined;
  const message = `The credentials of ${server.name} are set otherwise than when the run listed its tools.`;
  return reopen('STANDING_LOST', message, verdict);
}

export function checkCatalog(server: ServerBinding, catalog: CatalogSnapshot | undefined): Refused | undefined {
  if (server.catalog !== true || catalog !== undefined) return undefined;
  return refused('CATALOG_NOT_FOUND', `The catalog of ${server.name} is gone, and with it who may call what.`);
}

const MOST_FIELDS = 5;
const VALUE_CHARACTERS = 120;

/**
 * Describes a changed definition in one bounded line. The server's words in it are quoted as JSON and cut.
 * @param before the definition as it was shown; absent if unknown
 */
export function describeDrift(before: ToolDefinition | undefined, now: ToolDefinition): string {
  const changed = 'The definition of the tool is not the one that was shown';
  if (before === undefined) return `${changed}.`;
  const fields = definitionDiff(before, now);
  const told = fields.slice(0, MOST_FIELDS).map(({ path, before: was, after: is }) => {
    const name = bounded(path, VALUE_CHARACTERS);
    if (was === undefined) return `${name} is new: ${quoted(is)}`;
    return is === undefined ? `${name} is gone, was ${quoted(was)}` : `${name} was ${quoted(was)}, is ${quoted(is)}`;
  });
  const more = fields.length > told.length ? [`and ${fields.length - told.length} more fields`] : [];
  return `${changed}: ${[...told, ...more].join('; ')}.`;
}

function quoted(value: JsonValue | undefined): string {
  return bounded(canonicalJson(value ?? null), VALUE_CHARACTERS);
}

// A call that was sent in history which a reset has discarded is a lost answer (INV-X1): a person is asked what became
// of it, and nothing is sent before.

/** A run sends a call again if the tool was repeatable when it was judged. That may have changed. */
export function checkResent({ callId, target, mayHaveRun }: DispatchInput, isRepeatable: boolean): Ended | undefined {
  if (isRepeatable || mayHaveRun === undefined) return undefined;
  const message = `Call ${callId} was sent before and may have run. Tool "${target.tool}" is not called repeatable any more, so it was not sent again.`;
  return { ...unknownOutcome(message), notRepeated: true };
}

/**
 * @param isRepeatable true if the operator calls the tool repeatable
 * @throws CountersignError `ENGINE_UNAVAILABLE`
 */
export async function lostInReset(
  input: DispatchInput,
  { workflowId, runId }: Pick<Scheduler, 'workflowId' | 'runId'>,
  isRepeatable: boolean,
  readDiscarded: ReadDiscarded,
): Promise<Ended | undefined> {
  // A retry decision was proven before; it belongs to this run and not to the discarded history.
  if (isRepeatable || input.retry !== undefined) return undefined;
  const discarded = await readDiscarded(workflowId, runId, input);
  if (discarded === undefined) return undefined;
  if (discarded.kind === 'forgotten') return unknownOutcome(describeForgotten());
  const { send } = discarded;
  return { ...unknownOutcome(describeSend(input.callId, send)), sent: { at: new Date(send.at).toISOString() } };
}

export type Weighed =
  | { readonly refused: Refused; readonly leaving?: undefined }
  | {
      readonly refused: undefined;
      readonly verdict: Allowing;
      /** Later checks hold people's answers other than consent against this. */
      readonly leaving: Leaving;
    };

export async function weigh(
  { config, conditions }: { readonly config: Config; readonly conditions: Conditions },
  checker: ArgumentChecker,
  input: DispatchInput,
  now: ToolNow,
  catalog: CatalogSnapshot | undefined,
): Promise<Weighed> {
  const { tool, pinned } = now;
  const { problems, unchecked } = checker.check(heldHash(now), tool.definition.inputSchema, input.arguments);
  const verdict = await verdictOn(config, conditions, { ...input, now, catalog, unchecked });
  // A call that policy denies needs no new question.
  if (verdict.kind === 'deny') return { refused: refused(verdict.code, verdict.message) };
  // Nobody is asked about a call that cannot run.
  if (problems.length > 0) {
    const what =
      tool === pinned
        ? `The ${hasEditedArguments(input) ? 'edited ' : ''}arguments do not fit`
        : 'The tool has changed';
    return { refused: refused('ARGUMENTS_INVALID', `${what}: ${problems.join('; ')}.`) };
  }
  const objection =
    checkRetry(input, config, verdict) ??
    checkDefinition(input, now, verdict) ??
    checkReach(input, config, pinned, verdict, catalog) ??
    checkConsent(input, verdict, catalog, Date.now());
  if (objection !== undefined) return { refused: objection };
  const leaving = { ...answerersNow(input, config, verdict), definitionHash: tool.hash, at: Date.now() };
  return { refused: undefined, verdict, leaving };
}

// A read of a linked resource (docs/adr/0042). The run's own judgement of the link is not believed.
//
// 1. The read leaves only if this worker's own configuration lets links in the results of this server be followed.
// 2. The link is looked up in the conversation of the run that Temporal says has scheduled this activity. It must be in
//    the result of a tool of the same server, with exactly this URI.

export function checkReading(
  { server, tool }: Pick<ToolTarget, 'server' | 'tool'>,
  { servers }: Pick<Config, 'servers'>,
): Refused | undefined {
  if (tool !== READ_RESOURCE || readsLinks(servers, server)) return undefined;
  const message = `Resources that results of ${server} link to are not read by this worker (servers.${server}.resourceLinks).`;
  return refused('TOOL_DISABLED', message);
}

/**
 * @param input of a read
 * @throws CountersignError `TOOL_UNAVAILABLE` if the conversation cannot be read
 */
export async function checkLink(
  input: DispatchInput,
  parts: Pick<CallToolParts, 'loadToolset' | 'readMessage'> & { readonly config: Pick<Config, 'servers'> },
): Promise<Refused | undefined> {
  const { target, toolset, link } = input;
  const { server } = target;
  const disabled = checkReading(target, parts.config);
  if (disabled !== undefined) return disabled;
  const { uri } = input.arguments;
  const message = link === undefined ? undefined : await messageAt(input, link.at, parts.readMessage);
  const offered = await parts.loadToolset(toolset);
  const serverOf = (name: string): string | undefined => offered.find(({ modelName }) => modelName === name)?.server;
  if (namesLink(message, { server, uri }, serverOf)) return undefined;
  return refused('RESOURCE_NOT_LINKED', notLinked(server));
}

async function messageAt({ run, runId }: DispatchInput, at: number, read: ReadMessage): Promise<Message | undefined> {
  if (!Number.isSafeInteger(at) || at < 0) return undefined;
  try {
    // Both ids were compared with Temporal's word before (`checkScheduler`).
    return await read(run.workflowId, runId, at);
  } catch {
    const text = 'The conversation of the run, which says what may be read, cannot be had; the call was not sent.';
    throw new CountersignError('TOOL_UNAVAILABLE', text);
  }
}
