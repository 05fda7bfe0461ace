/**
 * Evaluates conditions of rules within limits of time: a policy is asked for every call, and anybody may
 * write a run's own.
 *
 * 1. Conditions hold the thread for `CONDITION_MS` at a time, whatever they do. Slow ones share `TURN_MS` in one turn.
 *    Other work runs in between.
 * 2. A condition has failed (INV-G4) if it throws, says neither true nor false, or runs out of time; the rules say what
 *    follows.
 * 3. A condition is compiled once, and compiled anew after a time limit has interrupted it.
 */
import { setImmediate } from 'node:timers/promises';
import type { PolicyInput } from '../../contracts/schemas/policy.ts';
import type { AskCondition, Holds } from '../../domain/policy/layer.ts';
import { OutOfTime, within } from '../kit/time-limit.ts';
import {
  compileCondition,
  type Condition,
  type ConditionInputs,
  ConditionInvalid,
  type Facts,
  factsOf,
} from './condition.ts';

/** Thread time without a pause, and the limit of one condition. Conditions take microseconds each. */
const CONDITION_MS = 50;
/** Shared limit beyond each condition's own time: a busy machine makes many conditions slow without fault of any. */
const TURN_MS = 5_000;
const FREE_MS = 0.2;
/** Times that a condition may run out of time: once or twice may be the machine's fault. */
const MOST_TRIES = 3;
const MOST_KEPT = 5_000;

/** The time that one turn, or one dispatch, may spend on conditions. */
export class ConditionClock {
  leftMs = TURN_MS;
  /** Conditions that have run out of time, not tried again in this turn. */
  readonly slow = new Set<string>();

  spend(ms: number): void {
    if (ms > FREE_MS) this.leftMs -= ms;
  }
}

export class Conditions {
  readonly #kept = new Map<string, Condition | ConditionInvalid>();

  /**
   * @param policies whose conditions may be evaluated
   * @param task evaluates conditions and has no other effect; it may be started more than once
   */
  async asked<Value>(
    policies: readonly (PolicyInput | undefined)[],
    inputs: ConditionInputs,
    clock: ConditionClock,
    task: (ask: AskCondition) => Value,
  ): Promise<Value> {
    const known = new Map<string, Holds>();
    const tries = new Map<string, number>();
    let current: { readonly text: string; readonly startedAt: number } | undefined;
    let facts: Facts | undefined;
    const isOver = (): boolean => clock.leftMs <= 0;
    const ask: AskCondition = (text) => {
      const before = known.get(text);
      if (before !== undefined) return before;
      facts ??= factsOf(inputs);
      const heldBefore = heldMs();
      current = { text, startedAt: performance.now() };
      const holds = isOver() || clock.slow.has(text) ? 'failed' : this.#holds(text, facts);
      known.set(text, holds);
      current = undefined;
      clock.spend(heldMs() - heldBefore);
      return holds;
    };
    while (!isOver()) {
      await this.#compile(policies);
      const answered = known.size;
      try {
        return within(CONDITION_MS, () => task(ask));
      } catch (error) {
        if (!(error instanceof OutOfTime)) throw error;
        const own = current === undefined ? 0 : performance.now() - current.startedAt;
        // This loop must end even if no condition was answered.
        clock.spend(known.size === answered ? CONDITION_MS : own);
        if (current === undefined) continue;
        // The time limit interrupted this condition, so it is compiled anew.
        this.#kept.delete(current.text);
        const times = (tries.get(current.text) ?? 0) + (own > CONDITION_MS / 2 ? 1 : 0);
        tries.set(current.text, times);
        if (times >= MOST_TRIES) clock.slow.add(current.text);
      }
    }
    // Nothing is evaluated any more.
    return task(ask);
  }

  /** Returns what is wrong with the conditions of a policy, in their order. */
  async problems(policy: PolicyInput | undefined): Promise<{ readonly index: number; readonly reason: string }[]> {
    await this.#compile([policy]);
    return (policy?.rules ?? []).flatMap(({ when }, index) => {
      const condition = when === undefined ? undefined : this.#kept.get(when);
      return condition instanceof ConditionInvalid ? [{ index, reason: condition.message }] : [];
    });
  }

  /** True if any condition reads the tally of earlier calls. */
  async readEarlier(policy: PolicyInput | undefined): Promise<boolean> {
    await this.#compile([policy]);
    return (policy?.rules ?? []).some(({ when }) => {
      const condition = when === undefined ? undefined : this.#kept.get(when);
      return condition !== undefined && !(condition instanceof ConditionInvalid) && condition.readsEarlier;
    });
  }

  /**
   * Compiles apart from the asking, which has its own limit. A run's conditions were checked when it began, the
   * organisation's when they were read.
   */
  async #compile(policies: readonly (PolicyInput | undefined)[]): Promise<void> {
    const wanted = new Set(policies.flatMap((policy) => policy?.rules ?? []).flatMap(({ when }) => when ?? []));
    for (const when of wanted) {
      if (this.#kept.has(when)) continue;
      this.#forgetOldest(wanted);
      try {
        this.#kept.set(when, compileCondition(when));
      } catch (error) {
        // Sound: `compileCondition` throws nothing else.
        this.#kept.set(when, error as ConditionInvalid);
      }
      await setImmediate();
    }
  }

  /** Never drops a condition that is about to be asked: it would count as failed. */
  #forgetOldest(wanted: ReadonlySet<string>): void {
    if (this.#kept.size < MOST_KEPT) return;
    for (const oldest of this.#kept.keys()) {
      if (wanted.has(oldest)) continue;
      this.#kept.delete(oldest);
      return;
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

/**
 * Returns CPU time of this process, in ms: time that other processes take of a busy machine is no condition's fault.
 */
function heldMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
}

export function hasConditions(policy: PolicyInput | undefined): boolean {
  return policy?.rules?.some(({ when }) => when !== undefined) === true;
}
