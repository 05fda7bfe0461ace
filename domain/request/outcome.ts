/**
 * A person says what happened to a call whose outcome is unknown.
 *
 * 1. One person who may decide is enough to record an outcome. Sending again takes all approvers of the rule: if one
 *    person does not meet it, the call is asked anew, and its approvers read that it may have run (INV-X1).
 * 2. A recorded outcome names the person who recorded it, and so differs from what a tool said (INV-X2).
 */
import { defined } from '../../contracts/defined.ts';
import type { Outcome } from '../../contracts/schemas/call.ts';
import type { LedgerFact } from '../../contracts/schemas/ledger.ts';
import type { OutcomePause, PauseAck, SignedResolution } from '../../contracts/schemas/request.ts';
import type { Limits } from '../../contracts/schemas/run-spec.ts';
import type { Unsure } from '../../contracts/wire/carry.ts';
import type { DispatchResult } from '../../contracts/wire/tools.ts';
import { isMet } from '../policy/approvers.ts';
import { type Fields, isFields, isFiniteNumber, isInstant } from '../shapes/inputs.ts';
import {
  type CallState,
  type Change,
  type Dispatched,
  replaceCall,
  type Run,
  type RunIds,
  settled,
  type WaitingForAnswer,
} from '../state/run.ts';
import { sha256Hex } from '../text/canonical.ts';
import type { Refusal } from '../text/refusal.ts';
import { tellDue } from './deadline.ts';
import { namedIn, refuseLong, voterOf } from './decision.ts';
import { outcomeFact, requestOpenedFact } from './digest.ts';
import { answerFact, remembering, resumed } from './pause.ts';
import { reopened } from './transitions.ts';

/** Records an admitted resolution. @param at epoch ms */
export function resolve(
  run: Run,
  asked: WaitingForAnswer<OutcomePause>,
  resolution: SignedResolution,
  ids: RunIds,
  at: number,
): Change & { readonly ack: PauseAck } {
  const due = tellDue(asked, at);
  const { state } = due;
  const next = nextOf(state, resolution, at);
  return {
    ...remembering(replaceCall(run, next), 'outcome', resolution, at),
    facts: [
      ...due.facts,
      resolvedFact(state, resolution),
      ...(next.status === 'settled' ? [outcomeFact(resolution.callId, next.outcome, asked.request.about.token)] : []),
      ...(next.status === 'waiting-for-consent' ? [requestOpenedFact(next, ids)] : []),
    ],
  };
}

function nextOf(state: WaitingForAnswer<OutcomePause>, resolution: SignedResolution, at: number): CallState {
  const { approver } = resolution;
  if (resolution.kind !== 'retry') {
    const by = namedIn([state.request.approvers], approver);
    return settled(state, recordedOutcome(resolution), undefined, { status: 'resolved', by, at });
  }
  const { request } = state;
  const { definitionHash } = state.judgement.target;
  const next = resumed(state, { resolution, decidedAt: at, request, definitionHash });
  if (isMet(request.approvers, [voterOf(state, resolution, at)])) return next;
  return reopened(next, {
    at,
    because: `OUTCOME_UNKNOWN: ${approver.id} wants the call sent again, and others must agree. It may have run: ${request.about.message}`,
    approvers: request.approvers,
    deadlineSeconds: Math.ceil((request.deadline - request.openedAt) / 1_000),
  });
}

export function refuseLongResult(
  resolution: SignedResolution,
  limits: Pick<Limits, 'resultBytes'>,
): Refusal | undefined {
  return resolution.kind === 'succeeded' ? refuseLong(resolution, 'result', resolution.result, limits) : undefined;
}

function recordedOutcome(resolution: Exclude<SignedResolution, { kind: 'retry' }>): Outcome {
  const recordedBy = resolution.approver.id;
  return resolution.kind === 'succeeded'
    ? { kind: 'succeeded', result: { content: [{ type: 'text', text: resolution.result }] }, recordedBy }
    : // It was sent: nobody says that nothing came of it.
      { kind: 'failed', code: 'TOOL_FAILED', message: resolution.message, executed: true, recordedBy };
}

type Said =
  | { readonly kind: 'retry' }
  | { readonly kind: 'succeeded'; readonly result: string }
  | { readonly kind: 'failed'; readonly message: string };

/** Returns the sha256 of the recorded text; undefined if the call is to be sent again. */
export function recordedHash(resolution: Said): string | undefined {
  if (resolution.kind === 'retry') return undefined;
  return sha256Hex(resolution.kind === 'succeeded' ? resolution.result : resolution.message);
}

function resolvedFact(state: WaitingForAnswer<OutcomePause>, resolution: SignedResolution): LedgerFact {
  const hash = defined({ recordedHash: recordedHash(resolution) });
  return { kind: 'outcome.resolved', ...answerFact(state, resolution), ...hash };
}

type Ended = Extract<DispatchResult, { kind: 'ended' }>;

const LONGEST_MESSAGE = 1_000;

/** @param handedAt when the run handed the call to a worker, epoch ms */
export function outcomePause(
  { attempts }: Dispatched,
  { outcome, sent, token }: Ended & { readonly outcome: Unsure },
  handedAt: number,
): OutcomePause {
  return {
    kind: 'outcome',
    // Only a worker's report tells that the call was sent.
    ...(sent === undefined ? { handedAt: new Date(handedAt).toISOString() } : { sentAt: sent.at }),
    message: outcome.message.slice(0, LONGEST_MESSAGE),
    attempt: attempts,
    ...defined({ bytes: sent?.bytes, lastProgress: sent?.progress, token }),
  };
}

/** Reads the last heartbeat of a lost worker; undefined if the heartbeat does not say that the call was sent. */
export function sentAsTold(details: unknown): Ended['sent'] {
  const { sentAt, progress }: Fields = isFields(details) ? details : {};
  if (!isInstant(sentAt)) return undefined;
  return {
    at: sentAt,
    ...(isFiniteNumber(progress) ? { progress } : {}),
  };
}
