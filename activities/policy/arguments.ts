/**
 * Checks arguments against the tool's pinned input schema. So the model hears of a mistake before a person is asked and
 * before the server is called.
 *
 * 1. The check is bounded in time, since references can double the work at each level. The time limit costs a system
 *    thread, so it is left out where schema and arguments are plain and small. A schema that took too long by itself is
 *    not tried again for some minutes: the calls of a turn would otherwise hold the worker's thread one after the other.
 *    What large arguments took is no fault of the schema: the model chooses them.
 * 2. A schema that cannot be used refuses nothing and lets nothing pass unseen: people are asked (INV-G4).
 */
import { LRUCache } from 'lru-cache';
import type { JsonObject } from '../../contracts/schemas/json.ts';
import { byteLength, canonicalJson } from '../../domain/text/canonical.ts';
import { countOf, LinearSchema, SchemaUnusable } from '../kit/json-schema.ts';
import { OutOfTime, within } from '../kit/time-limit.ts';

const MOST_KEPT = 500;
const CHECK_MS = 200;
/** Times that a check may run out of time before its schema is given up: once or twice may be the machine's fault. */
const MOST_TRIES = 3;
/** A schema that took too long is tried again after so long: the machine may have been busy. */
const GIVEN_UP_MS = 300_000;
/** UTF-8 bytes as JSON. The time for larger arguments says nothing of the schema. */
const LARGE_BYTES = 16_384;
/** Steps of a check that need no time limit: some milliseconds at the most. */
const FEW_STEPS = 20_000;

export interface CheckedArguments {
  /** As `path: reason`, bounded; empty if the arguments fit, or could not be checked. */
  readonly problems: readonly string[];
  /** Why they could not be checked; continues "the tool's schema". */
  readonly unchecked?: string;
}

export class ArgumentChecker {
  /** A text says why the schema cannot be used. */
  readonly #kept: LRUCache<string, LinearSchema | string>;

  /** @param now ms of a clock that only goes forward */
  constructor(now: () => number = () => performance.now()) {
    this.#kept = new LRUCache({ max: MOST_KEPT, ttlResolution: 0, perf: { now } });
  }

  check(definitionHash: string, schema: JsonObject, args: JsonObject): CheckedArguments {
    const known = this.#kept.get(definitionHash) ?? this.#built(definitionHash, schema);
    const answer = typeof known === 'string' ? known : problemsIn(known, args);
    if (answer === TOO_SLOW && known !== TOO_SLOW && byteLength(canonicalJson(args)) < LARGE_BYTES)
      this.#keep(definitionHash, answer);
    return typeof answer === 'string' ? { problems: [], unchecked: answer } : { problems: answer };
  }

  #built(definitionHash: string, schema: JsonObject): LinearSchema | string {
    const built = attempt(() => new LinearSchema(schema));
    this.#keep(definitionHash, built);
    return built;
  }

  #keep(definitionHash: string, known: LinearSchema | string): void {
    this.#kept.set(definitionHash, known, known === TOO_SLOW ? { ttl: GIVEN_UP_MS } : {});
  }
}

const TOO_SLOW = 'takes too long';

function problemsIn(schema: LinearSchema, args: JsonObject): readonly string[] | string {
  const most = FEW_STEPS / schema.stepsPerValue;
  const isQuick = most > 0 && countOf(args, most) <= most;
  return attempt(() => schema.problems(args), schema, isQuick);
}

/** Returns why it cannot be done, as a text, if the schema is at fault. @param isQuick it needs no time limit */
function attempt<Value>(task: () => Value, schema?: LinearSchema, isQuick = false): Value | string {
  for (let tries = 1; ; tries += 1) {
    const heldBefore = isQuick ? 0 : process.cpuUsage().user;
    try {
      return isQuick ? task() : within(CHECK_MS, task);
    } catch (error) {
      if (error instanceof SchemaUnusable) return error.message;
      if (!(error instanceof OutOfTime)) return 'cannot be read';
      const ownMs = (process.cpuUsage().user - heldBefore) / 1_000;
      // Time that other processes take of a busy machine is not the schema's fault.
      if (ownMs > CHECK_MS / 2 || tries >= MOST_TRIES) return TOO_SLOW;
    } finally {
      schema?.release();
    }
  }
}
