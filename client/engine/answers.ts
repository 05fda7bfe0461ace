/**
 * Looks at answers of workflows before they are used: anybody who may write to the namespace can run one that answers
 * in any way.
 */
import type { z } from 'zod';
import { assertEnds } from '../../contracts/schemas/parse.ts';

/**
 * True if the answer has the form of a schema, perhaps with further fields: a worker of a newer release may say more.
 */
export function hasForm<T>(schema: z.ZodType<T>, answer: unknown): answer is T {
  try {
    assertEnds(answer, 'INTERNAL', 'answer');
    return schema.safeParse(answer).error?.issues.every(({ code }) => code === 'unrecognized_keys') ?? true;
  } catch {
    // Zod overflows the stack over an answer in which very many things are wrong.
    return false;
  }
}
