/**
 * Looks at answers of workflows before they are used: anybody who may write to the namespace can run one that answers
 * in any way.
 */
import type { z } from 'zod';
import { assertEnds } from '../../contracts/schemas/parse.ts';
import { isFields } from '../../domain/shapes/inputs.ts';

/**
 * True if the answer has the form of a schema. A worker of a newer release may say more than this one knows: further
 * fields, words and kinds are no reason to refuse it.
 */
export function hasForm<T>(schema: z.ZodType<T>, answer: unknown): answer is T {
  try {
    assertEnds(answer, 'INTERNAL', 'answer');
  } catch {
    return false;
  }
  return schema.safeParse(answer).error?.issues.every((issue) => isNews(issue, answer)) ?? true;
}

function isNews(issue: z.core.$ZodIssue, answer: unknown): boolean {
  if (issue.code === 'unrecognized_keys') return true;
  // Without errors the kind is one that no part of the schema has.
  const isWord = issue.code === 'invalid_value' || (issue.code === 'invalid_union' && issue.errors.length === 0);
  return isWord && typeof valueAt(answer, issue.path) === 'string';
}

function valueAt(answer: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce<unknown>(
    (at, step) => (isFields(at) || Array.isArray(at) ? Reflect.get(at, step) : undefined),
    answer,
  );
}
