/**
 * Conditions of rules, evaluated within limits of time: a policy is asked for every call, and a run's own is written by anybody.
 *
 * 1. Whatever conditions do, the thread is held for `CONDITION_MS` at a time; slow ones have `TURN_MS` together in one turn. Other work gets in between.
 * 2. What throws, says neither true nor false, or ran out of time has failed (INV-G4): the rules say what that means.
 * 3. A condition is compiled once, and compiled anew after a time limit has ended it half way.
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

/** Thread time without a pause, and what one condition may take at most. Conditions take microseconds each. */
const CONDITION_MS = 50;
/** Beyond what each may take for itself: a busy machine makes many conditions slow, and none of them to blame. */
const TURN_MS = 5_000;
const FREE_MS = 0.2;
/** Times that a condition ran out of time: once or twice may be the machine's doing. */
const MOST_TRIES = 3;
const MOST_KEPT = 5_000;

/** What one turn, or one dispatch, may spend on conditions. */
export class ConditionClock {
  leftMs = TURN_MS;
  /** Those that have run out of time: not tried again in this turn. */
  readonly slow = new Set<string>();

  spend(ms: number): void {
    if (ms > FREE_MS) this.leftMs -= ms;
  }
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
        // Where nothing was answered this must end all the same.
        clock.spend(known.size === answered ? CONDITION_MS : own);
        if (current === undefined) continue;
        // It was ended half way.
        this.#kept.delete(current.text);
        const times = (tries.get(current.text) ?? 0) + (own > CONDITION_MS / 2 ? 1 : 0);
        tries.set(current.text, times);
        if (times >= MOST_TRIES) clock.slow.add(current.text);
      }
    }
    // Nothing is evaluated any more.
    return task(ask);
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
    const wanted = new Set(policies.flatMap((policy) => policy?.rules ?? []).flatMap(({ when }) => when ?? []));
    for (const when of wanted) {
      if (this.#kept.has(when)) continue;
      this.#forgetOldest(wanted);
      try {
        this.#kept.set(when, compileCondition(when));
      } catch (error) {
        // Sound: it throws nothing else.
        this.#kept.set(when, error as ConditionInvalid);
      }
      await setImmediate();
    }
  }

  /** Never one that is about to be asked: it would count as failed. */
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

/** Of this process, in ms: what other processes take of a busy machine is no condition's doing. */
function heldMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
}

export function hasConditions(policy: PolicyInput | undefined): boolean {
  return policy?.rules?.some(({ when }) => when !== undefined) === true;
}
