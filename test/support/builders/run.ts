import type { Judgement, ProposedCall } from '../../../contracts/schemas/call.ts';
import type { RunState } from '../../../contracts/schemas/run-state.ts';
import { judgedAll } from '../../../domain/run/turn.ts';
import { proposed, type Run, type RunIds, startRun } from '../../../domain/state/run.ts';
import { identicalCalls } from './call.ts';
import { judgement } from './judgement.ts';

/** 2026-01-01T00:00:00.000Z: the start of every built run. */
export const START = Date.UTC(2026, 0, 1);

export const POLICY_VERSION = 'b'.repeat(64);

export function runIds(over: Partial<RunIds> = {}): RunIds {
  return { namespace: 'default', workflowId: 'run/1', tenant: 'default', runId: 'run-1', ...over };
}

const NO_USAGE = { inputTokens: 0, outputTokens: 0 };

/** Makes a run whose first turn proposed `calls`; nothing is judged yet. */
export function proposedRun(calls: readonly ProposedCall[]): Run {
  return proposed(startRun(START), calls, NO_USAGE).run;
}

/** Makes a run whose first turn was judged at `START`; each call is asked unless `over` says otherwise. */
export function judgedRun(
  calls: readonly ProposedCall[] = identicalCalls(1),
  over: (call: ProposedCall, index: number) => Partial<Judgement> = () => ({}),
): Run {
  const judgements = calls.map((call, index) => judgement({ callId: call.callId, ...over(call, index) }));
  return judgedAll(proposedRun(calls), judgements, POLICY_VERSION, runIds(), START).run;
}

/** Makes a run with `count` open requests for one tool with equal arguments. */
export function askingRun(count = 1): Run {
  return judgedRun(identicalCalls(count));
}

/** Makes the state of a run that waits, as the `state` query shows it. */
export function runState(over: Partial<RunState> = {}): RunState {
  return {
    workflowId: 'run-1',
    runId: 'r',
    status: 'waiting',
    turn: 1,
    pending: 1,
    usage: { inputTokens: 1, outputTokens: 1 },
    calls: 1,
    ledgerLength: 1,
    ledgerHead: 'a'.repeat(64),
    transcriptLength: 1,
    ledgerFrom: 0,
    transcriptFrom: 0,
    ...over,
  };
}
