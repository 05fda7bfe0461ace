/**
 * The judge as an activity: policy, names and schemas for all calls of a turn.
 *
 * Owns: resolving what the model named. Does not own: the rules (`domain/policy.ts`).
 * 1. Judges by the policy of this worker's configuration as it is now; the result is recorded and never computed again.
 * 2. Judges as many calls as a turn may hold, and lets other work in between; the run denies the rest by limit.
 */
import { setImmediate } from 'node:timers/promises';
import type { JudgeInput, JudgeResult, ToolsetRef } from '../../contracts/activities.ts';
import type { Judgement, ProposedCall, Verdict } from '../../contracts/schemas/call.ts';
import type { CatalogSnapshot } from '../../contracts/schemas/catalog.ts';
import type { Config } from '../../contracts/schemas/config.ts';
import type { Policy } from '../../contracts/schemas/policy.ts';
import { MOST_CALLS_PER_TURN } from '../../contracts/schemas/run-spec.ts';
import { trustsServer } from '../../domain/catalog-layer.ts';
import { byteLength, canonicalJson, hashOf } from '../../domain/canonical.ts';
import { bounded } from '../../domain/escape.ts';
import { nearNames } from '../../domain/near-names.ts';
import { judge } from '../../domain/policy.ts';
import type { OfferedTool } from '../../domain/toolset.ts';
import { currentTool, layerOf, type ToolNow } from '../catalog/layer.ts';
import type { ReadCatalog } from '../catalog/reader.ts';
import type { LoadToolset } from '../catalog/toolset.ts';
import { ArgumentChecker } from './arguments.ts';

/** What an approver reads of a description; the whole one is pinned by its hash. */
const DESCRIPTION_CHARACTERS = 2_000;
const ANNOTATION_BYTES = 2_048;

export type PolicyConfig = Pick<Config, 'policy' | 'servers' | 'catalog'>;

export function policyVersionOf({ policy, servers }: PolicyConfig): string {
  const trusted = Object.entries(servers).flatMap(([name, server]) => (server.trusted ? [name] : []));
  return hashOf({ policy, trusted: trusted.toSorted() });
}

export function verdictOn(
  config: PolicyConfig,
  runPolicy: Policy | undefined,
  now: ToolNow,
  initiatorId: string,
  catalog: CatalogSnapshot | undefined,
): Verdict {
  const { tool } = now;
  const layer = layerOf(catalog, now, config.catalog);
  return judge(
    { organisation: config.policy, run: runPolicy, ...(layer === undefined ? {} : { catalog: layer }) },
    {
      server: tool.server,
      tool: tool.definition.name,
      annotations: tool.definition.annotations,
      serverTrusted: trustsServer(
        catalog,
        Object.hasOwn(config.servers, tool.server) ? config.servers[tool.server]?.trusted : undefined,
      ),
    },
    initiatorId,
  );
}

export function createJudge(
  config: PolicyConfig,
  loadToolset: LoadToolset,
  readCatalog: ReadCatalog,
): (input: JudgeInput) => Promise<JudgeResult> {
  const checker = new ArgumentChecker();
  const ownVersion = policyVersionOf(config);
  return async ({ run, toolset, runPolicy, calls }) => {
    const offered = await loadToolset(toolset);
    const catalogs = await catalogsOf(readCatalog, run.initiator.tenant, toolset);
    const judgementOn = async (call: ProposedCall): Promise<Judgement> => {
      const pinned = offered.find(({ modelName }) => modelName === call.name);
      if (pinned === undefined) return denyUnknown(call, offered);
      const catalog = catalogs.get(pinned.server);
      const now = await currentTool(loadToolset, catalog, pinned);
      const { tool } = now;
      const verdict = verdictOn(config, runPolicy, now, run.initiator.id, catalog);
      const resolved = {
        callId: call.callId,
        target: {
          server: tool.server,
          serverUrl: tool.serverUrl,
          tool: tool.definition.name,
          definitionHash: tool.hash,
        },
        repeatable: isRepeatable(config, tool),
      };
      if (verdict.kind === 'deny') return { ...resolved, verdict };
      // Nobody is asked for what cannot run (G-5).
      const problems =
        call.malformed === undefined
          ? checker.problems(tool.hash, tool.definition.inputSchema, call.arguments)
          : [call.malformed];
      if (problems.length > 0) return { ...resolved, verdict: badArguments(problems) };
      return { ...resolved, verdict, ...(verdict.kind === 'ask' ? shownOf(tool) : {}) };
    };
    const judgements: Judgement[] = [];
    for (const call of calls.slice(0, MOST_CALLS_PER_TURN)) {
      judgements.push(await judgementOn(call));
      await setImmediate();
    }
    return { policyVersion: versionWith(ownVersion, config, catalogs), judgements };
  };
}

/** Of the servers of a run, those that stand in a catalog. */
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

/** Servers may be called `constructor`. */
function isRepeatable({ servers }: PolicyConfig, { server, definition }: OfferedTool): boolean {
  return Object.hasOwn(servers, server) && servers[server]?.repeatable.includes(definition.name) === true;
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
