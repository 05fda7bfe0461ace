/**
 * In trust mode `signed` this file proves the answers to a call's authorization. An answer counts if the person it
 * names signed it, while the signature was good, in a Temporal run of this chain. Other answers count as not given.
 */
import type { DispatchInput } from '../../contracts/wire/tools.ts';
import { SIGNING } from '../../contracts/crypto.ts';
import { wasGoodAt } from '../../domain/signing/jws.ts';
import type { SignedAuthorization } from '../../contracts/schemas/answer.ts';
import { checkSignedAnswer } from '../../domain/request/signed-answer.ts';
import { isSameVoice } from '../../domain/signing/message.ts';
import { checkWhere } from './dispatch-proof.ts';
import type { StartProofParts } from './start-proof.ts';
import type { AuthorizationProof } from '../../contracts/wire/proofs.ts';
import type { Scheduler } from '../kit/scheduler.ts';

interface Said {
  readonly answer: SignedAuthorization;
  readonly decidedAt: string;
}

export type SaidAuthorizations = (
  input: Pick<DispatchInput, 'run' | 'authorizations'>,
  scheduler: Scheduler,
) => Promise<readonly AuthorizationProof[]>;

export function createAuthorizationProof(parts: StartProofParts): SaidAuthorizations {
  return async ({ run, authorizations = [] }, scheduler) => {
    const ids = { namespace: run.namespace, workflowId: run.workflowId, tenant: run.initiator.tenant };
    const isSigned = async (answer: SignedAuthorization): Promise<boolean> => {
      for (const age of ['kept', 'new'] as const) {
        const trust = await parts.keys.setFor(ids.tenant, age);
        if (checkSignedAnswer('authorize', answer, ids, trust, undefined).kind === 'signed') return true;
      }
      return false;
    };
    const isSaid = async ({ answer, decidedAt }: Said): Promise<boolean> => {
      const inTime = wasGoodAt(answer.signature ?? '', Date.parse(decidedAt) / 1_000, SIGNING.recordedWithin);
      return inTime && (await isSigned(answer)) && (await checkWhere(parts, [answer], scheduler)) === undefined;
    };
    const said: AuthorizationProof[] = [];
    for (const proof of authorizations) {
      const all: readonly Said[] = [...(proof.further ?? []), proof];
      const signatures = all.map(({ answer }) => answer.signature ?? '');
      const trust = await parts.keys.setFor(ids.tenant, 'kept');
      // One key is one voice, whatever names it may sign for.
      const areDistinct = signatures.every((each, index) => !isSameVoice(trust, signatures.slice(0, index), each));
      let isWhole = areDistinct;
      for (const each of all) isWhole &&= await isSaid(each);
      if (isWhole) said.push(proof);
    }
    return said;
  };
}
