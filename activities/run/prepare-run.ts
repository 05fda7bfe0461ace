/**
 * A run's first activity: the spec a starter sent, in any language, against the contract and this configuration.
 *
 * 1. Fails with one code, path and reason (SPEC_INVALID, SECRET_IN_SPEC, …) before anything else happens.
 */
import type { PreparedRun } from '../../contracts/activities.ts';
import { CountersignError } from '../../contracts/errors.ts';
import type { Config } from '../../contracts/schemas/config.ts';
import type { PauseKind } from '../../contracts/schemas/pause.ts';
import { parseAs } from '../../contracts/schemas/parse.ts';
import { MOST_SPEC_BYTES, Limits, RunSpec } from '../../contracts/schemas/run-spec.ts';
import type { Message } from '../../contracts/schemas/transcript.ts';
import { answerersOf } from '../../domain/answerer.ts';
import { byteLength, canonicalJson } from '../../domain/canonical.ts';
import { readsLinks } from '../../domain/resource-link.ts';
import { specHash } from '../../domain/digest.ts';
import { screenSpec } from '../../domain/spec-screen.ts';
import { TALLY_BYTES } from '../../domain/tally.ts';
import type { ReadCatalog } from '../catalog/reader.ts';
import { Conditions } from '../policy/conditions.ts';
import { policyVersionOf } from '../policy/judge.ts';
import { isExchanged } from '../tokens/clients.ts';
import { currentScheduler } from '../tools/scheduler.ts';
import { waitsForTasks } from '../tools/task-tools.ts';
import { proveStart, type StartProofParts } from '../trust/start-proof.ts';
import { bindServer, hint, quotedName } from './bind-server.ts';
import { priorityOf } from './priority.ts';
import { leastOf, priceOf } from './spend-limit.ts';

/** All calls of a turn may leave in one workflow task, whose completion holds 4 MiB; each brings policy and server with it. */
const TASK_BYTES = 3_145_728;

/** Results and arguments of an open turn travel together through continue-as-new, which holds 2 MiB with all that is beside them. */
const TURN_BYTES = 1_310_720;

/** What a turn's results may bring where the spec does not say: about 65,000 tokens. */
const RESULT_BYTES_PER_TURN = 262_144;

/** @param signing in trust mode `signed` */
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
    // Before anything is read for it: whoever is not believed learns nothing of this deployment.
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
      ...(price === undefined ? {} : { price }),
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

/** What people are asked besides consent, unless some layer says that they are not; what servers ask is always put before them. */
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

/** Servers of the run by name, as the configuration has them: one that a run or catalog brings has no such setting. */
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

/** A run's conditions are written by whoever starts it: what cannot be evaluated is refused before it could fail for each call. */
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
    // A reference is resolved, and refused, where the vault is: on the workers that call the server.
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

/** May it be an assertion, which no tool server gets? Where a catalog names the credentials, the broker says which they are. */
function mayExchange({ servers, credentials }: Config, server: string): boolean {
  const configured = Object.hasOwn(servers, server) ? servers[server] : undefined;
  if (configured !== undefined) return isExchanged(configured.credentials);
  return Object.values(credentials).some(({ use }) => isExchanged(use));
}

/** @param beside what else each call brings, in bytes */
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
      ...(least === undefined ? {} : { spend: least }),
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

/** What the dispatch of one call carries besides its arguments, at most: a server's tools stand in it twice. */
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
