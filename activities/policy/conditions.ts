/**
 * Conditions of rules, evaluated within limits of time: a policy is asked for every call, and a run's own is written by anybody.
 *
 * 1. Whatever a condition does, the thread is held for `CONDITION_MS` at a time, and for `TURN_MS` in one turn; other work gets in between.
 * 2. What throws, says neither true nor false, or ran out of time has failed (INV-G4): the rules say what that means.
 * 3. A condition is compiled once, and compiled anew after a time limit has ended it half way.
 */
import { setImmediate } from 'node:timers/promises';
import type { PolicyInput } from '../../contracts/schemas/policy.ts';
import type { AskCondition, Holds } from '../../domain/policy-layer.ts';
import { OutOfTime, within } from '../time-limit.ts';
import {
  type Condition,
  type ConditionInputs,
  ConditionInvalid,
  compileCondition,
  type Facts,
  factsOf,
} from './condition.ts';

/** Conditions take microseconds each, and 64 calls under two layers of 500 of them a second: these are for a machine that does much else. */
const CONDITION_MS = 50;
const TURN_MS = 5_000;
const MOST_KEPT = 5_000;

/** What one turn, or one dispatch, may spend on conditions. */
export class ConditionClock {
  leftMs = TURN_MS;
  /** Those that have run out of time: not tried again in this turn. */
  readonly slow = new Set<string>();
}

export class Conditions {
  readonly #kept = new Map<string, Condition | ConditionInvalid>();

  /**
   * @param policies whose conditions may be asked
   * @param task asks conditions and leaves nothing behind; may be begun more than once
   */
  async asked<Value>(
    policies: readonly (PolicyInput | undefined)[],
    inputs: ConditionInputs,
    clock: ConditionClock,
    task: (ask: AskCondition) => Value,
  ): Promise<Value> {
    const known = new Map<string, Holds>();
    const tried = new Set<string>();
    let current: string | undefined;
    let facts: Facts | undefined;
    const isOver = (): boolean => clock.leftMs <= 0;
    const ask: AskCondition = (text) => {
      const before = known.get(text);
      if (before !== undefined) return before;
      current = text;
      const holds = isOver() || clock.slow.has(text) ? 'failed' : this.#holds(text, (facts ??= factsOf(inputs)));
      known.set(text, holds);
      current = undefined;
      return holds;
    };
    while (!isOver()) {
      await this.#compile(policies);
      const started = performance.now();
      try {
        return within(Math.ceil(Math.min(CONDITION_MS, clock.leftMs)), () => task(ask));
      } catch (error) {
        if (!(error instanceof OutOfTime)) throw error;
        if (current !== undefined) this.#outOfTime(current, tried, clock);
      } finally {
        clock.leftMs -= performance.now() - started;
      }
    }
    // Nothing is evaluated any more.
    return task(ask);
  }

  /** Once may be the machine's doing. */
  #outOfTime(condition: string, tried: Set<string>, clock: ConditionClock): void {
    this.#kept.delete(condition);
    if (tried.has(condition)) clock.slow.add(condition);
    tried.add(condition);
  }

  /** What is wrong with the conditions of a policy, in their order. */
  async problems(policy: PolicyInput | undefined): Promise<{ readonly index: number; readonly reason: string }[]> {
    await this.#compile([policy]);
    return (policy?.rules ?? []).flatMap(({ when }, index) => {
      const condition = when === undefined ? undefined : this.#kept.get(when);
      return condition instanceof ConditionInvalid ? [{ index, reason: condition.message }] : [];
    });
  }

  /** Does any condition ask what became of earlier calls? */
  async readEarlier(policy: PolicyInput | undefined): Promise<boolean> {
    await this.#compile([policy]);
    return (policy?.rules ?? []).some(({ when }) => {
      const condition = when === undefined ? undefined : this.#kept.get(when);
      return condition !== undefined && !(condition instanceof ConditionInvalid) && condition.readsEarlier;
    });
  }

  /** Apart from the asking, which is limited by itself. A run's conditions were checked when it began, the organisation's when they were read. */
  async #compile(policies: readonly (PolicyInput | undefined)[]): Promise<void> {
    for (const { when } of policies.flatMap((policy) => policy?.rules ?? [])) {
      if (when === undefined || this.#kept.has(when)) continue;
      if (this.#kept.size >= MOST_KEPT) this.#kept.clear();
      try {
        this.#kept.set(when, compileCondition(when));
      } catch (error) {
        // Sound: it throws nothing else.
        this.#kept.set(when, error as ConditionInvalid);
      }
      await setImmediate();
    }
  }

  #holds(text: string, facts: Facts): Holds {
    const condition = this.#kept.get(text);
    if (condition === undefined || condition instanceof ConditionInvalid) return 'failed';
    try {
      const holds = condition.evaluate(facts);
      return typeof holds === 'boolean' ? holds : 'failed';
    } catch {
      return 'failed';
    }
  }
}

export function hasConditions(policy: PolicyInput | undefined): boolean {
  return policy?.rules?.some(({ when }) => when !== undefined) === true;
}
