/**
 * Whether a final answer fits the JSON Schema that its run asks for (draft 2020-12).
 *
 * 1. Bounded in time, reading included: the schema is the starter's, with its patterns, and the text is a model's. What could
 *    not be checked is refused: a caller takes an output for one that fits, and a model may well find a shorter answer.
 */
import { type OutputUnit, Validator } from '@cfworker/json-schema';
import type { ModelStepResult } from '../../contracts/wire/run.ts';
import type { JsonObject, JsonValue } from '../../contracts/schemas/json.ts';
import { within } from '../kit/time-limit.ts';
import { MAX_NESTING, nestsTooDeeply } from '../kit/nesting.ts';

export type OutputCheck = NonNullable<ModelStepResult['output']>;

/** What goes to the model for its repair turn, and into history. */
const MOST_ERRORS = 10;
const MOST_CHARACTERS = 300;
/** Longer than for arguments: what is not checked here is refused, and an answer may be large and its schema honest. */
const CHECK_MS = 1_000;

/** @param texts the text parts of the answer, in order. */
export function checkOutput(texts: readonly string[], schema: JsonObject): OutputCheck {
  try {
    return within(CHECK_MS, () => {
      const parsed = parseAnswer(texts);
      if (parsed === undefined) return invalid('The answer is not one JSON value.');
      // Code that walks values by recursion, in the workflow too, would end with the stack.
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

/** The whole text, else its last part (after a comment of the model), else the last fenced block. */
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
    // Any JSON object may be tried as a schema; one that is none throws here.
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
