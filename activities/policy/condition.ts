/**
 * Compiles and evaluates one condition of a rule: a subset of CEL over closed inputs
 * (https://github.com/google/cel-spec).
 *
 * 1. A condition can read nothing outside its inputs, and can cost nothing but time, which its caller bounds.
 * 2. Single steps of V8 cannot be interrupted, so they are kept small: no backtracking patterns, no long search words.
 * 3. `+` is forbidden in loops, where each round would double a text or list until memory is gone.
 * 4. Patterns are RE2 and literal in the condition: they are compiled once, and no argument brings one.
 *
 * One file, because what a condition may do and the limits under which it is asked hold each other.
 */
import { setImmediate } from 'node:timers/promises';
import { type ASTNode, Environment } from '@marcbachmann/cel-js';
import { LONGEST_CONDITION, MOST_RULES, type PolicyInput } from '../../contracts/schemas/policy.ts';
import type { AskCondition, Holds } from '../../domain/policy/judge.ts';
import { fieldsOf } from '../kit/json.ts';
import { instructionsOf, Re2Pattern } from '../kit/re2-pattern.ts';
import { OutOfTime, within } from '../kit/time-limit.ts';
import { type ConditionInputs, type Facts, factsOf, withVariables } from './condition-variables.ts';

interface Condition {
  readonly readsEarlier: boolean;
  /** About what it takes at most. */
  readonly bytes: number;
  /** Throws what CEL throws, and returns any value; only `true` and `false` are answers. */
  readonly evaluate: (facts: Facts) => unknown;
}

/** About what a condition takes without its patterns. */
const CONDITION_BYTES = 25_000;

/** Fails wherever it is asked. */
class ConditionInvalid extends Error implements Condition {
  override readonly name = 'ConditionInvalid';
  readonly readsEarlier = false;
  readonly bytes = CONDITION_BYTES;
  readonly evaluate = (): undefined => undefined;
}

/** A condition compiles in a millisecond. */
const COMPILE_MS = 5_000;
/** UTF-16 units. */
const LONGEST_PATTERN = 200;
/** A class that is repeated as often as RE2 repeats, 1,000 times or less, takes 2,000. */
const MOST_INSTRUCTIONS = 2_500;
const LONGEST_WORD = 256;

const FUNCTIONS = ['size', 'has', 'int', 'double', 'string', 'bool', 'timestamp'];
const LOOPS = ['all', 'exists', 'exists_one', 'filter', 'map'];
const METHODS = ['size', 'startsWith', 'endsWith', 'contains', 'matches', 'lowerAscii', 'upperAscii', 'trim', ...LOOPS];
/** Names of our functions, in place of those of the library. */
const OURS: Readonly<Record<string, string>> = { matches: 'matchesLinear', contains: 'containsBounded' };

/** The environment that all conditions share; each is compiled in a copy. */
const LANGUAGE = withVariables(
  new Environment({
    homogeneousAggregateLiterals: false,
    limits: { maxAstNodes: 300, maxDepth: 24, maxListElements: 200, maxMapEntries: 20, maxCallArguments: 4 },
  }),
).registerFunction(
  'string.containsBounded(string): bool',
  (text: string, word: string) => {
    if (word.length > LONGEST_WORD) throw new ConditionInvalid('the word looked for is too long');
    return text.includes(word);
  },
  { async: false },
);

/** @throws ConditionInvalid, with a reason that continues the name of the condition: `has …` */
export function compileCondition(text: string): Condition {
  if (text.length > LONGEST_CONDITION)
    throw new ConditionInvalid(`has ${text.length} characters; ${LONGEST_CONDITION} are allowed`);
  try {
    return within(COMPILE_MS, () => compiled(text));
  } catch (error) {
    if (error instanceof ConditionInvalid) throw error;
    throw new ConditionInvalid(`cannot be read: ${reasonOf(error)}`);
  }
}

