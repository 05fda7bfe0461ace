import { defined } from '../../../contracts/defined.ts';
import type { DispatchInput } from '../../../contracts/wire/tools.ts';
import { type DigestParts, requestDigest } from '../../../domain/request/digest.ts';
import { shownToEditor } from '../../../domain/request/edit.ts';
import { type Approved, callOf, type Run } from '../../../domain/state/run.ts';
import { proofOf } from '../../../domain/request/standing.ts';
import { approvedBy } from './pause.ts';
import { askingRun, runIds } from './run.ts';

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

/** Makes the dispatch of a call that ann has just approved. */
export function approvedDispatch(): DispatchInput {
  // Sound: it has this state since.
  return dispatchOf(callOf(approvedBy(askingRun()), 't1.c0') as Approved);
}

interface Leaving extends Pick<DispatchInput, 'callId' | 'target' | 'arguments'> {
  readonly run: Pick<DispatchInput['run'], 'namespace' | 'workflowId'> & {
    readonly initiator?: { readonly tenant: string };
  };
}

type Read = Pick<DigestParts, 'generation' | 'approvers' | 'about'> & { readonly definitionHash?: string };

/** Returns the digest of a request in which this was read of a call, which else is shown as it would leave. */
export function digestOfShown(
  { run, callId, target, arguments: args }: Leaving,
  { definitionHash = target.definitionHash, generation, approvers, about }: Read,
  runId = 'run-1',
): string {
  const { namespace, workflowId, initiator: { tenant } = runIds() } = run;
  const shown = { generation, target: { ...target, definitionHash }, arguments: args, approvers, about };
  return requestDigest({ namespace, tenant, workflowId, callId, runId, ...shown });
}
