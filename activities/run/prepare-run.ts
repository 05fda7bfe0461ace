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
import type { CatalogSnapshot } from '../../contracts/schemas/catalog.ts';
import type { Config } from '../../contracts/schemas/config.ts';
import { parseAs } from '../../contracts/schemas/parse.ts';
import type { PauseKind } from '../../contracts/schemas/request.ts';
import { type Fairness, Limits, MOST_SPEC_BYTES, RunSpec, type ServerRef } from '../../contracts/schemas/run-spec.ts';
import type { ServerBinding } from '../../contracts/schemas/tool.ts';
import type { Message } from '../../contracts/schemas/transcript.ts';
import type { RunPriority } from '../../contracts/wire/identity.ts';
import type { ModelPrice, PreparedRun } from '../../contracts/wire/run.ts';
import { answerersOf } from '../../domain/policy/approvers.ts';
import { specHash } from '../../domain/request/digest.ts';
import { millionthsOf, TALLY_BYTES } from '../../domain/run/limits.ts';
import { readsLinks } from '../../domain/run/resource-link.ts';
import { screenSpec } from '../../domain/run/spec-screen.ts';
import { byteLength, canonicalJson, hashOf } from '../../domain/text/canonical.ts';
import { bounded, visible } from '../../domain/text/escape.ts';
import { nearNames } from '../../domain/text/match.ts';
import { canonicalServerUrl } from '../../domain/text/urls.ts';
import { assertConnectable, type ReadCatalog } from '../catalog/reader.ts';
import { currentScheduler } from '../kit/activity.ts';
import { waitsForTasks } from '../mcp/legacy-2025/tasks.ts';
import { Conditions } from '../policy/condition.ts';
import { policyVersionOf } from '../policy/judge.ts';
import { isExchanged } from '../tokens/configured.ts';
import { proveStart, type StartProofParts } from '../trust/start-proof.ts';

/**
 * All calls of a turn may be sent in one workflow task, whose completion holds 4 MiB; each call carries policy and
 * server with it.
 */
const TASK_BYTES = 3_145_728;

/**
 * Results and arguments of an open turn travel together through continue-as-new. That holds 2 MiB, with everything
 * beside them.
 */
const TURN_BYTES = 1_310_720;

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
    if (!Object.hasOwn(config.models, spec.agent.model)) {
      throw new CountersignError(
        'MODEL_UNKNOWN',
        `agent.model: no model is configured as ${quotedName(spec.agent.model)}.${hint(spec.agent.model, config.models)}`,
        { path: 'agent.model' },
      );
    }
    assertDistinct(spec);
    assertGrants(config, spec);
    await assertConditions(conditions, spec);
    const tally = (await conditions.readEarlier(config.policy)) || (await conditions.readEarlier(spec.policy));
    const limits = limitsOf(config, spec, tally ? TALLY_BYTES : 0);
    const price = priceOf(config, spec.agent.model, limits);
    const { tenant } = spec.initiator;
    const servers = await Promise.all(
      spec.servers.map(async (server, index) =>
        bindServer(config, server, await readCatalog({ tenant, server: server.name }), `servers[${index}]`),
      ),
    );
    return {
      specHash: specHash(spec),
      policyVersion: policyVersionOf(config),
      limits,
      initiator: spec.initiator,
      servers,
      opening: opening(spec),
      repeats: 'answered',
      messages: 'hashed',
      ...(tally ? { tally } : {}),
      messageIds: 'compared',
      decisionIds: 'compared',
      grantEnds: 'recorded',
      ...(waitsForTasks(config) ? { tasks: true } : {}),
      ...defined({ price }),
      ...pausesOf(config, spec),
      ...linksOf(config, spec),
      priority: priorityOf(config.fairness, spec),
      lostAnswers: 'resumed',
      endings: 'stored',
      sentTimes: 'told',
      awayServers: 'awaited',
      withdrawals: 'doubted',
      ...proven,
    };
  };
}

/**
 * Returns the pauses besides consent that put a question before people, unless some layer turns them off. Questions of
 * servers are always put before people.
 */
function pausesOf({ policy }: Config, spec: RunSpec): Pick<PreparedRun, 'pauses' | 'answerers' | 'listings'> {
  const layers = [policy, spec.policy];
  const isRecorded = layers.some((layer) => layer?.unknownOutcomes === 'record');
  const fails = layers.some((layer) => layer?.missingAuthorization === 'fail');
  const pauses: PauseKind[] = [
    ...(isRecorded ? [] : (['outcome'] as const)),
    'input',
    ...(fails ? [] : (['authorization'] as const)),
  ];
  const listings = fails ? {} : { listings: 'asked' as const };
  return { pauses, ...listings, answerers: answerersOf({ organisation: policy, run: spec.policy }, spec.initiator.id) };
}

/**
 * Returns the run's servers, by name, whose resource links may be read by configuration. A server that a run or catalog
 * brings has no such setting.
 */
