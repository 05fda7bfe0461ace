/** Makes decisions from a waiting request: the right ones, and those that a run must refuse. */
import type { ErrorCode } from '../../contracts/errors.ts';
import type { ApprovalRequest } from '../../contracts/schemas/request.ts';
import { requestDigest } from '../../domain/request/digest.ts';
import type { Attempt } from './inputs.ts';

export interface Expected extends Attempt {
  readonly code: ErrorCode;
}

/** The person who may decide in recorded runs; see `stage-policy.ts`. */
export const APPROVER = { id: 'ann', groups: ['leads'] };
const STRANGER = { id: 'mallory', groups: ['guests'] };
/** Id of a Temporal run that never existed. */
const NO_RUN = '00000000-0000-4000-8000-000000000000';

export function approve(request: ApprovalRequest, name: string, over: object = {}): Attempt {
  const { callId, digest, runId } = request;
  return {
    name,
    update: 'decide',
    input: { kind: 'approve', decisionId: idOf(name), callId, digest, runId, approver: APPROVER, ...over },
  };
}

export function reject(request: ApprovalRequest, name: string): Attempt {
  return approve(request, name, { kind: 'reject', reason: 'not this week' });
}

/** Makes one decision for each way in which a decision on an open request can be wrong. */
export function wrongDecisions(request: ApprovalRequest): Expected[] {
  const of = (name: string, over: object, code: ErrorCode): Expected => ({ ...approve(request, name, over), code });
  return [
    of('a stale digest', { digest: '0'.repeat(64) }, 'DIGEST_MISMATCH'),
    of('the digest of another run id', { runId: NO_RUN }, 'DIGEST_MISMATCH'),
    of('made in a run that never was', { runId: NO_RUN, digest: digestIn(request, NO_RUN) }, 'DECISION_STALE_RUN'),
    of('an unknown call', { callId: 't9.c9' }, 'CALL_UNKNOWN'),
    of('a stranger', { approver: STRANGER }, 'APPROVER_NOT_ENTITLED'),
    of('a field too many', { approved: true }, 'DECISION_INVALID'),
    of('no approver', { approver: undefined }, 'DECISION_INVALID'),
    { name: 'no decision at all', update: 'decide', input: 'yes', code: 'DECISION_INVALID' },
  ];
}

export function refused(attempt: Attempt, code: ErrorCode): Expected {
  return { ...attempt, code };
}

/** Computes the digest that the request would have in another Temporal run. */
function digestIn(request: ApprovalRequest, runId: string): string {
  const { namespace, tenant, workflowId, callId, generation, server, serverUrl, tool, definitionHash, approvers } =
    request;
  const target = { server, serverUrl, tool, definitionHash };
  return requestDigest({
    namespace,
    tenant,
    workflowId,
    callId,
    runId,
    generation,
    target,
    arguments: request.arguments,
    approvers,
  });
}

function idOf(name: string): string {
  return name.replaceAll(' ', '-');
}
