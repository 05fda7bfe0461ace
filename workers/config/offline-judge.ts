/**
 * Offers the judge that runs use to callers that have a policy and a call, but neither a run nor a server.
 */
import { ConditionClock, Conditions } from '../../activities/policy/condition.ts';
import type { Verdict } from '../../contracts/schemas/call.ts';
import { pathText } from '../../contracts/schemas/parse.ts';
import type { Policy } from '../../contracts/schemas/policy.ts';
import { consider, type Considered, judge, type JudgedTool, type Organisation } from '../../domain/policy/judge.ts';
import type { ConditionInputs } from '../../activities/policy/condition-variables.ts';
import type { ConditionProblem } from './warnings.ts';

interface OfflineCall {
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

/** Processor time for reading the conditions of one policy that somebody sends: 500 plain ones take half a second. */
const READ_MS = 2_000;

/** Knows the conditions that it has read, so each is for one question, or for one table. */
export class OfflineJudge {
  readonly #conditions = new Conditions();

  /**
   * Returns what is wrong with the conditions of a policy that anybody may have written. Other work runs in between.
   * @param at where the policy stands in what its author wrote
   */
  async problems(policy: Policy, at: readonly (string | number)[]): Promise<ConditionProblem[]> {
    const problems = await this.#conditions.problems(policy, new ConditionClock(READ_MS));
    return problems.map(({ index, reason }) => ({ path: pathText([...at, 'rules', index, 'when']), reason }));
  }

  /** Returns the verdict, and how each layer came to its part of it. */
  async judge({ organisation, run, tool, inputs, now }: OfflineCall): Promise<Traced> {
    return await this.#conditions.asked([organisation, run], inputs, new ConditionClock(), (ask) => ({
      verdict: judge({ organisation, run }, tool, inputs.initiator.id, ask, now),
      layers: [
        { layer: 'organisation', considered: consider(organisation, tool, ask) },
        ...(run === undefined ? [] : [{ layer: 'run' as const, considered: consider(run, tool, ask) }]),
      ],
    }));
  }
}
