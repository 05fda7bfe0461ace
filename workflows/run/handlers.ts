/**
 * Handles the updates and signals of a run. Handlers record and return (INV-D3); only an edit waits, for its verdict
 * (`edits.ts`).
 *
 * 1. A validator only reads, and compares what depends on the Temporal run; the handler behind it never compares that
 *    (INV-D4).
 * 2. A refused update never enters history (INV-G2).
 */
import { HandlerUnfinishedPolicy } from '@temporalio/common';
import { setHandler, workflowInfo } from '@temporalio/workflow';
import type { ErrorCode } from '../../contracts/errors.ts';
import { failureOf } from '../../contracts/failure.ts';
import type { DecisionAck, SignedDecision } from '../../contracts/schemas/request.ts';
import type { Advance } from '../../contracts/schemas/run-state.ts';
import type { Asking } from '../../domain/state/call.ts';
import { madeInTime } from '../../domain/request/decision.ts';
import { type EditDecision, isEdit } from '../../domain/request/rights.ts';
import { admitSaid, heard, otherThanHeard } from '../../domain/run/message-queue.ts';
import { parseForget, parseSay, parseStop } from '../../domain/shapes/messages.ts';
import { type Refusal, refuse } from '../../domain/text/refusal.ts';
import { closed, endingOr } from './refusals.ts';
import { seenAs } from '../entity/unread.ts';
import { onUpdate } from '../entity/updates.ts';
import { serveHeldInput } from '../legacy-2025/open-question.ts';
import { admitted, editCall, refuseFlood } from './edits.ts';
import type { LiveRun } from './live-run.ts';
import {
  advanceUpdate,
  decideSignal,
  decideUpdate,
  forgetUpdate,
  refreshTrustUpdate,
  sayUpdate,
  stopUpdate,
} from './messages.ts';
import { servePauses } from './pauses.ts';
import { serveQueries } from './queries.ts';
import { acceptAll, assertForgettable, forgetStanding } from './standing.ts';
import {
  assertRefreshable,
  assertSigned,
  assertSignedAnswer,
  opened,
  openedDecision,
  refreshTrust,
  refuseUnsigned,
} from './trust.ts';
import { parsed, refuseWith } from '../entity/refusals.ts';
import { serveEntity } from '../entity/messages.ts';

export function registerHandlers(live: LiveRun): void {
  serveEntity(live);
  serveQueries(live);
  servePauses(live);
  serveHeldInput(live);

  onUpdate(live, decideUpdate, {
    description: 'Decide one waiting call',
    // A run that ends first answers the senders whose edits are being judged.
    unfinishedPolicy: HandlerUnfinishedPolicy.ABANDON,
    read: (input) => parsed(openedDecision(live, input), 'DECISION_INVALID'),
    check: (decision) => {
      assertSignedAnswer(live, 'decide', decision);
      const admission = admitted(live, decision, Date.now());
      const refusal =
        admission.kind === 'refuse'
          ? endingOr(live, admission)
          : (madeInTime(decision, live.decidedIn) ?? refuseFlood(live, decision));
      refuseWith(refusal);
    },
    act: (decision) => decide(live, decision),
  });

  setHandler(decideSignal, (input) => decideBySignal(live, input), {
    description: 'Decide one waiting call, without an answer; a refusal is a ledger entry',
  });

  onUpdate(live, sayUpdate, {
    description: 'Add a user message; it is read after the current turn',
    read: (input) => parsed(opened(live, input, parseSay), 'MESSAGE_INVALID'),
    check: (said, input) => {
      if (live.closing) throw closed();
      assertSigned(live, 'say', input, said, { person: said.from, jti: said.messageId });
      // No model step follows, so the message would never be read.
      if (live.work.consideredCancelled) throw closed();
      refuseWith(admitSaid(live.run, said));
    },
    act: (said) => {
      refuseWith(otherThanHeard(live.run, said));
      live.commit(heard(live.run, said));
      return advance(live);
    },
  });

  onUpdate(live, stopUpdate, {
    description: 'End the run: open requests are cancelled',
    read: (input) => parsed(opened(live, input, parseStop), 'MESSAGE_INVALID'),
    check: (stop, input) => {
      if (live.closing) throw closed();
      assertSigned(live, 'stop', input, stop, { person: stop.by });
    },
    act: (stop) => {
      live.stop(stop);
      return advance(live);
    },
  });

  onUpdate(live, forgetUpdate, {
    description: 'Take a standing decision back: what it would answer is asked',
    read: (input) => parsed(opened(live, input, parseForget), 'DECISION_INVALID'),
    check: (message, input) => {
      if (live.closing) throw closed();
      assertSigned(live, 'forget', input, message, { person: message.by.id, groups: message.by.groups });
      assertForgettable(live, message);
    },
    act: (message) => forgetStanding(live, message),
  });

  onUpdate(live, advanceUpdate, {
    description: 'Where the run is, at once',
    read: () => undefined,
    act: () => advance(live),
  });
  onUpdate(live, refreshTrustUpdate, {
    description: 'Read the trusted keys anew',
    read: () => undefined,
    check: () => assertRefreshable(live),
    act: () => {
      refreshTrust(live);
      return advance(live);
    },
  });
}

