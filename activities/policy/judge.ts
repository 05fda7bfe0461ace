/**
 * The activity `judge` applies policy, names and schemas to all calls of a turn.
 *
 * Owns: resolving what the model named. Does not own: the rules (`domain/policy/judge.ts`).
 * 1. It judges by the policy of this worker's configuration as it is now; the result is recorded and never computed
 *    again.
 * 2. It judges as many calls as a turn may hold, and lets other work run in between; the run denies the rest by limit.
 */
import { setImmediate } from 'node:timers/promises';
import type { JudgeInput, JudgeResult } from '../../contracts/wire/run.ts';
import { READ_RESOURCE } from '../../contracts/names.ts';
import { turnOf } from '../../contracts/ids.ts';
import type { Judgement, ProposedCall, Verdict } from '../../contracts/schemas/call.ts';
import type { CatalogSnapshot } from '../../contracts/schemas/catalog.ts';
import type { JsonObject } from '../../contracts/schemas/json.ts';
import type { Config } from '../../contracts/schemas/config.ts';
import type { ApproverRule, Policy } from '../../contracts/schemas/policy.ts';
import type { Tally } from '../../contracts/schemas/run-state.ts';
import { MOST_CALLS_PER_TURN } from '../../contracts/schemas/run-spec.ts';
import type { AskCondition } from '../../domain/policy/layer.ts';
import { trustsServer } from '../../domain/policy/catalog-layer.ts';
import { byteLength, canonicalJson, hashOf } from '../../domain/text/canonical.ts';
import { bounded, visible } from '../../domain/text/escape.ts';
import { nearNames } from '../../domain/text/near-names.ts';
import { judge } from '../../domain/policy/judge.ts';
import { readsLinks } from '../../domain/run/resource-link.ts';
import { redactionsOf } from '../../domain/policy/redaction.ts';
import { toolKey, withOpen } from '../../domain/run/tally.ts';
import type { OfferedTool } from '../../domain/run/toolset.ts';
import { connectionHash } from '../catalog/connection.ts';
import { currentTool, layerOf, type ToolNow } from '../catalog/layer.ts';
import type { ReadCatalog } from '../catalog/reader.ts';
import type { LoadToolset } from '../catalog/toolset.ts';
import { ArgumentChecker } from './arguments.ts';
import type { ConditionInputs } from './condition.ts';
import { ConditionClock, Conditions, hasConditions } from './condition-clock.ts';
import type { RunIdentity, ToolsetRef } from '../../contracts/wire/identity.ts';

/** An approver reads this much of a description; the whole text is pinned by its hash. */
const DESCRIPTION_CHARACTERS = 2_000;
const ANNOTATION_BYTES = 2_048;

export type PolicyConfig = Pick<Config, 'policy' | 'servers' | 'catalog'> & Partial<Pick<Config, 'trust'>>;

export function policyVersionOf({ policy, servers }: PolicyConfig): string {
  const trusted = Object.entries(servers).flatMap(([name, server]) => (server.trusted ? [name] : []));
  return hashOf({ policy, trusted: trusted.toSorted() });
}

/** One call, with everything that its verdict may depend on. */
export interface JudgedCall {
  readonly run: RunIdentity;
  readonly runPolicy: Policy | undefined;
  readonly now: ToolNow;
  readonly catalog: CatalogSnapshot | undefined;
  readonly callId: string;
  readonly arguments: JsonObject;
  readonly earlier: Tally | undefined;
}

export async function verdictOn(
  config: PolicyConfig,
  conditions: Conditions,
  call: JudgedCall,
  clock: ConditionClock = new ConditionClock(),
): Promise<Verdict> {
  const { run, runPolicy, now, catalog } = call;
  const { tool } = now;
  const layer = layerOf(catalog, now, config.catalog);
  const layers = { organisation: config.policy, run: runPolicy, ...(layer === undefined ? {} : { catalog: layer }) };
  const called = {
    server: tool.server,
    tool: tool.definition.name,
    annotations: tool.definition.annotations,
    serverTrusted: trustsHints(config, now, catalog),
  };
  const policies = [config.policy, runPolicy];
  const judged = (ask?: AskCondition): Verdict => judge(layers, called, run.initiator.id, ask, Date.now());
  if (!policies.some(hasConditions)) return judged();
  const inputs: ConditionInputs = {
    call: {
      server: called.server,
      tool: called.tool,
      callId: call.callId,
      annotations: called.serverTrusted ? (called.annotations ?? {}) : undefined,
    },
    args: call.arguments,
    run: { id: run.workflowId, tenant: run.initiator.tenant, turn: turnOf(call.callId) },
    initiator: run.initiator,
    earlier: call.earlier,
  };
  return await conditions.asked(policies, inputs, clock, judged);
}

