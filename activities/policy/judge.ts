/**
 * The activity `judge` applies policy, names and schemas to all calls of a turn; a dispatch applies them to its call.
 *
 * Owns: resolving what the model named. Does not own: the rules (`domain/policy/judge.ts`).
 * 1. It judges by the policy of this worker's configuration as it is now; the result is recorded and never computed
 *    again.
 * 2. It judges as many calls as a turn may hold, and lets other work run in between; the run denies the rest by limit.
 */
import { setImmediate } from 'node:timers/promises';
import { LRUCache } from 'lru-cache';
import { defined } from '../../contracts/defined.ts';
import { READ_RESOURCE, turnOf } from '../../contracts/names.ts';
import type { Judgement, ProposedCall, Verdict } from '../../contracts/schemas/call.ts';
import type { CatalogSnapshot } from '../../contracts/schemas/catalog.ts';
import type { Config } from '../../contracts/schemas/config.ts';
import type { JsonObject } from '../../contracts/schemas/json.ts';
import type { ApproverRule, Policy } from '../../contracts/schemas/policy.ts';
import { MOST_CALLS_PER_TURN } from '../../contracts/schemas/run-spec.ts';
import type { Tally } from '../../contracts/schemas/run-state.ts';
import type { RunIdentity, ToolsetRef } from '../../contracts/wire/identity.ts';
import type { JudgeInput, JudgeResult } from '../../contracts/wire/run.ts';
import { type AskCondition, judge, trustsServer } from '../../domain/policy/judge.ts';
import { redactionsOf } from '../../domain/policy/redaction.ts';
import { toolKey, withOpen } from '../../domain/run/limits.ts';
import { readsLinks } from '../../domain/run/resource-link.ts';
import type { OfferedTool } from '../../domain/run/toolset.ts';
import { byteLength, canonicalJson, hashOf } from '../../domain/text/canonical.ts';
import { bounded, visible } from '../../domain/text/escape.ts';
import { nearNames } from '../../domain/text/match.ts';
import {
  connectionHash,
  currentTool,
  heldHash,
  layerOf,
  type LoadToolset,
  type ReadCatalog,
  type ToolNow,
} from '../catalog/reader.ts';
import { ConditionClock, Conditions } from './condition.ts';
import type { ConditionInputs } from './condition-variables.ts';
import { ownValue } from '../kit/json.ts';
import { SchemaUnusable, ServerSchema } from '../kit/json-schema.ts';
import { OutOfTime, within } from '../kit/time-limit.ts';

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
  readonly runPolicy?: Policy | undefined;
  readonly now: ToolNow;
  readonly catalog: CatalogSnapshot | undefined;
  readonly callId: string;
  readonly arguments: JsonObject;
  readonly earlier?: Tally | undefined;
  /** Why the arguments could not be checked. */
  readonly unchecked?: string | undefined;
}

export async function verdictOn(
  config: PolicyConfig,
  conditions: Conditions,
  call: JudgedCall,
  clock?: ConditionClock,
): Promise<Verdict> {
  const { run, runPolicy, now, catalog, unchecked } = call;
  const { tool } = now;
  const layer = layerOf(catalog, now, config.catalog);
  const layers = { organisation: config.policy, run: runPolicy, ...defined({ catalog: layer }) };
  const called = {
    server: tool.server,
    tool: tool.definition.name,
    annotations: tool.definition.annotations,
    serverTrusted: trustsHints(config, now, catalog),
    ...defined({ unchecked }),
  };
  const policies = [config.policy, runPolicy];
  const judged = (ask: AskCondition): Verdict => judge(layers, called, run.initiator.id, ask, Date.now());
  const annotations = called.serverTrusted ? (called.annotations ?? {}) : undefined;
  const inputs: ConditionInputs = {
    call: { server: called.server, tool: called.tool, callId: call.callId, annotations },
    args: call.arguments,
    run: { id: run.workflowId, tenant: run.initiator.tenant, turn: turnOf(call.callId) || 0 },
    initiator: run.initiator,
    earlier: call.earlier,
  };
  return await conditions.asked(policies, inputs, clock ?? new ConditionClock(), judged);
}

/**
 * True if the hints of this tool exempt it from asking. Catalogs are not signed: in trust mode `signed` no catalog
 * makes a server trusted, and none brings the definition that is trusted.
 */
function trustsHints({ servers, trust }: PolicyConfig, now: ToolNow, catalog: CatalogSnapshot | undefined): boolean {
  const { server } = now.tool;
  const configured = ownValue(servers, server)?.trusted;
  if (trust?.mode === 'signed' && (configured !== true || now.tool !== now.pinned)) return false;
  return trustsServer(catalog, configured);
}

