/**
 * Checks a final answer against the JSON Schema that its run asks for (draft 2020-12).
 *
 * 1. The check is bounded in time, parsing included: schema and patterns come from the starter, and the text from a
 *    model. An answer that could not be checked is refused: a caller would rely on it, and a model may well find a
 *    shorter one.
 */
import { type OutputUnit, Validator } from '@cfworker/json-schema';
import type { ModelStepResult } from '../../contracts/wire/run.ts';
import type { JsonObject, JsonValue } from '../../contracts/schemas/json.ts';
import { within } from '../kit/time-limit.ts';
import { MAX_NESTING, nestsTooDeeply } from '../kit/nesting.ts';

export type OutputCheck = NonNullable<ModelStepResult['output']>;

/** Limits of the errors that go to the model for its repair turn, and into history. */
const MOST_ERRORS = 10;
const MOST_CHARACTERS = 300;
/**
 * Longer than the limit for arguments: an unchecked answer is refused, and an honest answer and schema may be large.
 */
const CHECK_MS = 1_000;

/** @param texts the text parts of the answer, in order */
export function checkOutput(texts: readonly string[], schema: JsonObject): OutputCheck {
  try {
    return within(CHECK_MS, () => {
      const parsed = parseAnswer(texts);
      if (parsed === undefined) return invalid('The answer is not one JSON value.');
      // Code that walks values by recursion, in the workflow too, would overflow the stack.
      if (nestsTooDeeply(parsed.value)) return invalid(`The answer nests deeper than ${MAX_NESTING} levels.`);
      const errors = violations(parsed.value, schema);
      return errors.length === 0 ? { kind: 'valid', value: parsed.value } : invalid(...errors);
    });
  } catch {
    return invalid('The answer could not be checked in time against the output schema of the run.');
  }
}

function invalid(...errors: readonly string[]): OutputCheck {
  return { kind: 'invalid', errors };
}

/** Tries the whole text, then its last part (after a comment of the model), then the last fenced block. */
function parseAnswer(texts: readonly string[]): { value: JsonValue } | undefined {
  const whole = texts.join('');
  const fenced = [...whole.matchAll(/```[A-Za-z]*[ \t]*\r?\n([^]*?)\r?\n[ \t]*```/g)].at(-1)?.[1];
  for (const text of [whole, texts.at(-1), fenced]) {
    const value = text === undefined ? undefined : parseJson(text);
    if (value !== undefined) return { value };
  }
  return undefined;
}

function parseJson(text: string): JsonValue | undefined {
  try {
    // Sound: what JSON.parse returns is a JSON value.
    return JSON.parse(text) as JsonValue;
  } catch {
    return undefined;
  }
}

function violations(value: JsonValue, schema: JsonObject): string[] {
  try {
    // Any JSON object may be tried as a schema; an invalid one throws here.
    const { valid, errors } = new Validator(schema, '2020-12', false).validate(value);
    return valid ? [] : bounded(errors.map(described));
  } catch {
    return ['The output schema of the run cannot be applied: it is not a valid JSON Schema.'];
  }
}

function described({ instanceLocation, keyword, error }: OutputUnit): string {
  return `${instanceLocation} (${keyword}): ${error}`.slice(0, MOST_CHARACTERS);
}

function bounded(errors: readonly string[]): string[] {
  const rest = errors.length - MOST_ERRORS;
  return rest <= 0 ? [...errors] : [...errors.slice(0, MOST_ERRORS), `and ${rest} more`];
}
