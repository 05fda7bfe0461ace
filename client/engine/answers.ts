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
    return schema.safeParse(answer).error?.issues.every(({ code }) => code === 'unrecognized_keys') ?? true;
  } catch {
    // Zod overflows the stack over an answer in which very many things are wrong.
    return false;
  }
}

/** @param what such as `state` @throws CountersignError `DIGEST_MISMATCH` */
export function readShown<T>(schema: z.ZodType<T>, answer: unknown, workflowId: string, what: string): T {
  if (hasForm(schema, answer)) return answer;
  throw notShown(workflowId, what);
}

export function notShown(workflowId: string, what: string): CountersignError {
  const message = `What workflow ${workflowId} shows is no ${what}. Either this program is older than the workers, or somebody else answers in its place: do not decide anything of it.`;
  return new CountersignError('DIGEST_MISMATCH', message, { runId: workflowId });
}