/** Logs a call that passes though somebody would have been asked. @param meta names only, no arguments */
export type TellGlass = (message: string, meta: Readonly<Record<string, string>>) => void;

/**
 * The activity that judges the calls of a turn, one after the other: each sees the open requests of those before it.
 * @param live read for each turn: its policy may change while the worker runs
 */
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
    const config: PolicyConfig = { policy, servers, catalog: catalogRules, ...defined({ trust }) };
    const ownVersion = versions.get(config.policy) ?? policyVersionOf(config);
    versions.set(config.policy, ownVersion);
    const clock = new ConditionClock();
    /** Open requests of this turn, before the call that is judged. */
    const open: string[] = [];
    const offered = await loadToolset(toolset);
    const catalogs = await catalogsOf(readCatalog, run.initiator.tenant, toolset);
    const judgementOn = async (call: ProposedCall): Promise<Judgement> => {
      const { callId, arguments: args, malformed } = call;
      const pinned = offered.find(({ modelName }) => modelName === call.name);
      if (pinned === undefined) return denyUnknown(call, offered);
      if (isMisdirected(call, pinned)) return denyMisdirected(call, pinned);
      const catalog = catalogs.get(pinned.server);
      const now = await currentTool(loadToolset, catalog, pinned);
      const before = earlier === undefined ? undefined : withOpen(earlier, open);
      const { server, serverUrl, definition, hash } = now.tool;
      // Arguments that are no object fit no schema.
      const { problems, unchecked }: CheckedArguments =
        malformed === undefined
          ? checker.check(heldHash(now), definition.inputSchema, args)
          : { problems: [malformed] };
      const judged = { run, runPolicy, now, catalog, callId, arguments: args, earlier: before, unchecked };
      const verdict = await verdictOn(config, conditions, judged, clock);
      const hosted = now.tool.hosted?.model;
      const target = { server, serverUrl, tool: definition.name, definitionHash: hash, ...defined({ hosted }) };
      const repeatable = isRepeatable(config, now, catalog);
      const resolved = { callId, target, repeatable, ...redactOf(config, now.tool) };
      if (verdict.kind === 'deny') return { ...resolved, verdict };
      if (verdict.kind === 'allow') tellBrokenGlass(tellGlass, verdict, run, resolved, 'allowed');
      // Nobody is asked about a call that cannot run.
      if (problems.length > 0) return { ...resolved, verdict: badArguments(problems) };
      const shown = verdict.kind === 'ask' ? { ...shownOf(now.tool), ...reachedBy(verdict.approvers, catalog) } : {};
      return { ...resolved, verdict, ...shown };
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
  const versions = Object.fromEntries([...catalogs].map(([server, { policyVersion }]) => [server, policyVersion]));
  return hashOf({ own, newTools, catalogs: versions });
}

/** Set only if an approval may be remembered, so that what was recorded before stays as it was. */
function reachedBy({ allOf }: ApproverRule, catalog: CatalogSnapshot | undefined): Pick<Judgement, 'connection'> {
  const connection = allOf.some(({ remember }) => remember !== undefined) ? connectionHash(catalog) : undefined;
  return defined({ connection });
}

/**
 * True if a call of the tool may be sent again. Either the operator lists the tool, or policy takes a trusted server's
 * word that it only reads. A read of a linked resource is repeatable by the setting that offers it; a hosted call never
 * is.
 */
export function isRepeatable(config: PolicyConfig, now: ToolNow, catalog: CatalogSnapshot | undefined): boolean {
  const { servers, policy } = config;
  const { server, definition, hosted } = now.tool;
  // A stretch and a resent call would ask a provider twice, and pay it twice.
  if (hosted !== undefined) return false;
  if (definition.name === READ_RESOURCE) return readsLinks(servers, server);
  if (ownValue(servers, server)?.repeatable.includes(definition.name) === true) return true;
  const isRead = definition.annotations?.readOnlyHint === true;
  return isRead && policy.repeatable === 'trusted-reads' && trustsHints(config, now, catalog);
}

/** Set for calls too that nobody is asked about: a dispatch may ask after all. */
function redactOf({ policy: { redact = [] } }: PolicyConfig, tool: OfferedTool): Pick<Judgement, 'redact'> {
  const places = redactionsOf(redact, { server: tool.server, tool: tool.definition.name });
  return places.length === 0 ? {} : { redact: [...places] };
}

/** True if the model called a hosted tool as one of ours, or the reverse: nobody could make such a call. */
function isMisdirected({ approvalRequestId }: ProposedCall, { hosted }: OfferedTool): boolean {
  return (approvalRequestId === undefined) !== (hosted === undefined);
}

