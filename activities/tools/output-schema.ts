/**
 * Checks a tool's structured result against the schema it promised. A violation is a warning: the tool has run, and a result
 * that is thrown away for its shape is a lost side effect (typescript-sdk#2748).
 *
 * 1. Bounded in time. Schema and content both come from the server: a pattern like `(a+)+$`, or references that double at each
 *    level, would else hold the worker's only thread.
 */
import { type SchemaDraft, Validator } from '@cfworker/json-schema';
import type { JsonObject } from '../../contracts/schemas/json.ts';
import { within } from '../time-limit.ts';

const CHECK_MS = 200;

/** What is wrong with `structured`, or undefined. */
export function outputViolation(outputSchema: JsonObject, structured: unknown): string | undefined {
  if (structured === undefined) return 'the tool promised a structured result and gave none';
  try {
    const { valid, errors } = within(CHECK_MS, () =>
      new Validator(outputSchema, draftOf(outputSchema)).validate(structured),
    );
    if (valid) return undefined;
    // The last error is the innermost.
    const { instanceLocation, error } = errors.at(-1) ?? { instanceLocation: '#', error: 'no reason given' };
    return `the result does not match the tool's output schema at ${instanceLocation}: ${error}`;
  } catch {
    return "the tool's output schema could not be applied";
  }
}

/** 2020-12 unless it says otherwise (MCP 2025-11-25, "JSON Schema Usage"); servers on older SDKs say draft-07. */
function draftOf({ $schema }: JsonObject): SchemaDraft {
  const named = typeof $schema === 'string' ? $schema : '';
  if (named.includes('draft-04')) return '4';
  if (named.includes('draft-07') || named.includes('draft-06')) return '7';
  return named.includes('2019-09') ? '2019-09' : '2020-12';
}
