/** Builds the input of a stretch, and model steps whose calls were judged where the step ran. */
import { callIdOf } from '../../../contracts/names.ts';
import type { Judgement, Outcome, ToolTarget } from '../../../contracts/schemas/call.ts';
import type { JsonObject } from '../../../contracts/schemas/json.ts';
import type { ModelStepResult } from '../../../contracts/wire/run.ts';
import type { StretchedCall, StretchInput } from '../../../contracts/wire/stretch.ts';
import type { DispatchResult } from '../../../contracts/wire/tools.ts';
import { EMPTY_DIGEST } from '../../../domain/run/journal.ts';
import { stretchState } from '../../../domain/run/stretch.ts';
import { type Run, startRun } from '../../../domain/state/run.ts';
import { allowVerdict } from '../builders/judgement.ts';
import { outcomes } from '../builders/outcome.ts';
import { POLICY_VERSION, runIds, START } from '../builders/run.ts';
import { limits } from '../builders/run-spec.ts';
import { toolTarget } from '../builders/tool.ts';

/** A call of a model step: allowed and repeatable, unless it says otherwise. */
export interface Proposal {
  readonly arguments?: JsonObject;
  readonly verdict?: Judgement['verdict'];
  readonly repeatable?: boolean;
  readonly target?: ToolTarget;
}

/** Makes the answer of a model step: some calls, or a last word. */
export function stepOf(
  turn: number,
  proposals: readonly Proposal[],
  over: Partial<ModelStepResult> = {},
): ModelStepResult {
  const judgements = proposals.map(
    ({ verdict = allowVerdict(), repeatable = true, target = toolTarget() }, index): Judgement => ({
      callId: callIdOf(turn, index),
      verdict,
      target,
      repeatable,
    }),
  );
  const asked = proposals.map(({ arguments: args = { turn, index: 0 } }, index) => ({
    type: 'call' as const,
    callId: callIdOf(turn, index),
    providerCallId: `call_${turn}_${index}`,
    name: 'files__write_file',
    arguments: args,
  }));
  const isLast = proposals.length === 0;
  return {
    parts: isLast ? [{ type: 'text', text: 'Done.' }] : asked,
    usage: { inputTokens: 10, outputTokens: 5 },
    finish: isLast ? 'stop' : 'calls',
    ...(isLast ? {} : { judged: { policyVersion: POLICY_VERSION, judgements } }),
    ...over,
  };
}

/** Makes the run with which a stretch begins: as prepared by this release, before its first turn. */
export function freshRun(): Run {
  return startRun(START);
}

/** Makes the input of the stretch with which `run` goes on. */
export function stretchInput(over: Partial<StretchInput> = {}, run = freshRun()): StretchInput {
  const { namespace, workflowId, runId, tenant } = runIds();
  return {
    step: {
      run: { namespace, workflowId, initiator: { id: 'eve', groups: [], tenant }, specHash: 'a'.repeat(64) },
      runId,
      model: 'main',
      turn: run.turn + 1,
      base: { length: 0, digest: EMPTY_DIGEST },
      tail: [{ role: 'user', text: 'Tidy the notes.' }],
      toolset: [],
    },
    state: stretchState(run, false),
    bounds: { turns: 10, seconds: 60, bytes: 1_000_000 },
    servers: [{ name: 'files', url: 'https://files.example/mcp' }],
    dispatch: { decidedIn: [runId], limits: limits() },
    ...over,
  };
}

/** What a dispatch answers whose call ended so. */
export function endedAs(outcome: Outcome = outcomes().succeeded): Extract<DispatchResult, { kind: 'ended' }> {
  return { kind: 'ended', outcome };
}

/** Makes one call of a record: sent at the start, and ended a second later. */
export function stretchedCall(over: Partial<StretchedCall> = {}): StretchedCall {
  return {
    callId: 't1.c0',
    digest: 'd'.repeat(64),
    sentAt: START,
    endedAt: START + 1_000,
    result: endedAs(),
    ...over,
  };
}
