/**
 * Looks at answers of workflows before they are used: anybody who may write to the namespace can run one that answers
 * in any way.
 */
import { z } from 'zod';
import { CountersignError } from '../../contracts/errors.ts';
import { Instant } from '../../contracts/schemas/json.ts';
import { assertEnds } from '../../contracts/schemas/parse.ts';
import { AnyCallId, ApprovalRequest } from '../../contracts/schemas/request.ts';
import { requestDigest } from '../../domain/request/digest.ts';
import { isFields } from '../../domain/shapes/inputs.ts';

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

/** Lists sort by times, and pages link to calls. Arguments may be large, and the digest says what is in them. */
const Shown = ApprovalRequest.omit({ arguments: true }).extend({
  callId: AnyCallId,
  openedAt: Instant,
  deadline: Instant,
});

const Arguments = z.record(z.string(), z.unknown());

/**
 * Reads what a run shows as its requests: each is of the run that was asked, and is the one its digest names (INV-G2).
 * @throws CountersignError `DIGEST_MISMATCH`
 */
export function readRequests(runId: string, answer: unknown): readonly ApprovalRequest[] {
  if (!Array.isArray(answer) || !answer.every((request) => isOf(runId, request)))
    throw notShown(runId, 'list of its requests');
  // Sound: the form of arguments is that of JSON, of which the answer was made.
  const requests = answer as readonly ApprovalRequest[];
  const wrong = requests.find((request) => requestDigest({ ...request, target: request }) !== request.digest);
  if (wrong === undefined) return requests;
  const message = `The request for call ${wrong.callId} is not the one its digest names; do not decide it.`;
  throw new CountersignError('DIGEST_MISMATCH', message, { runId, callId: wrong.callId });
}

function isOf(runId: string, request: unknown): boolean {
  if (!isFields(request)) return false;
  const { arguments: given, ...shown } = request;
  return hasForm(Arguments, given) && hasForm(Shown, shown) && shown.workflowId === runId;
}
