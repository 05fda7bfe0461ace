/**
 * A run's first activity checks the spec that a starter sent, in any language, against the contract and this
 * configuration. It also fixes the run's limits and the price of its model.
 *
 * 1. An invalid spec fails with one code, path and reason (SPEC_INVALID, SECRET_IN_SPEC, …) before anything else
 *    happens.
 * 2. Spend limit and price are read once, at the start, and kept by the run.
 */
import { defined } from '../../contracts/defined.ts';
import { CountersignError } from '../../contracts/errors.ts';
import { CALLER_MODEL } from '../../contracts/names.ts';
import type { CatalogSnapshot } from '../../contracts/schemas/catalog.ts';
import type { Config } from '../../contracts/schemas/config.ts';
import { parseAs } from '../../contracts/schemas/parse.ts';
import type { JsonObject } from '../../contracts/schemas/json.ts';
import type { PauseKind } from '../../contracts/schemas/request.ts';
import { type Fairness, Limits, MOST_SPEC_BYTES, RunSpec, type ServerRef } from '../../contracts/schemas/run-spec.ts';
import type { ServerBinding } from '../../contracts/schemas/tool.ts';
import type { Message } from '../../contracts/schemas/transcript.ts';
import type { RunPriority } from '../../contracts/wire/identity.ts';
import type { ModelPrice, PreparedRun } from '../../contracts/wire/run.ts';
import { answerersOf } from '../../domain/policy/approvers.ts';
import { specHash } from '../../domain/request/digest.ts';
import { executionOf, mayHost, requiresBoundTokens } from '../../domain/run/hosted.ts';
import { millionthsOf, TALLY_BYTES } from '../../domain/run/limits.ts';
import { readsLinks } from '../../domain/run/resource-link.ts';
import { screenSpec } from '../../domain/run/spec-screen.ts';
import { byteLength, canonicalJson, hashOf } from '../../domain/text/canonical.ts';
import { bounded, visible } from '../../domain/text/escape.ts';
import { isRefusal } from '../../domain/text/refusal.ts';
import { nearNames } from '../../domain/text/match.ts';
import { canonicalServerUrl } from '../../domain/text/urls.ts';
import { assertConnectable, type ReadCatalog } from '../catalog/reader.ts';
import { currentScheduler } from '../kit/activity.ts';
import { waitsForTasks } from '../mcp/legacy-2025/tasks.ts';
import { ConditionClock, Conditions } from '../policy/condition.ts';
import { policyVersionOf } from '../policy/judge.ts';
import { isExchanged } from '../tokens/configured.ts';
import { proveStart, type StartProofParts } from '../trust/start-proof.ts';
import { ownValue } from '../kit/json.ts';
import { slipIn } from '../kit/json-schema.ts';
import { OutOfTime, within } from '../kit/time-limit.ts';

/** All calls of a turn may be sent, each with policy and server, in one workflow task of at most 4 MiB. */
const TASK_BYTES = 3_145_728;

/** Results and arguments of an open turn travel through continue-as-new, which holds 2 MiB with all beside them. */
export const TURN_BYTES = 1_310_720;

/** Default limit of a turn's results: about 65,000 tokens. */
const RESULT_BYTES_PER_TURN = 262_144;

/** @param signing set in trust mode `signed` */
export function createPrepareRun(
  config: Config,
  readCatalog: ReadCatalog,
  conditions: Conditions = new Conditions(),
  signing?: StartProofParts,
): (spec: unknown) => Promise<PreparedRun> {
  return async (given) => {
    const finding = screenSpec(given);
    if (finding !== undefined) throw new CountersignError(finding.code, finding.message, { path: finding.path });
    const spec = parseAs(RunSpec, given, 'SPEC_INVALID', 'run spec');
    // The proof comes before any other read: a starter that is not believed learns nothing of this deployment.
    const proven = signing === undefined ? {} : await proveStart(signing, given, spec, currentScheduler());
    assertSize(spec);
    if (!isSingleCall(spec) && !Object.hasOwn(config.models, spec.agent.model)) {
      const message = `agent.model: no model is configured as ${quotedName(spec.agent.model)}.${hint(spec.agent.model, config.models)}`;
      throw new CountersignError('MODEL_UNKNOWN', message, { path: 'agent.model' });
    }
    assertOutput(spec);
    assertDistinct(spec);
    assertGrants(config, spec);
    await assertConditions(conditions, spec);
    const tally = (await conditions.readEarlier(config.policy)) || (await conditions.readEarlier(spec.policy));
    const limits = limitsOf(config, spec, tally ? TALLY_BYTES : 0);
    const price = priceOf(config, spec.agent.model, limits);
    const servers = await Promise.all(
      spec.servers.map(async (server, index) => {
        const catalog = await readCatalog({ tenant: spec.initiator.tenant, server: server.name });
        return bindServer(config, server, catalog, `servers[${index}]`, spec.agent.model);
      }),
    );
    return {
      specHash: specHash(spec),
      policyVersion: policyVersionOf(config),
      limits,
      initiator: spec.initiator,
      servers,
      opening: opening(spec),
      ...(tally ? { tally } : {}),
      ...(waitsForTasks(config) ? { tasks: true } : {}),
      ...defined({ price }),
      ...pausesOf(config, spec),
      ...linksOf(config, spec),
      priority: priorityOf(config.fairness, spec),
      ...stretchOf(config),
      // A sink has acknowledged the whole ledger when the run ends.
      ...(config.ledger === undefined ? { records: 'history' } : {}),
      ...notifyOf(config),
      ...proven,
    };
  };
}

