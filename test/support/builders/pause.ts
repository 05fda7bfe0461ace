import type { Judgement } from '../../../contracts/schemas/call.ts';
import type { OutcomePause, Resolution } from '../../../contracts/schemas/request.ts';
import { accept, admit } from '../../../domain/request/decision.ts';
import { pausedFor, type Pausing } from '../../../domain/request/pause.ts';
import { dispatched } from '../../../domain/request/transitions.ts';
import { callOf, type InFlight, type Run, type WaitingForAnswer } from '../../../domain/state/run.ts';
import { identicalCalls } from './call.ts';
import { approval, shown } from './decision.ts';
import { allowVerdict, approverRule } from './judgement.ts';
import { judgedRun, runIds, START } from './run.ts';

export const UNSURE = { kind: 'unknown', code: 'OUTCOME_UNKNOWN', message: 'the answer was lost' } as const;

export function outcomePause(over: Partial<OutcomePause> = {}): OutcomePause {
  return { kind: 'outcome', sentAt: '2026-01-01T00:00:00.000Z', message: UNSURE.message, attempt: 1, ...over };
}

export function pausing(over: Partial<Pausing> = {}): Pausing {
  return { at: START, approvers: approverRule(), deadlineSeconds: 3_600, unsure: UNSURE, ...over };
}

/** Makes a run with a call in flight, either allowed by policy or approved by ann. */
export function flyingRun(consent: 'allowed' | 'approved' = 'allowed', over: Partial<Judgement> = {}): Run {
  const judged = judgedRun(identicalCalls(1), () => ({
    ...(consent === 'allowed' ? { verdict: allowVerdict() } : {}),
    ...over,
  }));
  const run = consent === 'allowed' ? judged : approvedBy(judged);
  const flying = dispatched(run, 't1.c0')?.run;
  if (flying === undefined) throw new Error('the call is not sent');
  return flying;
}

/** Returns a call of this run that is under way. */
export function flyingOf(run: Run, callId = 't1.c0'): InFlight {
  const state = callOf(run, callId);
  if (state?.status !== 'in-flight') throw new Error(`${callId} is not under way, it is ${state?.status ?? 'unknown'}`);
  return state;
}

export function approvedBy(run: Run, ann = 'ann', decisionId = 'd-0'): Run {
  const decision = approval({ ...shown(run, 't1.c0'), decisionId, approver: { id: ann, groups: [] } });
  const admission = admit(run, decision, runIds(), START);
  if (admission.kind !== 'accept') throw new Error(`not taken: ${JSON.stringify(admission)}`);
  return accept(run, admission.state, decision, START).run;
}

/** Makes a run that asks what became of its call. */
export function pausedRun(consent: 'allowed' | 'approved' = 'allowed', over: Partial<Pausing> = {}): Run {
  return pausedFor(flyingRun(consent), 't1.c0', outcomePause(), pausing(over), runIds()).run;
}

export function pausedOf(run: Run): WaitingForAnswer<OutcomePause> {
  const state = callOf(run, 't1.c0');
  if (state?.status !== 'waiting-for-answer') throw new Error('it waits for no answer');
  // Sound: `pausedRun` made the run, so its request is about an outcome.
  return state as WaitingForAnswer<OutcomePause>;
}

const base = {
  decisionId: 'r-1',
  callId: 't1.c0',
  digest: 'a'.repeat(64),
  runId: 'run-1',
  approver: { id: 'ann', groups: [] },
};

export function retry(over: Partial<Resolution> = {}): Extract<Resolution, { kind: 'retry' }> {
  // Sound: the fields in `over` fit every kind.
  return { kind: 'retry', ...base, ...over } as Extract<Resolution, { kind: 'retry' }>;
}

export function recorded(over: Partial<Resolution> = {}): Resolution {
  // Sound: as in `retry`.
  return { kind: 'succeeded', result: 'It is there: note 7.', ...base, ...over } as Resolution;
}

export function recordedFailure(over: Partial<Resolution> = {}): Resolution {
  // Sound: as in `retry`.
  return { kind: 'failed', message: 'Nothing of it is there.', ...base, ...over } as Resolution;
}
