/**
 * Reads what a run shows as its requests: each is of the run that was asked, and is the one its digest names (INV-G2).
 */
import { z } from 'zod';
import { CountersignError } from '../../contracts/errors.ts';
import { Instant } from '../../contracts/schemas/json.ts';
import { AnyCallId, ApprovalRequest } from '../../contracts/schemas/request.ts';
import { requestDigest } from '../../domain/request/digest.ts';
import { isFields } from '../../domain/shapes/inputs.ts';
import { hasForm, notShown } from '../engine/answers.ts';

/** Lists sort by times, and pages link to calls. Arguments may be large, and the digest says what is in them. */
const Shown = ApprovalRequest.omit({ arguments: true }).extend({
  callId: AnyCallId,
  openedAt: Instant,
  deadline: Instant,
});

const Arguments = z.record(z.string(), z.unknown());

/** @throws CountersignError `DIGEST_MISMATCH` */
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
