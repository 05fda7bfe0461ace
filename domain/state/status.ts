/** Derives the status of a run, as one word, and how long its open requests have waited. */
import type { RunState, RunStatus } from '../../contracts/schemas/run-state.ts';
import type { Asking, CallState } from './call.ts';
import type { Run } from './run.ts';

export type EndStatus = NonNullable<RunState['endsAs']>;

/** The stage that the workflow is in; `statusOf` refines `acting` by the states of the calls. */
export type Phase = 'preparing' | 'thinking' | 'acting' | EndStatus;

export function askingCalls(run: Run): readonly Asking[] {
  return run.calls.filter((state): state is Asking => state.status === 'asking');
}

/** Returns `waiting` if nothing can happen until a person decides. */
export function statusOf(phase: Phase, run: Run): RunStatus {
  if (phase !== 'acting') return phase;
  const open = run.calls.filter(({ status }) => status !== 'settled');
  return open.length > 0 && open.every(({ status }) => status === 'asking') ? 'waiting' : 'acting';
}

/** Returns the earliest deadline and the earliest opening time of the open requests, in epoch ms. */
export function waitOf(run: Run): { readonly nextDeadline?: number; readonly waitingSince?: number } {
  const asking = askingCalls(run);
  if (asking.length === 0) return {};
  return {
    nextDeadline: Math.min(...asking.map(({ request }) => request.deadline)),
    waitingSince: Math.min(...asking.map(({ request }) => request.openedAt)),
  };
}

export function isSettled(state: CallState): state is Extract<CallState, { status: 'settled' }> {
  return state.status === 'settled';
}
