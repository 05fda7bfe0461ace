/**
 * The state that an execution hands to the next one at continue-as-new: `toCarry` and `fromCarry` stand between the run
 * and its recorded shape (`contracts/wire/carry.ts`), which stays as it is.
 *
 * 1. A run carries only what cannot be read elsewhere: heads and references, open calls, remembered answers.
 */
import { defined } from '../../contracts/defined.ts';
import {
  type CarriedCall,
  type CarriedRun,
  type Carry,
  CARRY_VERSION,
  type Consent,
  type MadeDecision,
  type OpenRequest,
} from '../../contracts/wire/carry.ts';
import { type Approved, type CallState, type Cleared, resolvedOf, type Run, sendable } from '../state/run.ts';

/** Returns the run as it is carried, and the version of its shape. */
export function toCarry(run: Run): Pick<Carry, 'version' | 'run'> {
  return { version: CARRY_VERSION, run: { ...run, calls: run.calls.map(carriedCall) } };
}

export function fromCarry({ calls, ...run }: CarriedRun): Run {
  return { ...run, calls: calls.map(callFrom) };
}

function carriedCall(state: CallState): CarriedCall {
  switch (state.status) {
    case 'proposed':
    case 'settled':
      return state;
    case 'cleared':
    case 'approved':
      return carriedSendable(state);
    case 'throttled':
      return { ...carriedSendable(sendable(resolvedOf(state), state.consent)), held: state.wait };
    case 'waiting-for-consent':
      return { ...state, status: 'asking' };
    case 'waiting-for-answer': {
      const { consent, ...asking } = state;
      return { ...asking, status: 'asking', ...defined({ consented: consent }) };
    }
    case 'asking-on-connection': {
      const { consent, questions, ...asking } = state;
      return { ...asking, status: 'asking', ...defined({ consented: consent, heldOpen: questions }) };
    }
    case 'in-flight':
    case 'on-task': {
      const { consent, questions, ...flight } = state;
      return { ...flight, status: 'in-flight', ...consent, ...defined({ heldInput: questions }) };
    }
  }
}

function carriedSendable(state: Cleared | Approved): Extract<CarriedCall, { status: 'cleared' | 'approved' }> {
  const resolved = resolvedOf(state);
  return state.status === 'cleared'
    ? { status: 'cleared', ...resolved }
    : { status: 'approved', ...resolved, ...state.consent };
}

function callFrom(carried: CarriedCall): CallState {
  switch (carried.status) {
    case 'proposed':
    case 'settled':
      return carried;
    case 'cleared':
    case 'approved': {
      const state = sendable(resolvedOf(carried), carried.status === 'approved' ? consentIn(carried) : undefined);
      return carried.held === undefined ? state : { ...state, status: 'throttled', wait: carried.held };
    }
    case 'asking':
      return askingFrom(carried);
    case 'in-flight': {
      const { task, grant, heldInput: questions } = carried;
      const flight = { ...resolvedOf(carried), ...defined({ consent: consentIn(carried), questions, grant }) };
      return task === undefined ? { status: 'in-flight', ...flight } : { status: 'on-task', ...flight, task };
    }
  }
}

function consentIn({ request, made }: { request?: OpenRequest; made?: MadeDecision }): Consent | undefined {
  return request === undefined || made === undefined ? undefined : { request, made };
}

function askingFrom(carried: Extract<CarriedCall, { status: 'asking' }>): CallState {
  const { request, votes, consented: consent, agreed, heldOpen, grant } = carried;
  const { about, ...asked } = request;
  const resolved = resolvedOf(carried);
  if (about === undefined) return { status: 'waiting-for-consent', ...resolved, request: asked, ...defined({ votes }) };
  if (about.kind === 'input' && heldOpen !== undefined) {
    const held = { request: { ...request, about }, questions: heldOpen };
    return { status: 'asking-on-connection', ...resolved, ...held, ...defined({ consent, grant }) };
  }
  const waiting = { request: { ...request, about }, ...defined({ consent, agreed }) };
  return { status: 'waiting-for-answer', ...resolved, ...waiting };
}
