/**
 * Trust mode `signed`: which words on a call's authorization were said by who they name, while their signature was good, in a
 * Temporal run of this chain. The others count as not said.
 */
import type { DispatchInput } from '../../contracts/activities.ts';
import type { AuthorizationProof } from '../../contracts/dispatch-proof.ts';
import { SIGNING } from '../../contracts/signing.ts';
import { wasGoodAt } from '../../domain/jws.ts';
import { checkSignedAnswer } from '../../domain/signed-decision.ts';
import type { Scheduler } from '../tools/dispatch-check.ts';
import { checkWhere } from './dispatch-proof.ts';
import type { StartProofParts } from './start-proof.ts';

export type SaidAuthorizations = (
  input: Pick<DispatchInput, 'run' | 'authorizations'>,
  scheduler: Scheduler,
) => Promise<readonly AuthorizationProof[]>;

export function createAuthorizationProof(parts: StartProofParts): SaidAuthorizations {
  return async ({ run, authorizations = [] }, scheduler) => {
    const ids = { namespace: run.namespace, workflowId: run.workflowId, tenant: run.initiator.tenant };
    const isSigned = async ({ answer }: AuthorizationProof): Promise<boolean> => {
      for (const age of ['kept', 'new'] as const) {
        const trust = await parts.keys.setFor(ids.tenant, age);
        if (checkSignedAnswer('authorize', answer, ids, trust, undefined).kind === 'signed') return true;
      }
      return false;
    };
    const said: AuthorizationProof[] = [];
    for (const proof of authorizations) {
      const { answer, decidedAt } = proof;
      const inTime = wasGoodAt(answer.signature ?? '', Date.parse(decidedAt) / 1_000, SIGNING.recordedWithin);
      if (!inTime || !(await isSigned(proof))) continue;
      if ((await checkWhere(parts, [answer], scheduler)) === undefined) said.push(proof);
    }
    return said;
  };
}