function compiled(text: string): Condition {
  const walk = new Walk();
  // An environment of its own: one that a time limit interrupted is thrown away with its condition.
  const environment = LANGUAGE.clone().registerFunction(
    'string.matchesLinear(string): bool',
    // Sound: a pattern is a literal, and was compiled with the condition.
    (given: string, pattern: string) => (walk.patterns.get(pattern) as Re2Pattern).isIn(given),
    { async: false },
  );
  const program = environment.parse(text);
  walk.node(program.ast, false);
  const { valid, type, error } = program.check();
  if (!valid) throw new ConditionInvalid(`cannot be read: ${reasonOf(error)}`);
  if (type !== 'bool' && type !== 'dyn') throw new ConditionInvalid(`is of type ${type}; it must be true or false`);
  const { readsEarlier, patterns } = walk;
  return {
    readsEarlier,
    bytes: [...patterns.values()].reduce((sum, { bytes }) => sum + bytes, CONDITION_BYTES),
    evaluate: (facts) => program(Object.fromEntries(facts)) as unknown,
  };
}

function reasonOf(error: unknown): string {
  const { summary, message } = fieldsOf(error);
  const reason = String(summary ?? message).split('\n', 1)[0] ?? '';
  return Object.entries(OURS)
    .reduce((said, [name, ours]) => said.replaceAll(ours, name), reason)
    .slice(0, 200);
}

class Walk {
  readsEarlier = false;
  readonly patterns = new Map<string, Re2Pattern>();

  node(node: ASTNode, isInLoop: boolean): void {
    switch (node.op) {
      case 'value':
        if (node.args instanceof Uint8Array) throw new ConditionInvalid('has bytes, which no input is');
        return;
      case 'id':
        if (node.args === 'earlier') this.readsEarlier = true;
        return;
      case '.':
        return this.node(node.args[0], isInLoop);
      case 'call':
        refuseUnknown(node.args[0], FUNCTIONS);
        return this.all(node.args[1], isInLoop);
      case 'rcall':
        return this.#method(node, isInLoop);
      case 'map':
        for (const entry of node.args) this.all(entry, isInLoop);
        return;
      case '!_':
      case '-_':
        return this.node(node.args, isInLoop);
      case '.?':
      case '[?]':
        throw new ConditionInvalid('has an optional field, which is not part of the language here: use has()');
      case '+':
        if (isInLoop) throw new ConditionInvalid(`has a + inside ${LOOPS.join(', ')}, where it is not allowed`);
        return this.all(node.args, isInLoop);
      default:
        return this.all(node.args, isInLoop);
    }
  }

  all(nodes: readonly ASTNode[], isInLoop: boolean): void {
    for (const each of nodes) this.node(each, isInLoop);
  }

  #method(node: Extract<ASTNode, { op: 'rcall' }>, isInLoop: boolean): void {
    const [name, receiver, args] = node.args;
    refuseUnknown(name, METHODS);
    this.node(receiver, isInLoop);
    this.all(args, isInLoop || LOOPS.includes(name));
    if (name === 'matches') this.#pattern(args);
    const ours = OURS[name];
    if (ours !== undefined) node.args[0] = ours;
  }

  #pattern([pattern]: readonly ASTNode[]): void {
    const text = pattern?.op === 'value' ? pattern.args : undefined;
    if (typeof text !== 'string') throw new ConditionInvalid('has a pattern that is no plain text: write it out');
    if (text.length > LONGEST_PATTERN)
      throw new ConditionInvalid(`has a pattern of ${text.length} characters; ${LONGEST_PATTERN} are allowed`);
    const instructions = lengthOf(text);
    if (instructions > MOST_INSTRUCTIONS)
      throw new ConditionInvalid(
        `has a pattern that makes ${instructions} instructions of RE2; ${MOST_INSTRUCTIONS} are allowed. Repeat less in it`,
      );
    this.patterns.set(text, new Re2Pattern(text));
  }
}

