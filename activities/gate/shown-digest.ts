/**
 * Computes the digest under which somebody was shown a request about the call of a dispatch.
 *
 * 1. The run, its tenant, the tool and the call come from the dispatch; a proof says only what else was shown. Nothing
 *    more is read from the proof, whatever it holds. Otherwise a decision on one tool would be proof for another
 *    (INV-G2).
 */
import type { RetryProof, ShownRequest } from '../../contracts/wire/proofs.ts';
import type { DispatchInput } from '../../contracts/wire/tools.ts';
import { type DigestParts, requestDigest } from '../../domain/request/digest.ts';

type Shown = Pick<DigestParts, 'arguments' | 'generation' | 'approvers' | 'about'>;

/** Digest of a request for consent. */
export function digestOfConsent(
  input: DispatchInput,
  { generation, arguments: shown, approvers }: ShownRequest,
  runId: string,
): string {
  return digestOf(input, runId, input.target.definitionHash, { generation, arguments: shown, approvers });
}

/** Digest of another request about the call; the tool may have had another definition then. */
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