/** Returns nothing if no rule tells anybody. A run gathers nothing itself (docs/adr/0086). */
function notifyOf({ policy }: Config): Pick<PreparedRun, 'notify'> {
  const routes = policy.notify ?? [];
  const tells = [routes, ...(policy.rules ?? []).map((rule) => rule.notify ?? [])];
  return tells.every(({ length }) => length === 0) ? {} : { notify: { routes } };
}

/** In trust mode `signed` the record of a stretch would have to be proven, which it is not: each step stands alone. */
function stretchOf({ execution: { stretch }, trust }: Config): Pick<PreparedRun, 'stretch'> {
  return stretch.turns === 0 || trust.mode === 'signed' ? {} : { stretch };
}

/** Lists the pauses besides consent, as far as no layer turns them off. Questions of servers are always asked. */
function pausesOf({ policy }: Config, spec: RunSpec): Pick<PreparedRun, 'pauses' | 'answerers' | 'listings'> {
  const layers = [policy, spec.policy];
  const isRecorded = layers.some((layer) => layer?.unknownOutcomes === 'record');
  const fails = layers.some((layer) => layer?.missingAuthorization === 'fail');
  const pauses: PauseKind[] = isRecorded ? ['input'] : ['outcome', 'input'];
  const answerers = answerersOf({ organisation: policy, run: spec.policy }, spec.initiator.id);
  if (fails) return { pauses, answerers };
  return { pauses: [...pauses, 'authorization'], listings: 'asked', answerers };
}

function linksOf({ servers }: Config, spec: RunSpec): Pick<PreparedRun, 'links'> {
  const links = spec.servers.map(({ name }) => name).filter((name) => readsLinks(servers, name));
  return links.length === 0 ? {} : { links };
}

function invalid(message: string, path: string): CountersignError {
  return new CountersignError('SPEC_INVALID', message, { path });
}

function assertSize(spec: RunSpec): void {
  const bytes = byteLength(canonicalJson(spec));
  if (bytes <= MOST_SPEC_BYTES) return;
  const message = `The run spec has ${bytes} bytes; ${MOST_SPEC_BYTES} are allowed. Give long texts to the tools instead.`;
  throw new CountersignError('SPEC_INVALID', message);
}

/** Processor time for reading a run's conditions: 500 plain ones take half a second, hostile ones minutes. */
const READ_MS = 20_000;

async function assertConditions(conditions: Conditions, { policy }: RunSpec): Promise<void> {
  const [problem] = await conditions.problems(policy, new ConditionClock(READ_MS));
  if (problem === undefined) return;
  const path = `policy.rules[${problem.index}].when`;
  throw invalid(`${path} ${problem.reason}. Correct it and try again.`, path);
}

/** The check of an answer has as long. Nested `$id`s may take the validator for ever, and are left to that check. */
const SLIP_MS = 1_000;

/** Else the model would be paid for two answers of which none could fit. */
function assertOutput({ agent: { output } }: RunSpec): void {
  const slip = output === undefined ? undefined : slipInTime(output);
  if (slip === undefined) return;
  throw invalid(
    `agent.output ${bounded(visible(slip), 300)}. Correct the JSON Schema and start again.`,
    'agent.output',
  );
}

function slipInTime(output: JsonObject): string | undefined {
  try {
    return within(SLIP_MS, () => slipIn(output));
  } catch (error) {
    if (error instanceof OutOfTime) return undefined;
    throw error;
  }
}

function assertDistinct({ servers }: RunSpec): void {
  const twice = servers.findIndex(({ name }, index) => servers.findIndex((other) => other.name === name) !== index);
  const path = `servers[${twice}].name`;
  if (twice !== -1) throw invalid(`${path} stands twice; every server needs a name of its own.`, path);
}

