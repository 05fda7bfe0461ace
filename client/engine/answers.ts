/**
 * Looks at answers of workflows before they are used: anybody who may write to the namespace can run one that answers
 * in any way.
 */
import type { z } from 'zod';
import { CountersignError } from '../../contracts/errors.ts';
import { assertEnds } from '../../contracts/schemas/parse.ts';

/**
 * True if the answer has the form of a schema, perhaps with further fields: a worker of a newer release may say more.
 */
export function hasForm<T>(schema: z.ZodType<T>, answer: unknown): answer is T {
  try {
    assertEnds(answer, 'INTERNAL', 'answer');
    if (valuesIn(answer, MOST_VALUES) > MOST_VALUES) return false;
    return schema.safeParse(answer).error?.issues.every(({ code }) => code === 'unrecognized_keys') ?? true;
  } catch {
    // Zod overflows the stack over an answer in which very many things are wrong.
    return false;
  }
}

/** Zod lists all that is wrong: of a million values, that takes seconds and gigabytes. */
const MOST_VALUES = 250_000;

/** Counts the values within a value, and no more than one beyond `most`. */
function valuesIn(value: unknown, most: number): number {
  let count = 1;
  if (typeof value !== 'object' || value === null) return count;
  for (const each of Object.values(value)) {
    count += valuesIn(each, most - count);
    if (count > most) break;
  }
  return count;
}

/** @param what such as `state` */
export function notShown(workflowId: string, what: string): CountersignError {
  const message = `What workflow ${workflowId} shows is no ${what}. Either this program is older than the workers, or somebody else answers in its place: do not decide anything of it.`;
  return new CountersignError('DIGEST_MISMATCH', message, { runId: workflowId });
}
