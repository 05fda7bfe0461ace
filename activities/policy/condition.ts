/**
 * One condition of a rule: CEL over closed inputs (https://github.com/google/cel-spec), with less of the language than there is.
 *
 * 1. Nothing outside its inputs can be read, and nothing it can say takes more than time: whoever evaluates it bounds that.
 * 2. What V8 does in one step that cannot be ended is kept small: no backtracking patterns, no long search words, and no `+` in
 *    loops, where each round would double a text or list until memory is gone.
 * 3. Patterns are RE2 and stand in the condition as they are: they are compiled once, and no argument brings one.
 */
import { type ASTNode, Environment } from '@marcbachmann/cel-js';
import { RE2JS } from 're2js';
import type { JsonObject, JsonValue } from '../../contracts/schemas/json.ts';
import { LONGEST_CONDITION } from '../../contracts/schemas/policy.ts';
import type { Initiator } from '../../contracts/schemas/run-spec.ts';
import { COUNTED, type Counted, type Tally } from '../../contracts/schemas/run-state.ts';
import type { ToolAnnotations } from '../../contracts/schemas/tool.ts';
import { within } from '../kit/time-limit.ts';

export interface ConditionInputs {
  readonly call: {
    readonly server: string;
    readonly tool: string;
    readonly callId: string;
    /** Undefined where the operator does not trust what the server says. */
    readonly annotations: ToolAnnotations | undefined;
  };
  readonly args: JsonObject;
  readonly run: { readonly id: string; readonly tenant: string; readonly turn: number };
  readonly initiator: Initiator;
  /** Undefined where the run keeps no tally. */
  readonly earlier: Tally | undefined;
}

/** As the language sees the inputs. */
export type Facts = ReadonlyMap<string, unknown>;

export interface Condition {
  readonly readsEarlier: boolean;
  /** Throws what CEL throws, and returns what is said: only `true` and `false` are answers. */
  readonly evaluate: (facts: Facts) => unknown;
}

export class ConditionInvalid extends Error {
  override readonly name = 'ConditionInvalid';
}

/** A condition is short and takes a millisecond; what cannot be read in time is taken for unreadable, also by a busy machine. */
const COMPILE_MS = 5_000;
/** UTF-16 units. */
const LONGEST_PATTERN = 200;
const LONGEST_WORD = 256;

const FUNCTIONS = ['size', 'has', 'int', 'double', 'string', 'bool', 'timestamp'];
const LOOPS = ['all', 'exists', 'exists_one', 'filter', 'map'];
const METHODS = ['size', 'startsWith', 'endsWith', 'contains', 'matches', 'lowerAscii', 'upperAscii', 'trim', ...LOOPS];
/** Ours, in place of those of the library. */
const OURS: Readonly<Record<string, string>> = { matches: 'matchesLinear', contains: 'containsBounded' };

/** What `earlier["server/tool"]` is. */
class Counts {
  readonly total: bigint;
  constructor(counts: Readonly<Partial<Record<Counted, number>>>) {
    for (const kind of COUNTED) Object.assign(this, { [kind]: BigInt(counts[kind] ?? 0) });
    this.total = BigInt(COUNTED.reduce((sum, kind) => sum + (counts[kind] ?? 0), 0));
  }
}

/** What all conditions share; each is compiled in a copy. */
const LANGUAGE = language();

function language(): Environment {
  return new Environment({
    homogeneousAggregateLiterals: false,
    limits: { maxAstNodes: 300, maxDepth: 24, maxListElements: 200, maxMapEntries: 20, maxCallArguments: 4 },
  })
    .registerType('Counts', {
      ctor: Counts,
      fields: Object.fromEntries([...COUNTED, 'total'].map((kind) => [kind, 'int'])),
    })
    .registerVariable('call', {
      schema: { server: 'string', tool: 'string', callId: 'string', annotations: 'map<string, dyn>' },
    })
    .registerVariable('args', 'map<string, dyn>')
    .registerVariable('run', { schema: { id: 'string', tenant: 'string', turn: 'int' } })
    .registerVariable('initiator', { schema: { id: 'string', groups: 'list<string>', tenant: 'string' } })
    .registerVariable('earlier', 'map<string, Counts>')
    .registerFunction(
      'string.containsBounded(string): bool',
      (text: string, word: string) => {
        if (word.length > LONGEST_WORD) throw new ConditionInvalid('the word looked for is too long');
        return text.includes(word);
      },
      { async: false },
    );
}

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

