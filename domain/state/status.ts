/** Where a run is, in one word, and what of it waits. */
import type { RunState, RunStatus } from '../../contracts/schemas/run-state.ts';
import type { Asking, CallState } from './call.ts';
import type { Run } from './run.ts';

export type EndStatus = NonNullable<RunState['endsAs']>;

/** What the workflow is at; the rest is told by its calls. */
export type Phase = 'preparing' | 'thinking' | 'acting' | EndStatus;

export function askingCalls(run: Run): readonly Asking[] {
  return run.calls.filter((state): state is Asking => state.status === 'asking');
}

/** `waiting` where nothing can happen until somebody decides. */
export function statusOf(phase: Phase, run: Run): RunStatus {
  if (phase !== 'acting') return phase;
  const open = run.calls.filter(({ status }) => status !== 'settled');
  return open.length > 0 && open.every(({ status }) => status === 'asking') ? 'waiting' : 'acting';
}

/** Earliest deadline and longest wait of the open requests, epoch ms. */
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