/**
 * True if the hints of this tool exempt it from asking. Catalogs are not signed: in trust mode `signed` no catalog
 * makes a server trusted, and none brings the definition that is trusted.
 */
function trustsHints({ servers, trust }: PolicyConfig, now: ToolNow, catalog: CatalogSnapshot | undefined): boolean {
  const { server } = now.tool;
  const configured = Object.hasOwn(servers, server) ? servers[server]?.trusted : undefined;
  if (trust?.mode === 'signed' && (configured !== true || now.tool !== now.pinned)) return false;
  return trustsServer(catalog, configured);
}

/** Logs a call that passes though somebody would have been asked. @param meta names only, no arguments */
export type TellGlass = (message: string, meta: Readonly<Record<string, string>>) => void;

/** @param live read for each turn: its policy may change while the worker runs */
export function createJudge(
  live: PolicyConfig,
  loadToolset: LoadToolset,
  readCatalog: ReadCatalog,
  conditions: Conditions = new Conditions(),
  tellGlass: TellGlass = () => undefined,
): (input: JudgeInput) => Promise<JudgeResult> {
  const checker = new ArgumentChecker();
  const versions = new WeakMap<object, string>();
  return async ({ run, toolset, runPolicy, calls, earlier }) => {
    // The whole turn uses one policy and its version.
    const { policy, servers, catalog: catalogRules, trust } = live;
    const config: PolicyConfig = { policy, servers, catalog: catalogRules, ...(trust === undefined ? {} : { trust }) };
    const ownVersion = versions.get(config.policy) ?? policyVersionOf(config);
    versions.set(config.policy, ownVersion);
    const clock = new ConditionClock();
    /** Open requests of this turn, before the call that is judged. */
    const open: string[] = [];
    const offered = await loadToolset(toolset);
    const catalogs = await catalogsOf(readCatalog, run.initiator.tenant, toolset);
    const judgementOn = async (call: ProposedCall): Promise<Judgement> => {
      const pinned = offered.find(({ modelName }) => modelName === call.name);
      if (pinned === undefined) return denyUnknown(call, offered);
      const catalog = catalogs.get(pinned.server);
      const now = await currentTool(loadToolset, catalog, pinned);
      const { tool } = now;
      const verdict = await verdictOn(
        config,
        conditions,
        {
          run,
          runPolicy,
          now,
          catalog,
          callId: call.callId,
          arguments: call.arguments,
          earlier: earlier === undefined ? undefined : withOpen(earlier, open),
        },
        clock,
      );
      const resolved = {
        callId: call.callId,
        target: {
          server: tool.server,
          serverUrl: tool.serverUrl,
          tool: tool.definition.name,
          definitionHash: tool.hash,
        },
        repeatable: isRepeatable(config, tool),
        ...redactOf(config, tool),
      };
      if (verdict.kind === 'deny') return { ...resolved, verdict };
      if (verdict.kind === 'allow') tellBrokenGlass(tellGlass, verdict, run, resolved, 'allowed');
      // Nobody is asked about a call that cannot run.
      const problems =
        call.malformed === undefined
          ? checker.problems(tool.hash, tool.definition.inputSchema, call.arguments)
          : [call.malformed];
      if (problems.length > 0) return { ...resolved, verdict: badArguments(problems) };
      return {
        ...resolved,
        verdict,
        ...(verdict.kind === 'ask' ? { ...shownOf(tool), ...reachedBy(verdict.approvers, catalog) } : {}),
      };
    };
    const judgements: Judgement[] = [];
    for (const call of calls.slice(0, MOST_CALLS_PER_TURN)) {
      const judgement = await judgementOn(call);
      judgements.push(judgement);
      if (judgement.target !== undefined && judgement.verdict.kind !== 'deny') open.push(toolKey(judgement.target));
      await setImmediate();
    }
    return { policyVersion: versionWith(ownVersion, config, catalogs), judgements };
  };
}

