/** What the ledger says of every answer to a request about something else than consent. */
import type { SignatureEvidence } from '../contracts/schemas/trust.ts';
import type { Answerable } from './call-state.ts';
import { namedIn } from './decision.ts';
import { signatureEvidence } from './jws.ts';
import type { Paused } from './pause.ts';

interface Said<Kind extends string> extends Answerable {
  readonly kind: Kind;
  readonly comment?: string | undefined;
  readonly signature?: string | undefined;
}

interface AnswerFact<Kind extends string> extends Answerable {
  readonly generation: number;
  readonly answer: Kind;
  readonly comment?: string;
  readonly signature?: SignatureEvidence;
}

/** The approver with the groups alone for which they were asked. */
export function answerFact<Kind extends string>(
  { request }: Pick<Paused, 'request'>,
  { callId, decisionId, kind, approver, digest, runId, comment, signature }: Said<Kind>,
): AnswerFact<Kind> {
  return {
    callId,
    generation: request.generation,
    decisionId,
    answer: kind,
    approver: namedIn([request.approvers], approver),
    digest,
    runId,
    ...(comment === undefined ? {} : { comment }),
    ...(signature === undefined ? {} : { signature: signatureEvidence(signature) }),
  };
}