function denyUnknown(call: ProposedCall, offered: readonly OfferedTool[]): Judgement {
  const names = offered.map(({ modelName }) => modelName);
  const near = nearNames(call.name, names);
  const hint = near.length > 0 ? ` Did you mean ${near.join(', ')}?` : '';
  return notOffered(call, `No tool is offered under the name ${bounded(call.name, 64)}.${hint}`);
}

function denyMisdirected(call: ProposedCall, { modelName, server, definition, hosted }: OfferedTool): Judgement {
  const tool = `tool ${bounded(visible(definition.name), 64)} of MCP server ${server}`;
  const message =
    hosted === undefined
      ? `${modelName} is a function, and was called as ${tool}. Call the function.`
      : `${modelName} is no function here: it is ${tool}. Call it as the tool of that server.`;
  return notOffered(call, message);
}

function notOffered({ callId }: ProposedCall, message: string): Judgement {
  return {
    callId,
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
  const isShort = annotations !== undefined && byteLength(canonicalJson(annotations)) <= ANNOTATION_BYTES;
  return defined({
    description: description === undefined ? undefined : bounded(description, DESCRIPTION_CHARACTERS),
    annotations: isShort ? annotations : undefined,
  });
}

// Checks arguments against the tool's pinned input schema: the model hears of a mistake before a person is asked.
//
// 1. The check is bounded in time. A schema that took too long by itself is not tried again for some minutes: the calls
//    of a turn would otherwise hold the worker's thread one after the other. What large arguments took is no fault of
//    the schema: the model chooses them.
// 2. A schema that cannot be used refuses nothing and lets nothing pass unseen: people are asked (INV-G4).

const MOST_KEPT_BYTES = 134_217_728;
/** A schema that cannot be used is kept as its reason. */
const REASON_BYTES = 1_000;
const CHECK_MS = 200;
/** Times that a check may run out of time before its schema is given up: once or twice may be the machine's fault. */
const MOST_TRIES = 3;
/** A schema that took too long is tried again after so long: the machine may have been busy. */
const GIVEN_UP_MS = 300_000;
/** UTF-8 bytes as JSON. The time for larger arguments says nothing of the schema. */
const LARGE_BYTES = 16_384;

export interface CheckedArguments {
  /** As `path: reason`, bounded; empty if the arguments fit, or could not be checked. */
  readonly problems: readonly string[];
  /** Why they could not be checked; continues "the tool's schema". */
  readonly unchecked?: string;
}

export class ArgumentChecker {
  /** A text says why the schema cannot be used. */
  readonly #kept: LRUCache<string, ServerSchema | string>;

  /** @param now ms of a clock that only goes forward */
  constructor(now: () => number = () => performance.now()) {
    this.#kept = new LRUCache({
      maxSize: MOST_KEPT_BYTES,
      sizeCalculation: (known) => (typeof known === 'string' ? REASON_BYTES : known.bytes),
      ttlResolution: 0,
      perf: { now },
    });
  }

  /** @param definitionHash of the definition that has the schema, under which it is kept */
  check(definitionHash: string, schema: JsonObject, args: JsonObject): CheckedArguments {
    const known = this.#kept.get(definitionHash) ?? this.#built(definitionHash, schema);
    const answer = typeof known === 'string' ? known : attempt(() => known.problems(args));
    if (answer === TOO_SLOW && known !== TOO_SLOW && byteLength(canonicalJson(args)) < LARGE_BYTES)
      this.#keep(definitionHash, answer);
    return typeof answer === 'string' ? { problems: [], unchecked: answer } : { problems: answer };
  }

  #built(definitionHash: string, schema: JsonObject): ServerSchema | string {
    const built = attempt(() => new ServerSchema(schema));
    this.#keep(definitionHash, built);
    return built;
  }

  #keep(definitionHash: string, known: ServerSchema | string): void {
    this.#kept.set(definitionHash, known, known === TOO_SLOW ? { ttl: GIVEN_UP_MS } : {});
  }
}

const TOO_SLOW = 'takes too long';

/** Returns why it cannot be done, as a text, if the schema is at fault. */
function attempt<Value>(task: () => Value): Value | string {
  for (let tries = 1; ; tries += 1) {
    const heldBefore = process.cpuUsage().user;
    try {
      return within(CHECK_MS, task);
    } catch (error) {
      if (error instanceof SchemaUnusable) return error.message;
      if (!(error instanceof OutOfTime)) return 'cannot be read';
      const ownMs = (process.cpuUsage().user - heldBefore) / 1_000;
      // Time that other processes and threads take of a busy machine is not the schema's fault.
      if ((ownMs > CHECK_MS / 2 && tries > 1) || tries >= MOST_TRIES) return TOO_SLOW;
    }
  }
}