/** Warns loudly: somebody has switched off the people who would have been asked. */
export function tellBrokenGlass(
  tell: TellGlass,
  { breakGlass }: Extract<Verdict, { kind: 'allow' }>,
  { workflowId }: RunIdentity,
  { callId, target: { server, tool } }: { callId: string; target: { server: string; tool: string } },
  what: 'allowed' | 'sent',
): void {
  if (breakGlass === undefined) return;
  const { rule, reason, until } = breakGlass;
  const named = { workflowId, callId, server, tool: visible(tool), rule, reason: visible(reason), until };
  tell(`Glass is broken: a call that would have been asked is ${what}.`, named);
}

/** Returns the catalogs of those servers of a run that have one. */
async function catalogsOf(
  readCatalog: ReadCatalog,
  tenant: string,
  toolset: readonly ToolsetRef[],
): Promise<ReadonlyMap<string, CatalogSnapshot>> {
  const read = await Promise.all(toolset.map(async ({ server }) => await readCatalog({ tenant, server })));
  return new Map(read.flatMap((catalog) => (catalog === undefined ? [] : [[catalog.server, catalog]])));
}

function versionWith(
  own: string,
  { catalog: { newTools } }: PolicyConfig,
  catalogs: ReadonlyMap<string, CatalogSnapshot>,
): string {
  if (catalogs.size === 0) return own;
  return hashOf({
    own,
    newTools,
    catalogs: Object.fromEntries([...catalogs].map(([server, { policyVersion }]) => [server, policyVersion])),
  });
}

/** Set only if an approval may be remembered, so that what was recorded before stays as it was. */
function reachedBy({ allOf }: ApproverRule, catalog: CatalogSnapshot | undefined): Pick<Judgement, 'connection'> {
  const connection = allOf.some(({ remember }) => remember !== undefined) ? connectionHash(catalog) : undefined;
  return connection === undefined ? {} : { connection };
}

/**
 * Reads own fields only: servers may be called `constructor`. A read is repeatable by the operator's setting that
 * offers it.
 */
export function isRepeatable(
  { servers }: PolicyConfig,
  { server, definition }: Pick<OfferedTool, 'server' | 'definition'>,
): boolean {
  if (definition.name === READ_RESOURCE) return readsLinks(servers, server);
  return Object.hasOwn(servers, server) && servers[server]?.repeatable.includes(definition.name) === true;
}

/** Set for calls too that nobody is asked about: a dispatch may ask after all. */
function redactOf({ policy: { redact = [] } }: PolicyConfig, tool: OfferedTool): Pick<Judgement, 'redact'> {
  const places = redactionsOf(redact, { server: tool.server, tool: tool.definition.name });
  return places.length === 0 ? {} : { redact: [...places] };
}

function denyUnknown(call: ProposedCall, offered: readonly OfferedTool[]): Judgement {
  const near = nearNames(
    call.name,
    offered.map(({ modelName }) => modelName),
  );
  const hint = near.length > 0 ? ` Did you mean ${near.join(', ')}?` : '';
  const message = `No tool is offered under the name ${bounded(call.name, 64)}.${hint}`;
  return {
    callId: call.callId,
    repeatable: false,
    verdict: { kind: 'deny', rules: ['default/not-offered'], code: 'TOOL_UNKNOWN', message },
  };
}

function badArguments(problems: readonly string[]): Verdict {
  return {
    kind: 'deny',
    rules: ['default/arguments'],
    code: 'ARGUMENTS_INVALID',
    message: `The arguments do not fit the tool's schema: ${problems.join('; ')}.`,
  };
}

export function shownOf({ definition }: OfferedTool): Pick<Judgement, 'description' | 'annotations'> {
  const { description, annotations } = definition;
  return {
    ...(description === undefined ? {} : { description: bounded(description, DESCRIPTION_CHARACTERS) }),
    ...(annotations === undefined || byteLength(canonicalJson(annotations)) > ANNOTATION_BYTES ? {} : { annotations }),
  };
}