function linksOf({ servers }: Config, spec: RunSpec): Pick<PreparedRun, 'links'> {
  const links = spec.servers.map(({ name }) => name).filter((name) => readsLinks(servers, name));
  return links.length === 0 ? {} : { links };
}

function assertSize(spec: RunSpec): void {
  const bytes = byteLength(canonicalJson(spec));
  if (bytes > MOST_SPEC_BYTES)
    throw new CountersignError(
      'SPEC_INVALID',
      `The run spec has ${bytes} bytes; ${MOST_SPEC_BYTES} are allowed. Give long texts to the tools instead.`,
    );
}

/**
 * Checks the conditions that the starter wrote: one that cannot be evaluated is refused here, before it would fail for
 * each call.
 */
async function assertConditions(conditions: Conditions, { policy }: RunSpec): Promise<void> {
  const [problem] = await conditions.problems(policy);
  if (problem === undefined) return;
  const path = `policy.rules[${problem.index}].when`;
  throw new CountersignError('SPEC_INVALID', `${path} ${problem.reason}. Correct it and try again.`, { path });
}

function assertDistinct({ servers }: RunSpec): void {
  for (const [index, { name }] of servers.entries()) {
    if (servers.findIndex((other) => other.name === name) !== index) {
      throw new CountersignError(
        'SPEC_INVALID',
        `servers[${index}].name stands twice; every server needs a name of its own.`,
        { path: `servers[${index}].name` },
      );
    }
  }
}

function assertGrants(config: Config, { servers, grants }: RunSpec): void {
  for (const [index, grant] of grants.entries()) {
    const path = `grants[${index}]`;
    if (!servers.some(({ name }) => name === grant.server)) {
      throw new CountersignError('SPEC_INVALID', `${path}.server is not among the run's servers.`, {
        path: `${path}.server`,
      });
    }
    if (grants.findIndex(({ server }) => server === grant.server) !== index) {
      throw new CountersignError('SPEC_INVALID', `${path}: a server takes one grant.`, { path });
    }
    // A reference is resolved, and refused, by the workers that call the server: they have the vault.
    if ('ref' in grant) continue;
    if (config.policy.givenTokens === 'deny' && !mayExchange(config, grant.server)) {
      throw new CountersignError(
        'GRANT_FORBIDDEN',
        `${path}: organisation policy (givenTokens: deny) takes no token from a caller.`,
        { path },
      );
    }
  }
}

/**
 * True if the grant may be an assertion, which no tool server gets. If a catalog names the credentials, the broker
 * decides.
 */
function mayExchange({ servers, credentials }: Config, server: string): boolean {
  const configured = Object.hasOwn(servers, server) ? servers[server] : undefined;
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
  const least = leastOf(spend, ceilings.spend);
  const limits = parseAs(
    Limits,
    {
      ...capped,
      resultBytesPerTurn: Math.min(resultBytesPerTurn, ceilings.resultBytesPerTurn ?? resultBytesPerTurn),
      ...defined({ spend: least }),
    },
    'SPEC_INVALID',
    'limits',
  );
  if (limits.callsPerTurn * limits.resultBytes + limits.argumentBytesPerTurn > TURN_BYTES) {
    throw new CountersignError(
      'SPEC_INVALID',
      `limits.resultBytes × limits.callsPerTurn + limits.argumentBytesPerTurn must be at most ${TURN_BYTES}; lower one of them.`,
      { path: 'limits.resultBytes' },
    );
  }
  const besideEach = bytesBesideCall(spec) + beside;
  if (limits.callsPerTurn * besideEach + limits.argumentBytesPerTurn > TASK_BYTES) {
    throw new CountersignError(
      'SPEC_INVALID',
      `Policy, allowedTools and grant of a call have ${besideEach} bytes, which limits.callsPerTurn (${limits.callsPerTurn}) calls send at once; lower it, or shorten them.`,
      { path: 'limits.callsPerTurn' },
    );
  }
  return limits;
}

/**
 * Returns the most bytes that the dispatch of one call carries besides its arguments: a server's tools occur in it
 * twice.
 */
function bytesBesideCall({ policy, servers, grants }: RunSpec): number {
  const bytesOf = (value: unknown): number => byteLength(JSON.stringify(value ?? null));
  const tools = servers.reduce((sum, { allowedTools }) => sum + 2 * bytesOf(allowedTools), 0);
  return bytesOf(policy) + tools + Math.max(0, ...grants.map(bytesOf));
}

function opening({ agent, input }: RunSpec): Message[] {
  const said: Message[] =
    typeof input === 'string'
      ? [{ role: 'user', text: input }]
      : input.map(({ content }) => ({ role: 'user', text: content }));
  return agent.instructions === '' ? said : [{ role: 'system', text: agent.instructions }, ...said];
}

