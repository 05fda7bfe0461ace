/**
 * The judge as an activity: policy, names and schemas for all calls of a turn.
 *
 * Owns: resolving what the model named. Does not own: the rules (`domain/policy.ts`).
 * 1. Judges by the policy of this worker's configuration as it is now; the result is recorded and never computed again.
 * 2. Judges as many calls as a turn may hold, and lets other work in between; the run denies the rest by limit.
 */
import { setImmediate } from 'node:timers/promises';
import type { JudgeInput, JudgeResult } from '../../contracts/activities.ts';
import type { Judgement, ProposedCall, Verdict } from '../../contracts/schemas/call.ts';
import type { Config } from '../../contracts/schemas/config.ts';
import type { Policy } from '../../contracts/schemas/policy.ts';
import { MOST_CALLS_PER_TURN } from '../../contracts/schemas/run-spec.ts';
import { byteLength, canonicalJson, hashOf } from '../../domain/canonical.ts';
import { bounded } from '../../domain/escape.ts';
import { nearNames } from '../../domain/near-names.ts';
import { judge } from '../../domain/policy.ts';
import type { OfferedTool } from '../../domain/toolset.ts';
import type { LoadToolset } from '../catalog/toolset.ts';
import { ArgumentChecker } from './arguments.ts';

/** What an approver reads of a description; the whole one is pinned by its hash. */
const DESCRIPTION_CHARACTERS = 2_000;
const ANNOTATION_BYTES = 2_048;

export type PolicyConfig = Pick<Config, 'policy' | 'servers'>;

export function policyVersionOf({ policy, servers }: PolicyConfig): string {
  const trusted = Object.entries(servers).flatMap(([name, server]) => (server.trusted ? [name] : []));
  return hashOf({ policy, trusted: trusted.toSorted() });
}

export function verdictOn(
  config: PolicyConfig,
  runPolicy: Policy | undefined,
  tool: OfferedTool,
  initiatorId: string,
): Verdict {
  return judge(
    { organisation: config.policy, run: runPolicy },
    {
      server: tool.server,
      tool: tool.definition.name,
      annotations: tool.definition.annotations,
      serverTrusted: Object.hasOwn(config.servers, tool.server) && config.servers[tool.server]?.trusted === true,
    },
    initiatorId,
  );
}

export function createJudge(
  config: PolicyConfig,
  loadToolset: LoadToolset,
): (input: JudgeInput) => Promise<JudgeResult> {
  const checker = new ArgumentChecker();
  const policyVersion = policyVersionOf(config);
  return async ({ run, toolset, runPolicy, calls }) => {
    const offered = await loadToolset(toolset);
    const judgementOn = (call: ProposedCall): Judgement => {
      const tool = offered.find(({ modelName }) => modelName === call.name);
      if (tool === undefined) return denyUnknown(call, offered);
      const verdict = verdictOn(config, runPolicy, tool, run.initiator.id);
      const resolved = {
        callId: call.callId,
        target: {
          server: tool.server,
          serverUrl: tool.serverUrl,
          tool: tool.definition.name,
          definitionHash: tool.hash,
        },
        repeatable: config.servers[tool.server]?.repeatable.includes(tool.definition.name) ?? false,
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
      judgements.push(judgementOn(call));
      await setImmediate();
    }
    return { policyVersion, judgements };
  };
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

function shownOf({ definition }: OfferedTool): Pick<Judgement, 'description' | 'annotations'> {
  const { description, annotations } = definition;
  return {
    ...(description === undefined ? {} : { description: bounded(description, DESCRIPTION_CHARACTERS) }),
    ...(annotations === undefined || byteLength(canonicalJson(annotations)) > ANNOTATION_BYTES ? {} : { annotations }),
  };
}
