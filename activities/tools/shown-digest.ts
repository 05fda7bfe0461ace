/**
 * The digest under which somebody was shown a request on the call of a dispatch.
 *
 * 1. The run, its tenant, the tool and the call are those of the dispatch; a proof says only what else was shown. Nothing more of it is
 *    read, whatever it holds: else a decision on one tool would be proof for another (INV-G2).
 */
import type { DispatchInput } from '../../contracts/dispatch.ts';
import type { RetryProof, ShownRequest } from '../../contracts/dispatch-proof.ts';
import { type DigestParts, requestDigest } from '../../domain/digest.ts';

type Shown = Pick<DigestParts, 'arguments' | 'generation' | 'approvers' | 'about'>;

/** Of a request for consent. */
export function digestOfConsent(
  input: DispatchInput,
  { generation, arguments: shown, approvers }: ShownRequest,
  runId: string,
): string {
  return digestOf(input, runId, input.target.definitionHash, { generation, arguments: shown, approvers });
}

/** Of what else was asked of the call, whose tool may have had another definition then. */
export function digestOfPause(
  input: DispatchInput,
  {
    generation,
    approvers,
    definitionHash,
    about,
  }: Pick<RetryProof, 'generation' | 'approvers' | 'definitionHash' | 'about'>,
  runId: string,
): string {
  return digestOf(input, runId, definitionHash, { generation, arguments: input.arguments, approvers, about });
}

function digestOf({ run, callId, target }: DispatchInput, runId: string, definitionHash: string, shown: Shown): string {
  const { namespace, workflowId, initiator } = run;
  const { tenant } = initiator;
  return requestDigest({
    ...shown,
    namespace,
    tenant,
    workflowId,
    runId,
    callId,
    target: { ...target, definitionHash },
  });
}