/** Spend has no default, unlike the other limits: an operator's ceiling also holds if a run states none. */
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
  throw new CountersignError(
    'SPEC_INVALID',
    `limits.spend is ${spend}, and model ${name} has no price in the configuration (models.${name}.price). Name a model that has one, or ask the operator to state it.`,
    { path: 'agent.model' },
  );
}

// Resolves the name of a server in a run: configured, in the catalog of its tenant, or brought by the run as
// a URL.
//
// 1. One name is one server: if several of these sources know the name, they agree on its URL, or the run is refused.

function bindServer(
  config: Config,
  { name, url, allowedTools }: ServerRef,
  catalog: CatalogSnapshot | undefined,
  path: string,
): ServerBinding {
  if (catalog !== undefined) assertConnected(catalog, url, path);
  const configured = Object.hasOwn(config.servers, name) ? config.servers[name] : undefined;
  const allowed = allowedTools === undefined ? {} : { allowedTools };
  if (configured !== undefined) {
    const own = canonicalServerUrl(configured.url);
    if (catalog?.connection !== undefined) assertConnectable(config, name, catalog.connection);
    if (url !== undefined && canonicalServerUrl(url) !== own) {
      throw new CountersignError(
        'SPEC_INVALID',
        `${path}.url differs from the configured URL of ${name}; leave it out or choose another name.`,
        { path: `${path}.url` },
      );
    }
    return {
      name,
      url: own,
      ...queueOf(configured.taskQueue ?? catalog?.connection?.taskQueue),
      ...allowed,
      ...(catalog === undefined ? {} : { catalog: true }),
      ...defined({ startWaitSeconds: configured.startWaitSeconds }),
      ...(configured.elicitation === undefined ? {} : { holdSeconds: configured.elicitation.holdSeconds }),
    };
  }
  if (catalog?.connection !== undefined) {
    assertConnectable(config, name, catalog.connection);
    return { name, url: catalog.connection.url, ...queueOf(catalog.connection.taskQueue), ...allowed, catalog: true };
  }
  if (url === undefined) {
    throw new CountersignError(
      'SERVER_UNKNOWN',
      `${path}.name: no server is configured as ${quotedName(name)}, and no url is given.${hint(name, config.servers)}`,
      { path: `${path}.name` },
    );
  }
  assertReachable(config, url, `${path}.url`);
  return { name, url: canonicalServerUrl(url), ...allowed };
}

function queueOf(taskQueue: string | undefined): { readonly taskQueue?: string } {
  return taskQueue === undefined ? {} : { taskQueue };
}

function assertConnected({ status, server, connection }: CatalogSnapshot, url: string | undefined, path: string): void {
  if (status !== 'connected' || connection === undefined)
    throw new CountersignError(
      'SERVER_UNKNOWN',
      `${path}.name: the catalog has disconnected ${server}, and no run may use it. Ask an administrator of the catalog.`,
      { path: `${path}.name` },
    );
  if (url !== undefined && canonicalServerUrl(url) !== connection.url)
    throw new CountersignError(
      'SPEC_INVALID',
      `${path}.url differs from the URL of ${server} in the catalog; leave it out or choose another name.`,
      { path: `${path}.url` },
    );
}

/** Refuses servers of a run whose origin the operator has not listed. */
export function assertReachable(config: Pick<Config, 'egress'>, url: string, path: string): void {
  const { origin } = new URL(url);
  if (!config.egress.runServers.some((allowed) => new URL(allowed).origin === origin)) {
    throw new CountersignError(
      'SPEC_INVALID',
      `${path}: egress.runServers does not list the origin ${origin}; ask the operator, or name a configured server.`,
      { path },
    );
  }
}

/** Quotes a name that somebody has chosen, for a message. */
function quotedName(name: string): string {
  return `"${visible(bounded(name, 128))}"`;
}

/** Suggests known names that are close to the wanted one. */
function hint(wanted: string, known: Readonly<Record<string, unknown>>): string {
  const near = nearNames(wanted, Object.keys(known));
  return near.length > 0
    ? ` Did you mean ${near.join(', ')}?`
    : ` Configured: ${Object.keys(known).slice(0, 10).join(', ') || 'none'}.`;
}

// Sets the place of a run's activities in a queue: the run's priority, and its tenant's share.
//
// 1. The share is that of the tenant that was admitted, not of one the starter names: nobody queues as somebody else.

/** Temporal's limit for a fairness key. */
const KEY_BYTES = 64;

export function priorityOf(
  { priority, highest, tenants }: Fairness,
  { priority: asked, initiator: { tenant } }: Pick<RunSpec, 'priority' | 'initiator'>,
): RunPriority {
  const own = Object.hasOwn(tenants, tenant) ? tenants[tenant] : undefined;
  const first = own?.highest ?? highest;
  return {
    // Priority 1 comes first, so the larger number is the more modest one.
    priorityKey: Math.max(asked ?? own?.priority ?? priority, first),
    fairnessKey: byteLength(tenant) <= KEY_BYTES ? tenant : hashOf(tenant),
    fairnessWeight: own?.weight ?? 1,
  };
}
