/**
 * Offers the judge that runs use to callers that have a policy and a call, but neither a run nor a server.
 */
import { ConditionClock, Conditions } from '../../activities/policy/condition.ts';
import type { Verdict } from '../../contracts/schemas/call.ts';
import type { Policy } from '../../contracts/schemas/policy.ts';
import { consider, type Considered, judge, type JudgedTool, type Organisation } from '../../domain/policy/judge.ts';
import type { ConditionInputs } from '../../activities/policy/condition-variables.ts';

export interface OfflineCall {
  readonly organisation: Organisation;
  readonly run: Policy | undefined;
  readonly tool: JudgedTool;
  readonly inputs: ConditionInputs;
  /** Epoch ms. */
  readonly now: number;
}

export interface LayerTrace {
  readonly layer: 'organisation' | 'run';
  /** The rules about the tool, up to the one that decides. */
  readonly considered: readonly Considered[];
}

export interface Traced {
  readonly verdict: Verdict;
  readonly layers: readonly LayerTrace[];
}

/** Makes a judge that returns the verdict, and how each layer came to its part of it. */
export function createOfflineJudge(): (call: OfflineCall) => Promise<Traced> {
  const conditions = new Conditions();
  return async ({ organisation, run, tool, inputs, now }) =>
    await conditions.asked([organisation, run], inputs, new ConditionClock(), (ask) => ({
      verdict: judge({ organisation, run }, tool, inputs.initiator.id, ask, now),
      layers: [
        { layer: 'organisation', considered: consider(organisation, tool, ask) },
        ...(run === undefined ? [] : [{ layer: 'run' as const, considered: consider(run, tool, ask) }]),
      ],
    }));
}
