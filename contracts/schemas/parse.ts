/** The one way in which something from outside becomes a typed value or a coded error. */
import type { z } from 'zod';
import { CountersignError, type ErrorCode } from '../errors.ts';
import { problemsOf } from './issues.ts';

const SHOWN_PROBLEMS = 3;

/**
 * @param what names the thing in the message: `run spec`, `decision`, `configuration file countersign.yaml`.
 * @throws CountersignError with `code`; the message names path and reason of the first problems and holds no value of the
 *   input, `facts.path` is the first path, and there is no cause (zod's error could be shown with more than that).
 */
export function parseAs<T>(schema: z.ZodType<T>, value: unknown, code: ErrorCode, what: string): T {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const problems = problemsOf(parsed.error, value);
  const shown = problems
    .slice(0, SHOWN_PROBLEMS)
    .map(({ path, reason }) => (path === '' ? reason : `${path} ${reason}`));
  const more = problems.length > shown.length ? `; and ${problems.length - shown.length} more` : '';
  const first = problems[0]?.path;
  throw new CountersignError(
    code,
    `The ${what} is not valid: ${shown.join('; ')}${more}. Correct it and try again.`,
    first === undefined || first === '' ? {} : { path: first },
  );
}
