/**
 * The variables that a condition may read: what they are, how CEL declares them, and their values for one call. Another
 * variable is added in each of the three, and `judge.ts` fills it.
 */
import type { Environment } from '@marcbachmann/cel-js';
import type { JsonObject, JsonValue } from '../../contracts/schemas/json.ts';
import type { Initiator } from '../../contracts/schemas/run-spec.ts';
import { COUNTED, type Counted, type Tally } from '../../contracts/schemas/run-state.ts';
import type { ToolAnnotations } from '../../contracts/schemas/tool.ts';

export interface ConditionInputs {
  readonly call: {
    readonly server: string;
    readonly tool: string;
    readonly callId: string;
    /** Undefined if the operator does not trust what the server says. */
    readonly annotations: ToolAnnotations | undefined;
  };
  readonly args: JsonObject;
  readonly run: { readonly id: string; readonly tenant: string; readonly turn: number };
  readonly initiator: Initiator;
  /** Undefined if the run keeps no tally. */
  readonly earlier: Tally | undefined;
}

/** The inputs as CEL sees them. */
export type Facts = ReadonlyMap<string, unknown>;

/** Declares the variables to a language (https://github.com/google/cel-spec). */
export function withVariables(language: Environment): Environment {
  return language
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
    .registerVariable('earlier', 'map<string, Counts>');
}

/** The value of `earlier["server/tool"]`. */
class Counts {
  readonly total: bigint;
  constructor(counts: Readonly<Partial<Record<Counted, number>>>) {
    for (const kind of COUNTED) Object.assign(this, { [kind]: BigInt(counts[kind] ?? 0) });
    this.total = BigInt(COUNTED.reduce((sum, kind) => sum + (counts[kind] ?? 0), 0));
  }
}

/**
 * Returns maps, not objects: an argument may have the name of a property that every object has. JSON numbers are
 * doubles (CEL, "JSON data").
 */
export function factsOf({ call, args, run, initiator, earlier }: ConditionInputs): Facts {
  const { annotations, ...named } = call;
  return new Map<string, unknown>([
    // Untrusted `annotations` are left out; a condition that reads them then throws.
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

/** A tool that was never called has counts of zero, and does not throw. */
function countsOf({ tools, beyond }: Tally): Map<string, Counts> {
  const counts = new Map(Object.entries(tools).map(([key, of]) => [key, new Counts(of)]));
  const get = counts.get.bind(counts);
  // A tool beyond the tally's bound has unknown counts: undefined makes the condition throw.
  counts.get = (key) => get(key) ?? (beyond === undefined ? NONE : undefined);
  return counts;
}