function assertGrants(config: Config, { servers, grants }: RunSpec): void {
  for (const [index, grant] of grants.entries()) {
    const path = `grants[${index}]`;
    if (!servers.some(({ name }) => name === grant.server))
      throw invalid(`${path}.server is not among the run's servers.`, `${path}.server`);
    if (grants.findIndex(({ server }) => server === grant.server) !== index)
      throw invalid(`${path}: a server takes one grant.`, path);
    // A reference is resolved, and refused, by the workers that call the server: they have the vault.
    if ('ref' in grant) continue;
    if (config.policy.givenTokens === 'deny' && !mayExchange(config, grant.server)) {
      const message = `${path}: organisation policy (givenTokens: deny) takes no token from a caller.`;
      throw new CountersignError('GRANT_FORBIDDEN', message, { path });
    }
  }
}

/** True if the grant may be an assertion, which no tool server gets; a catalog's credentials decide later. */
function mayExchange({ servers, credentials }: Config, server: string): boolean {
  const configured = ownValue(servers, server);
  if (configured !== undefined) return isExchanged(configured.credentials);
  return Object.values(credentials).some(({ use }) => isExchanged(use));
}

/** @param beside bytes that each call brings besides its arguments */
function limitsOf({ limits: ceilings }: Config, spec: RunSpec, beside: number): Limits {
  const { spend, resultBytesPerTurn = RESULT_BYTES_PER_TURN, ...asked } = spec.limits;
  const capped = Object.fromEntries(
    Object.entries(asked).map(([name, value]) => {
      // Sound: both records have the keys of Limits, and all its values but `spend` are numbers.
      const ceiling = ceilings[name as keyof typeof asked];
      return [name, ceiling === undefined ? value : Math.min(value, ceiling)];
    }),
  );
  const perTurn = Math.min(resultBytesPerTurn, ceilings.resultBytesPerTurn ?? resultBytesPerTurn);
  // A single call asks no model that could cost something.
  const least = isSingleCall(spec) ? {} : defined({ spend: leastOf(spend, ceilings.spend) });
  const limits = parseAs(Limits, { ...capped, resultBytesPerTurn: perTurn, ...least }, 'SPEC_INVALID', 'limits');
  const { callsPerTurn, resultBytes, argumentBytesPerTurn } = limits;
  if (callsPerTurn * resultBytes + argumentBytesPerTurn > TURN_BYTES)
    throw invalid(
      `limits.resultBytes × limits.callsPerTurn + limits.argumentBytesPerTurn must be at most ${TURN_BYTES}; lower one of them.`,
      'limits.resultBytes',
    );
  const besideEach = bytesBesideCall(spec) + beside;
  if (callsPerTurn * besideEach + argumentBytesPerTurn > TASK_BYTES)
    throw invalid(
      `Policy, allowedTools and grant of a call have ${besideEach} bytes, which limits.callsPerTurn (${callsPerTurn}) calls send at once; lower it, or shorten them.`,
      'limits.callsPerTurn',
    );
  return limits;
}

function isSingleCall({ agent }: RunSpec): boolean {
  return agent.model === CALLER_MODEL;
}

/** Returns the most bytes of a dispatch besides its arguments: a server's tools occur in it twice. */
function bytesBesideCall({ policy, servers, grants }: RunSpec): number {
  const bytesOf = (value: unknown): number => byteLength(JSON.stringify(value ?? null));
  const tools = servers.reduce((sum, { allowedTools }) => sum + 2 * bytesOf(allowedTools), 0);
  return bytesOf(policy) + tools + Math.max(0, ...grants.map(bytesOf));
}

function opening({ agent, input }: RunSpec): Message[] {
  const texts = typeof input === 'string' ? [input] : input.map(({ content }) => content);
  const said = texts.map((text): Message => ({ role: 'user', text }));
  return agent.instructions === '' ? said : [{ role: 'system', text: agent.instructions }, ...said];
}

/** An operator's ceiling also holds if a run states none. */
function leastOf(asked: string | undefined, ceiling: string | undefined): string | undefined {
  if (asked === undefined || ceiling === undefined) return asked ?? ceiling;
  return millionthsOf(asked) <= millionthsOf(ceiling) ? asked : ceiling;
}

