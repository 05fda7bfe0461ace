/**
 * Defines the state of a run without its journal: small, immutable, and all of it carried through continue-as-new. It
 * also derives the run's status, and how long its open requests have waited.
 *
 * The state owns which calls are open and which answers were accepted. Waiting, activities and the journal belong to
 * others.
 *
 * 1. Calls are independent: a transition of one never touches another (INV-G3).
 * 2. Every transition returns the facts that it adds to the ledger; nothing changes without a fact.
 */
import { defined } from '../../contracts/defined.ts';
import type { ProposedCall } from '../../contracts/schemas/call.ts';
import type { LedgerFact } from '../../contracts/schemas/ledger.ts';
import type { RunState, RunStatus } from '../../contracts/schemas/run-state.ts';
import type { Usage } from '../../contracts/schemas/transcript.ts';
import type { AnsweredPause, Authorized, CarriedRun, Remembered, Settled } from '../../contracts/wire/carry.ts';
import type { ModelStepResult } from '../../contracts/wire/run.ts';
import { type Asking, type CallState, type CallStatus, isAsking } from './call.ts';

export type EndStatus = NonNullable<RunState['endsAs']>;

/** The stage that the workflow is in; `statusOf` refines `acting` by the states of the calls. */
export type Phase = 'preparing' | 'thinking' | 'acting' | EndStatus;

export function askingCalls(run: Run): readonly Asking[] {
  return run.calls.filter(isAsking);
}

/** Returns `waiting` if nothing can happen until a person decides. */
export function statusOf(phase: Phase, run: Run): RunStatus {
  if (phase !== 'acting') return phase;
  const open = run.calls.filter(({ status }) => status !== 'settled');
  return open.length > 0 && open.every(isAsking) ? 'waiting' : 'acting';
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

export function isSettled(state: CallState): state is Settled {
  return state.status === 'settled';
}

/**
 * Says in which Temporal runs of a workflow chain a decision may have been made (INV-G2).
 *
 * 1. A decision counts if it was made in the current run, or in an earlier run of the chain.
 * 2. A run made by a reset starts the list anew: decisions made before the reset do not count.
 */
export interface Execution {
  /** Temporal run id. */
  readonly runId: string;
  /** Differs from `runId` in a run made by a reset (Temporal `WorkflowInfo`). */
  readonly originalRunId: string;
  /** Run ids of the executions before this one, as continue-as-new carried them. */
  readonly earlier: readonly string[];
}

/** Most execution ids that are carried on; a decision made in an older execution is stale. */
const MOST_EARLIER = 200;

/** Returns the ids of the Temporal runs in which a decision counts, oldest first. */
export function decidedIn(execution: Execution): readonly string[] {
  return execution.runId === execution.originalRunId ? [...execution.earlier, execution.runId] : [execution.runId];
}

/** Returns the list that the next execution carries as `earlier`. */
export function carriedExecutions(execution: Execution): readonly string[] {
  return decidedIn(execution).slice(-MOST_EARLIER);
}

export function isPauseAnswer(known: Remembered): known is AnsweredPause {
  return 'answer' in known.ack;
}

export interface RunIds {
  readonly namespace: string;
  readonly workflowId: string;
  readonly tenant: string;
  /** The current Temporal run. The digests that it shows depend on this id. */
  readonly runId: string;
}

/** The record of a run, with its calls in the states that transitions know. */
export interface Run extends Omit<CarriedRun, 'calls'> {
  readonly calls: readonly CallState[];
}

export interface Change {
  readonly run: Run;
  readonly facts: readonly LedgerFact[];
}

/** Number of decision ids that a run remembers; DESIGN "Transcript and size". */
export const MOST_ANSWERED = 1_000;
/** Number of other answers that a run remembers. */
export const MOST_PAUSES_ANSWERED = 200;

/** Remembers an answer, and forgets the oldest of its kind if there are too many. */
export function answeredWith(run: Run, known: Remembered): Run {
  const isAlike = (other: Remembered): boolean => isPauseAnswer(other) === isPauseAnswer(known);
  const isFull = run.answered.filter(isAlike).length >= (isPauseAnswer(known) ? MOST_PAUSES_ANSWERED : MOST_ANSWERED);
  const oldest = isFull ? run.answered.find(isAlike) : undefined;
  return { ...run, answered: [...run.answered.filter((each) => each !== oldest), known] };
}

export function startRun(startedAt: number): Run {
  return {
    startedAt,
    turn: 0,
    calls: [],
    totalCalls: 0,
    usage: { inputTokens: 0, outputTokens: 0 },
    repairs: 0,
    answered: [],
    expired: [],
    queue: [],
    heard: [],
    heardHashes: [],
    refusals: [],
  };
}

/**
 * Opens a turn with the calls that a model step proposed; no calls mean a final answer.
 * @param cost millionths, if the model has a price
 */
export function proposed(run: Run, calls: readonly ProposedCall[], usage: Usage, cost?: number): Change {
  const turn = run.turn + 1;
  return {
    run: {
      ...run,
      turn,
      calls: calls.map((call) => ({ status: 'proposed', call })),
      totalCalls: run.totalCalls + calls.length,
      usage: {
        inputTokens: run.usage.inputTokens + usage.inputTokens,
        outputTokens: run.usage.outputTokens + usage.outputTokens,
      },
      ...(cost === undefined ? {} : { spent: (run.spent ?? 0) + cost }),
    },
    facts: [{ kind: 'turn.proposed', turn, calls: calls.length, usage, ...defined({ cost }) }],
  };
}

export function callOf(run: Run, callId: string): CallState | undefined {
  return run.calls.find(({ call }) => call.callId === callId);
}

/** Returns the run with this call in place of the one with the same id. */
export function replaceCall(run: Run, next: CallState): Run {
  return { ...run, calls: run.calls.map((state) => (state.call.callId === next.call.callId ? next : state)) };
}

/** The call that a transition makes, and the facts that go into the ledger. */
export interface Moved {
  readonly call: CallState;
  readonly facts: readonly LedgerFact[];
}

/** Lifts a transition of one call to the run; a call in another state than these stays as it is. */
export function move<From extends CallStatus>(
  run: Run,
  callId: string,
  from: readonly From[],
  transition: (state: Extract<CallState, { status: From }>) => Moved,
): Change {
  const isFrom = (state: CallState | undefined): state is Extract<CallState, { status: From }> =>
    from.some((status) => status === state?.status);
  const state = callOf(run, callId);
  if (!isFrom(state)) return { run, facts: [] };
  const { call, facts } = transition(state);
  return { run: replaceCall(run, call), facts };
}

/** Counts the one repair turn that a final answer gets if its shape does not fit `agent.output`. */
export function repaired(run: Run): Run {
  return { ...run, repairs: run.repairs + 1 };
}

/** Returns the calls that a model step proposed, in the model's order. */

export function callsOf({ parts, malformed }: Pick<ModelStepResult, 'parts' | 'malformed'>): ProposedCall[] {
  return parts.flatMap((part) => {
    if (part.type !== 'call') return [];
    const { callId, providerCallId, name, approvalRequestId, storedAnswerId } = part;
    const reason = malformed?.[callId];
    return [
      {
        callId,
        providerCallId,
        name,
        arguments: part.arguments,
        ...defined({ malformed: reason, approvalRequestId, storedAnswerId }),
      },
    ];
  });
}

/** Returns the answer that gave a server its newest grant, as a list of none or one. */
export function grantsFor({ grants = [] }: Run, server: string): readonly Authorized[] {
  return grants.filter(({ request }) => request.about.server === server);
}
