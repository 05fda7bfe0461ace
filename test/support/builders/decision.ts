import type { JsonObject } from '../../../contracts/schemas/json.ts';
import type { Decision, Say, Stop } from '../../../contracts/schemas/request.ts';
import { digestOf } from '../../../domain/request/digest.ts';
import {
  callOf,
  type EditDecision,
  isAsking,
  type Run,
  type RunIds,
  type WaitingForConsent,
} from '../../../domain/state/run.ts';
import { runIds } from './run.ts';

type Approval = Extract<Decision, { kind: 'approve' }>;
type Rejection = Extract<Decision, { kind: 'reject' }>;

const base = {
  decisionId: 'd-1',
  callId: 't1.c0',
  digest: 'a'.repeat(64),
  runId: 'run-1',
  approver: { id: 'ann', groups: [] },
};

export function approval(over: Partial<Approval> = {}): Approval {
  return { kind: 'approve', ...base, ...over };
}

export function rejection(over: Partial<Rejection> = {}): Rejection {
  return { kind: 'reject', reason: 'not today', ...base, ...over };
}

export function withdrawal(over: Partial<Extract<Decision, { kind: 'withdraw' }>> = {}): Decision {
  return { kind: 'withdraw', ...base, ...over };
}

export function extension(over: Partial<Extract<Decision, { kind: 'extend' }>> = {}): Decision {
  return { kind: 'extend', until: '2026-01-01T02:00:00.000Z', ...base, ...over };
}

export function answer(over: Partial<Extract<Decision, { kind: 'respond' }>> = {}): Decision {
  return { kind: 'respond', answer: 'It is done by hand.', ...base, ...over };
}

export function edit(args: JsonObject, over: Partial<Approval> = {}): EditDecision {
  return { ...approval(over), arguments: args };
}

/** Returns the call that waits for consent; throws if the test is wrong. */
export function askingOf(run: Run, callId: string): WaitingForConsent {
  const state = callOf(run, callId);
  if (state?.status !== 'waiting-for-consent')
    throw new Error(`${callId} does not ask, it is ${state?.status ?? 'unknown'}`);
  return state;
}

/** Returns the fields that a person who read the request of `callId` would send back. */
export function shown(run: Run, callId: string, ids: RunIds = runIds()): Pick<Decision, 'callId' | 'digest' | 'runId'> {
  const state = callOf(run, callId);
  if (!isAsking(state)) throw new Error(`${callId} does not ask, it is ${state?.status ?? 'unknown'}`);
  return { callId, digest: digestOf(state, ids), runId: ids.runId };
}

export function say(over: Partial<Say> = {}): Say {
  return { messageId: 'm-1', text: 'Also the old ones.', from: 'ann', ...over };
}

export function stop(over: Partial<Stop> = {}): Stop {
  return { by: 'ann', reason: 'changed my mind', inFlight: 'finish', ...over };
}
