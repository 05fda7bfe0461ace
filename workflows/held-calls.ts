/** Calls whose server takes no more just now: they wait by timer, and no slot of a worker is kept for them (docs/adr/0037). */
import { condition, isCancellation } from '@temporalio/workflow';
import { ended } from '../domain/call-changes.ts';
import { callOf } from '../domain/run.ts';
import { type Held, type Holding, heldBack, waitedOut } from '../domain/held.ts';
import type { InFlight } from '../domain/call-state.ts';
import { summaryOf } from '../domain/present.ts';
import { interrupted } from '../domain/talk.ts';
import type { LiveRun } from './live-run.ts';

/** What the dispatch said counts: waits again, or waited long enough. */
export function hold(live: LiveRun, flight: InFlight, holding: Holding): void {
  const { callId } = flight.call;
  const why = waitedOut(flight, holding, Date.now());
  if (why === undefined) {
    live.commit(heldBack(live.run, callId, holding, Date.now()));
    live.commit(interrupted(live.run));
  } else live.commit(ended(live.run, callId, { kind: 'failed', code: holding.code, message: why, executed: false }));
}

/** Until its time, or what let it run is taken back, or the run hands over: the next execution waits for the rest. */
export async function waitForTurn(live: LiveRun, state: Held): Promise<void> {
  const { callId } = state.call;
  const { until, by } = state.held;
  const isOver = (): boolean => {
    const { status } = callOf(live.run, callId) ?? {};
    return live.rolling || (status !== 'cleared' && status !== 'approved');
  };
  try {
    await condition(isOver, Math.max(1, until - Date.now()), { summary: summaryOf(state, `held back: ${by}`) });
  } catch (error) {
    if (!isCancellation(error)) throw error;
    live.commit(ended(live.run, callId, live.withdrawal));
  }
}