/** A spend limit needs a price: a run whose cost cannot be counted is not begun (INV-G4). */
function priceOf({ models }: Config, name: string, { spend }: Limits): ModelPrice | undefined {
  const price = models[name]?.price;
  if (price !== undefined)
    return { input: millionthsOf(price.input), output: millionthsOf(price.output), currency: price.currency };
  if (spend === undefined) return undefined;
  const message = `limits.spend is ${spend}, and model ${name} has no price in the configuration (models.${name}.price). Name a model that has one, or ask the operator to state it.`;
  throw invalid(message, 'agent.model');
}

/**
 * Resolves the name of a server in a run: configured, in the catalog of its tenant, or brought by the run as a URL. One
 * name is one server: if several of these sources know the name, they agree on its URL, or the run is refused.
 */
function bindServer(
  config: Config,
  { name, url, allowedTools, execute }: ServerRef,
  catalog: CatalogSnapshot | undefined,
  path: string,
  model: string,
): ServerBinding {
  if (catalog !== undefined) assertConnected(catalog, url, path);
  const configured = ownValue(config.servers, name);
  const execution = executionOf({
    server: name,
    configured: configured?.execute,
    asked: execute,
    model,
    canHost: mayHost(config, model),
    isBound: requiresBoundTokens(configured),
    hasCatalog: catalog !== undefined,
    path,
  });
  if (isRefusal(execution)) throw new CountersignError(execution.code, execution.message, execution.facts);
  const connection = catalog?.connection;
  if (connection !== undefined) assertConnectable(config, name, connection);
  const own = configured?.url ?? connection?.url ?? url;
  if (own === undefined) {
    const message = `${path}.name: no server is configured as ${quotedName(name)}, and no url is given.${hint(name, config.servers)}`;
    throw new CountersignError('SERVER_UNKNOWN', message, { path: `${path}.name` });
  }
  if (configured === undefined && connection === undefined) assertReachable(config, own, `${path}.url`);
  if (url !== undefined && canonicalServerUrl(url) !== canonicalServerUrl(own))
    throw invalid(
      `${path}.url differs from the configured URL of ${name}; leave it out or choose another name.`,
      `${path}.url`,
    );
  const { taskQueue = connection?.taskQueue, startWaitSeconds, elicitation } = configured ?? {};
  return {
    name,
    url: canonicalServerUrl(own),
    ...defined({ taskQueue, allowedTools }),
    ...(catalog === undefined ? {} : { catalog: true }),
    ...defined({ startWaitSeconds }),
    // A provider has no way to put questions of the server before people.
    ...(execution === 'hosted' ? { hosted: model } : defined({ holdSeconds: elicitation?.holdSeconds })),
  };
}

function assertConnected({ status, server, connection }: CatalogSnapshot, url: string | undefined, path: string): void {
  if (status !== 'connected' || connection === undefined) {
    const message = `${path}.name: the catalog has disconnected ${server}, and no run may use it. Ask an administrator of the catalog.`;
    throw new CountersignError('SERVER_UNKNOWN', message, { path: `${path}.name` });
  }
  if (url !== undefined && canonicalServerUrl(url) !== connection.url)
    throw invalid(
      `${path}.url differs from the URL of ${server} in the catalog; leave it out or choose another name.`,
      `${path}.url`,
    );
}

export function assertReachable(config: Pick<Config, 'egress'>, url: string, path: string): void {
  const { origin } = new URL(url);
  if (config.egress.runServers.some((allowed) => new URL(allowed).origin === origin)) return;
  const message = `${path}: egress.runServers does not list the origin ${origin}; ask the operator, or name a configured server.`;
  throw invalid(message, path);
}

function quotedName(name: string): string {
  return `"${visible(bounded(name, 128))}"`;
}

function hint(wanted: string, known: Readonly<Record<string, unknown>>): string {
  const near = nearNames(wanted, Object.keys(known));
  return near.length > 0
    ? ` Did you mean ${near.join(', ')}?`
    : ` Configured: ${Object.keys(known).slice(0, 10).join(', ') || 'none'}.`;
}

/** Temporal's limit for a fairness key. */
const KEY_BYTES = 64;

/** The share is that of the tenant that was admitted, not of one the starter names: nobody queues as somebody else. */
export function priorityOf(
  { priority, highest, tenants }: Fairness,
  { priority: asked, initiator: { tenant } }: Pick<RunSpec, 'priority' | 'initiator'>,
): RunPriority {
  const own = ownValue(tenants, tenant);
  const first = own?.highest ?? highest;
  return {
    // Priority 1 comes first, so the larger number is the more modest one.
    priorityKey: Math.max(asked ?? own?.priority ?? priority, first),
    fairnessKey: byteLength(tenant) <= KEY_BYTES ? tenant : hashOf(tenant),
    fairnessWeight: own?.weight ?? 1,
  };
}