function lengthOf(pattern: string): number {
  try {
    return instructionsOf(pattern);
  } catch (error) {
    throw new ConditionInvalid(`has a pattern that is not RE2: ${reasonOf(error)}`);
  }
}

function refuseUnknown(name: string, names: readonly string[]): void {
  if (!names.includes(name))
    throw new ConditionInvalid(`calls ${name.slice(0, 64)}, which is not one of ${names.join(', ')}`);
}

// Anybody may write a run's own policy, so conditions are evaluated within limits of time. One has failed (INV-G4) if
// it throws, says neither true nor false, or runs out of time; the rules say what follows.

/** Limit of one condition, in which no other work runs. Conditions take microseconds each. */
const CONDITION_MS = 50;
/** Shared limit beyond each condition's own time: a busy machine makes many conditions slow without fault of any. */
const TURN_MS = 5_000;
const FREE_MS = 0.2;
/** Times that a condition may run out of time: once or twice may be the machine's fault. */
const MOST_TRIES = 3;
const MOST_KEPT_BYTES = 134_217_728;
/** A hostile policy takes 280 MB at most. */
const MOST_PATTERNS = MOST_RULES;
const UNREAD = 'was not read: those before it took the time that all of them may take';

/** The time that one turn or dispatch may spend on conditions. */
export class ConditionClock {
  leftMs: number;
  /** Conditions that have run out of time, not tried again in this turn. */
  readonly slow = new Set<string>();

  constructor(leftMs = TURN_MS) {
    this.leftMs = leftMs;
  }

  spend(ms: number): void {
    if (ms > FREE_MS) this.leftMs -= ms;
  }
}

export class Conditions {
  readonly #kept = new Map<string, Condition>();
  /** About what is kept. */
  bytes = 0;
  /** Conditions that policies in use want, the oldest policy first. They are not forgotten meanwhile. */
  readonly #wanted = new Set<ReadonlySet<string>>();
  /** Called when a policy is no longer in use. */
  #waiting: (() => void)[] = [];
  readonly #mostBytes: number;

