/**
 * A pause is a request for something other than consent: an outcome, a server's question, a missing authorization. What
 * an answer does is in `outcome.ts`, `provision.ts` and `authorization.ts` beside this.
 *
 * 1. It is answered by the update of its kind, and by no other; its digest covers what was shown of it (INV-G2).
 * 2. The call keeps the consent with which it left, and the consent keeps its digest: an answer consents to nothing.
 * 3. No call leaves again by time alone: an unanswered request ends with the outcome that is true of the call (INV-X1).
 */
import { defined } from '../../contracts/defined.ts';
import type { LedgerFact } from '../../contracts/schemas/ledger.ts';
import type { ApproverRule } from '../../contracts/schemas/policy.ts';
import type { InputPause, Pause, PauseAck, PauseKind } from '../../contracts/schemas/request.ts';
import type { Asked, Provided, Retry, Unsure } from '../../contracts/wire/carry.ts';
import type { PauseProof, ProvisionProof } from '../../contracts/wire/proofs.ts';
import { mayDecide } from '../policy/approvers.ts';
import { signatureEvidence } from '../signing/jws.ts';
import {
  type Answerable,
  answeredWith,
  type Approved,
  askable,
  type AskingOnConnection,
  type Change,
  type Cleared,
  DISPATCHED,
  type Dispatched,
  isPauseAnswer,
  move,
  resolvedOf,
  type Run,
  type RunIds,
  sendable,
  type WaitingForAnswer,
} from '../state/run.ts';
import { shortHashOf } from '../text/canonical.ts';
import { refuse } from '../text/refusal.ts';
import { instantOf } from './deadline.ts';
import { type AdmissionOf, admitTo, namedIn, voterOf } from './decision.ts';
import { requestOpenedFact } from './digest.ts';
import { nextGeneration } from './transitions.ts';

export type Paused<P extends Pause = Pause> = WaitingForAnswer<P> | (InputPause extends P ? AskingOnConnection : never);

export interface Pausing {
  /** Epoch ms. */
  readonly at: number;
  readonly approvers: ApproverRule;
  readonly deadlineSeconds: number;
  readonly unsure?: Unsure;
  /** Set if the same was asked before, and the answer does not hold. */
  readonly because?: string;
}

/** Pauses a call in flight: it keeps its consent, and waits for an answer about the subject `about`. */
export function paused<P extends Pause>(
  state: Dispatched,
  about: P,
  { at, approvers, deadlineSeconds, unsure, because }: Pausing,
): WaitingForAnswer<P> {
  const { retry, ...resolved } = askable(state);
  const { consent } = state;
  return {
    status: 'waiting-for-answer',
    ...resolved,
    // A permission to retry is used up once the call leaves; a call turned away for its authorization has not left.
    ...(retry === undefined || about.kind !== 'authorization' ? {} : { retry }),
    ...defined({ unsure, consent }),
    request: {
      generation: nextGeneration(state),
      approvers,
      openedAt: at,
      deadline: at + deadlineSeconds * 1_000,
      ...defined({ because }),
      about,
    },
  };
}

/** Returns the call to the state it was sent from, with its former consent and a fresh number of attempts. */
export function resumed(state: WaitingForAnswer, retry?: Retry): Cleared | Approved {
  const { request, attempts, consent } = state;
  const { again, ...resolved } = resolvedOf(state);
  const said = retry === undefined ? defined({ again }) : { retry };
  return sendable({ ...resolved, asked: request.generation, holds: { count: attempts }, ...said }, consent);
}

export function pausedFor(run: Run, callId: string, about: Pause, pausing: Pausing, ids: RunIds): Change {
  return move(run, callId, DISPATCHED, (state) => {
    const call = paused(state, about, pausing);
    return { call, facts: [requestOpenedFact(call, ids)] };
  });
}

export type PauseAnswer = Answerable & { readonly kind: string; readonly signature?: string };

/** Admits an answer, recognises a repeat, or says why it does not count. @param now epoch ms */
export function admitAnswer(
  run: Run,
  asked: PauseKind,
  answer: PauseAnswer,
  ids: Omit<RunIds, 'runId'>,
  now: number,
): AdmissionOf<Paused, PauseAck> {
  const admission = admitTo(
    run,
    answer,
    {
      isAsked: (state): state is Paused => state.request.about?.kind === asked,
      repeated: (known) => (isPauseAnswer(known) && known.content === contentOf(asked, answer) ? known.ack : undefined),
    },
    ids,
    now,
  );
  if (admission.kind !== 'accept') return admission;
  const { callId, approver } = answer;
  const { state } = admission;
  if (mayDecide(state.request.approvers, voterOf(state, answer, now))) return admission;
  const message = `${approver.id} may not answer for call ${callId}; the request lists who may.`;
  return refuse('APPROVER_NOT_ENTITLED', message, { callId });
}

/** Remembers the acknowledgement, so that a resent answer gets it again (INV-D3). @param at epoch ms */
export function remembering(
  run: Run,
  asked: PauseKind,
  answer: PauseAnswer & { readonly kind: PauseAck['answer'] },
  at: number,
): { readonly run: Run; readonly ack: PauseAck } {
  const { callId, decisionId, kind, approver } = answer;
  const ack: PauseAck = { callId, decisionId, answer: kind, decidedBy: approver.id, decidedAt: instantOf(at) };
  return { ack, run: answeredWith(run, { ack, content: contentOf(asked, answer) }) };
}

/** The signature is left out: the same answer signed anew counts as the same. */
function contentOf(asked: PauseKind, { signature: _, ...answer }: PauseAnswer): string {
  return shortHashOf({ asked, answer });
}

type AnswerFact = Extract<LedgerFact, { kind: 'outcome.resolved' | 'input.provided' | 'authorization.given' }>;

type Said<Kind> = PauseAnswer & { readonly kind: Kind; readonly comment?: string | undefined };

/** Names the approver with only those groups that the rule names. */
export function answerFact<Kind extends AnswerFact['answer']>(
  { request }: Pick<Paused, 'request'>,
  { callId, decisionId, kind, approver, digest, runId, comment, signature }: Said<Kind>,
): Omit<AnswerFact, 'kind' | 'answer'> & { readonly answer: Kind } {
  return {
    callId,
    generation: request.generation,
    decisionId,
    answer: kind,
    approver: namedIn([request.approvers], approver),
    digest,
    runId,
    ...defined({ comment }),
    ...(signature === undefined ? {} : { signature: signatureEvidence(signature) }),
  };
}

export function pauseProof<About extends Pause>({
  decidedAt,
  request,
  definitionHash,
}: Asked<About>): PauseProof<About> {
  const { about, generation, approvers, openedAt, deadline } = request;
  const times = { openedAt: instantOf(openedAt), deadline: instantOf(deadline), decidedAt: instantOf(decidedAt) };
  return { about, generation, approvers, definitionHash, ...times };
}

export function provisionProof({ provision, ...asked }: Provided): ProvisionProof {
  return { provision, ...pauseProof(asked) };
}