function decide(live: LiveRun, decision: SignedDecision): DecisionAck | Promise<DecisionAck> {
  const now = Date.now();
  const admission = admitted(live, decision, now);
  if (admission.kind === 'repeat') return admission.ack;
  // A decision is refused here only if it raced another one in the same task: its validator ran before the other's
  // handler.
  if (admission.kind === 'refuse') throw failureOf(admission.code, admission.message, admission.facts);
  if (isEdit(decision)) return decideEdited(live, admission.state, decision);
  return acceptAll(live, admission.state, decision, now);
}

async function decideEdited(live: LiveRun, state: Asking, decision: EditDecision): Promise<DecisionAck> {
  const answer = await editCall(live, state, decision);
  if (answer.kind === 'ack') return answer.ack;
  // The message is in history, so the ledger says what became of it.
  refuseInLedger(live, decision, answer);
  throw failureOf(answer.code, answer.message, answer.facts);
}

/**
 * Takes a decision by signal. Only the dispatch activity checks whether the decision was made in a Temporal run that
 * counts, because only the activity is live code. A late reject by signal, made before a reset, therefore still
 * rejects: nothing is sent because of it (docs/adr/0017).
 */
function decideBySignal(live: LiveRun, input: unknown): void | Promise<void> {
  const shape = openedDecision(live, seenAs(live, input));
  if (shape.kind === 'bad')
    return refuseSignal(live, { callId: 'unknown', decisionId: 'unknown', approver: 'unknown' }, 'DECISION_INVALID');
  const decision = shape.value;
  const now = Date.now();
  const admission = refuseUnsigned(live, decision) ?? admitted(live, decision, now);
  const refusal = admission.kind === 'refuse' ? admission : (refuseUntold(decision) ?? refuseFlood(live, decision));
  if (refusal !== undefined) return refuseInLedger(live, decision, refusal);
  if (admission.kind !== 'accept') return undefined;
  if (isEdit(decision)) return editBySignal(live, admission.state, decision);
  return void acceptAll(live, admission.state, decision, now);
}

/**
 * Refuses a `respond` decision by signal. Its answer is told to the model and never proven at a dispatch. Temporal
 * delivers signals again to a run that was reset, and nothing there would show whether the answer was given before. It
 * is taken by update only.
 */
function refuseUntold({ kind, callId }: SignedDecision): Refusal | undefined {
  if (kind !== 'respond') return undefined;
  return refuse('DECISION_NOT_PERMITTED', `An answer to call ${callId} is taken by update only.`, { callId });
}

async function editBySignal(live: LiveRun, state: Asking, decision: EditDecision): Promise<void> {
  const answer = await editCall(live, state, decision);
  if (answer.kind === 'refuse') refuseInLedger(live, decision, answer);
}

function refuseInLedger(live: LiveRun, { callId, decisionId, approver }: SignedDecision, { code }: Refusal): void {
  refuseSignal(live, { callId, decisionId, approver: approver.id }, code);
}

/** Records the refusal, unless the ledger already has its last entry. */
function refuseSignal(
  live: LiveRun,
  who: { callId: string; decisionId: string; approver: string },
  code: ErrorCode,
): void {
  if (live.closing) return;
  live.commit({ run: live.run, facts: [{ kind: 'decision.refused', ...who, code }] });
}

function advance(live: LiveRun): Advance {
  return { runId: workflowInfo().runId, cursor: live.journal.ledgerLength, status: live.status };
}