/** With patterns of its own: what a time limit has ended half way is thrown away with the condition. */
function environment(patterns: ReadonlyMap<string, RE2JS>): Environment {
  return LANGUAGE.clone().registerFunction(
    'string.matchesLinear(string): bool',
    // Sound: a pattern is written out, and was compiled when the condition was.
    (text: string, pattern: string) => (patterns.get(pattern) as RE2JS).test(text),
    { async: false },
  );
}

function compiled(text: string): Condition {
  const walk = new Walk();
  const program = environment(walk.patterns).parse(text);
  walk.node(program.ast, false);
  const { valid, type, error } = program.check();
  if (!valid) throw new ConditionInvalid(`cannot be read: ${reasonOf(error)}`);
  if (type !== 'bool' && type !== 'dyn') throw new ConditionInvalid(`is of type ${type}; it must be true or false`);
  return { readsEarlier: walk.readsEarlier, evaluate: (facts) => program(Object.fromEntries(facts)) as unknown };
}

function reasonOf(error: unknown): string {
  const summary =
    typeof error === 'object' && error !== null && 'summary' in error
      ? error.summary
      : (error as Error | undefined)?.message;
  const reason = String(summary).split('\n', 1)[0] ?? '';
  return Object.entries(OURS)
    .reduce((said, [name, ours]) => said.replaceAll(ours, name), reason)
    .slice(0, 200);
}

/** Looks at every part of a condition once, before anything is evaluated. */
class Walk {
  readsEarlier = false;
  readonly patterns = new Map<string, RE2JS>();

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
        known(node.args[0], FUNCTIONS);
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
    known(name, METHODS);
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
    try {
      this.patterns.set(text, RE2JS.compile(text));
    } catch (error) {
      throw new ConditionInvalid(`has a pattern that is not RE2: ${reasonOf(error)}`);
    }
  }
}

function known(name: string, names: readonly string[]): void {
  if (!names.includes(name))
    throw new ConditionInvalid(`calls ${name.slice(0, 64)}, which is not one of ${names.join(', ')}`);
}

/** Maps, not objects: an argument may be called as a property that every object has. Numbers of JSON are doubles (CEL, "JSON data"). */
export function factsOf({ call, args, run, initiator, earlier }: ConditionInputs): Facts {
  const { annotations, ...named } = call;
  return new Map<string, unknown>([
    // Without `annotations` where they are not trusted: whatever reads them then throws.
    ['call', { ...named, ...(annotations === undefined ? {} : { annotations: celOf(annotations) }) }],
    ['args', celOf(args)],
    ['run', { ...run, turn: BigInt(run.turn) }],
    ['initiator', initiator],
    ...(earlier === undefined ? [] : [['earlier', countsOf(earlier)] as const]),
  ]);
}

function celOf(value: JsonValue): unknown {
  if (Array.isArray(value)) return value.map((item: JsonValue) => celOf(item));
  if (typeof value !== 'object' || value === null) return value;
  return new Map(Object.entries(value).map(([key, item]) => [key, celOf(item)]));
}

const NONE = new Counts({});

/** A tool that was never called has counts of nought, and does not throw. */
function countsOf({ tools, beyond }: Tally): Map<string, Counts> {
  const counts = new Map(Object.entries(tools).map(([key, of]) => [key, new Counts(of)]));
  const get = counts.get.bind(counts);
  // Of a tool that found no place nothing is known: undefined throws.
  counts.get = (key) => get(key) ?? (beyond === undefined ? NONE : undefined);
  return counts;
}
