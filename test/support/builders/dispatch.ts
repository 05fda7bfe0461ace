import { defined } from '../../../contracts/defined.ts';
import type { DispatchInput } from '../../../contracts/wire/tools.ts';
import { shownToEditor } from '../../../domain/request/edit.ts';
import { proofOf } from '../../../domain/request/standing.ts';
import type { Approved } from '../../../domain/state/call.ts';
import type { Run } from '../../../domain/state/run.ts';
import { runIds } from './run.ts';

/** Makes the dispatch of an approved call, as the workflow assembles it. */
export function dispatchOf(state: Approved, { standing = [] }: Partial<Run> = {}): DispatchInput {
  const { consent, call, judgement } = state;
  const { made, request } = consent;
  const edit = shownToEditor(state);
  const stands = standing.find(({ id }) => id === made.standing);
  const { namespace, workflowId, tenant } = runIds();
  return {
    run: { namespace, workflowId, initiator: { id: 'eve', groups: [], tenant }, specHash: 'a'.repeat(64) },
    runId: 'run-1',
    decidedIn: ['run-1'],
    callId: call.callId,
    name: call.name,
    target: judgement.target,
    arguments: call.arguments,
    proof:
      stands === undefined
        ? {
            kind: 'decision',
            decision: made.decision,
            ...(made.further === undefined ? {} : { further: made.further.map(({ decision }) => decision) }),
            generation: request.generation,
            approvers: request.approvers,
            deadline: new Date(request.deadline).toISOString(),
            decidedAt: new Date(made.decidedAt).toISOString(),
            ...defined({ edit }),
          }
        : proofOf(stands),
    toolset: [],
    server: { name: 'files', url: 'https://files.example' },
    limits: { resultBytes: 1, callTimeoutSeconds: 1 },
    attempt: 1,
    idempotencyKey: 'k',
  };
}