  /** @param mostBytes about what is kept; the policy that has been in use for longest may take more */
  constructor(mostBytes = MOST_KEPT_BYTES) {
    this.#mostBytes = mostBytes;
  }

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
    return await this.#with(policies, async (wanted) => {
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
        // In one step with the task: another caller whose time is over drops conditions.
        const missing = this.#missing(wanted);
        if (missing !== undefined) {
          await this.#compile(missing, wanted);
          continue;
        }
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
          this.#drop(current.text);
          const times = (tries.get(current.text) ?? 0) + (own > CONDITION_MS / 2 ? 1 : 0);
          tries.set(current.text, times);
          if (times >= MOST_TRIES) clock.slow.add(current.text);
        }
      }
      // Nothing is evaluated any more.
      return task(ask);
    });
  }

  /**
   * Returns what is wrong with the conditions of a policy, in their order. If they have too many patterns, only that.
   * @param clock the time that all of them may take; the first that is left when it is over is the last problem
   */
  async problems(
    policy: PolicyInput | undefined,
    clock?: ConditionClock,
  ): Promise<{ readonly index: number; readonly reason: string }[]> {
    const beyond = firstBeyond(policy);
    if (beyond !== undefined) return [beyond];
    const conditions = await this.#conditionsOf(policy, clock);
    return conditions.flatMap((condition, index) =>
      condition instanceof ConditionInvalid ? [{ index, reason: condition.message }] : [],
    );
  }

  /** True if any condition reads the tally of earlier calls. */
  async readEarlier(policy: PolicyInput | undefined): Promise<boolean> {
    const conditions = await this.#conditionsOf(policy);
    return conditions.some((condition) => condition?.readsEarlier === true);
  }

  /** Returns what became of each rule's condition; undefined for a rule without one. */
  async #conditionsOf(policy: PolicyInput | undefined, clock?: ConditionClock): Promise<(Condition | undefined)[]> {
    const conditionsBy = (read: (when: string) => Condition | undefined) =>
      (policy?.rules ?? []).map(({ when }) => (when === undefined ? undefined : read(when)));
    return await this.#with([policy], async (wanted) => {
      for (let missing = this.#missing(wanted); missing !== undefined; missing = this.#missing(wanted)) {
        // Not kept: it may well be read where there is more time.
        if (clock !== undefined && clock.leftMs <= 0)
          return conditionsBy((when) => (when === missing ? new ConditionInvalid(UNREAD) : this.#kept.get(when)));
        await this.#compile(missing, wanted, clock);
      }
      return conditionsBy((when) => this.#kept.get(when));
    });
  }

  async #with<Value>(
    policies: readonly (PolicyInput | undefined)[],
    task: (wanted: ReadonlySet<string>) => Promise<Value>,
  ): Promise<Value> {
    const wanted = new Set(policies.flatMap((policy) => policy?.rules ?? []).flatMap(({ when }) => when ?? []));
    this.#wanted.add(wanted);
    try {
      return await task(wanted);
    } finally {
      this.#wanted.delete(wanted);
      for (const go of this.#waiting.splice(0)) go();
    }
  }

  #missing(wanted: ReadonlySet<string>): string | undefined {
    return [...wanted].find((when) => !this.#kept.has(when));
  }

  /** @param clock that the time is taken from; absent where an admitted run must have all of its conditions */
  async #compile(when: string, wanted: ReadonlySet<string>, clock?: ConditionClock): Promise<void> {
    while (!this.#hasRoom(wanted)) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    // Another caller may have wanted the same.
    if (this.#kept.has(when)) return;
    const heldBefore = heldMs();
    try {
      this.#keep(when, compileCondition(when));
    } catch (error) {
      // Sound: `compileCondition` throws nothing else.
      this.#keep(when, error as ConditionInvalid);
    }
    clock?.spend(heldMs() - heldBefore);
    await setImmediate();
  }

  /** False while policies in use take all the room: many at once may be hostile. The oldest never waits. */
  #hasRoom(wanted: ReadonlySet<string>): boolean {
    this.#forgetOldest();
    const [oldest] = this.#wanted;
    return this.bytes < this.#mostBytes || oldest === wanted;
  }

  /** Never drops a condition that is about to be asked: it would be compiled anew again and again. */
  #forgetOldest(): void {
    for (const when of this.#kept.keys()) {
      if (this.bytes < this.#mostBytes) return;
      if (![...this.#wanted].some((wanted) => wanted.has(when))) this.#drop(when);
    }
  }

  #keep(when: string, condition: Condition): void {
    this.#kept.set(when, condition);
    this.bytes += condition.bytes;
  }

  #drop(when: string): void {
    this.bytes -= this.#kept.get(when)?.bytes ?? 0;
    this.#kept.delete(when);
  }

  #holds(text: string, facts: Facts): Holds {
    try {
      const holds = this.#kept.get(text)?.evaluate(facts);
      return typeof holds === 'boolean' ? holds : 'failed';
    } catch {
      return 'failed';
    }
  }
}

/** Counts before anything is compiled, so a condition that only names `matches` counts as well. */
export function firstBeyond(
  policy: PolicyInput | undefined,
): { readonly index: number; readonly reason: string } | undefined {
  let patterns = 0;
  for (const [index, { when = '' }] of (policy?.rules ?? []).entries()) {
    patterns += when.split('matches').length - 1;
    if (patterns > MOST_PATTERNS)
      return { index, reason: `uses \`matches\` beyond the ${MOST_PATTERNS} times that a policy may` };
  }
  return undefined;
}

/** CPU time of this process, in ms: time that other processes take of a busy machine is no condition's fault. */
function heldMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
}
