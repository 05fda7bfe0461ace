/**
 * The state of a run, apart from its journal: small, immutable, and all of it carried through continue-as-new.
 *
 * Owns: which calls are open and what was answered. Does not own: waiting, activities, the journal.
 * 1. Calls are independent: a transition of one never touches another (INV-G3).
 * 2. Every transition returns the facts that it adds to the ledger; nothing changes without one.
 */
import type { DecisionAck, ForgetAck, PauseAck, Say, SignedDecision, Stop } from '../../contracts/schemas/answer.ts';
import type { Outcome, ProposedCall, ToolTarget } from '../../contracts/schemas/call.ts';
import type { JsonObject } from '../../contracts/schemas/json.ts';
import type { LedgerFact } from '../../contracts/schemas/ledger.ts';
import type { ApproverRule } from '../../contracts/schemas/policy.ts';
import type { Tally } from '../../contracts/schemas/run-state.ts';
import type { Usage } from '../../contracts/schemas/transcript.ts';
import type { ModelStepResult } from '../../contracts/wire/run.ts';
import type { Authorized, CallState } from './call.ts';

/** A decision that was accepted, kept so that the same one gets the same answer (INV-D3). */
export type Answered =
  | {
      readonly ack: DecisionAck;
      /** Hash of all that it says. */
      readonly message: string;
    }
  /** Of a run that was prepared by an earlier release: it compares less. */
  | {
      readonly ack: DecisionAck;
      readonly digest: string;
      /** Hash of what else it says: other arguments, or an answer. */
      readonly content?: string;
    };

/** The same for an answer to a request about something else than consent. */
export interface AnsweredPause {
  readonly ack: PauseAck;
  /** Hash of all that it says. */
  readonly content: string;
}

export interface RunIds {
  readonly namespace: string;
  readonly workflowId: string;
  readonly tenant: string;
  /** The current Temporal run; digests shown in it depend on it. */
  readonly runId: string;
}

export interface Run {
  /** Epoch ms of the first execution's start. */
  readonly startedAt: number;
  readonly turn: number;
  readonly calls: readonly CallState[];
  readonly totalCalls: number;
  readonly usage: Usage;
  /** Millionths; absent where the model has no price. */
  readonly spent?: number;
  readonly repairs: number;
  readonly answered: readonly Answered[];
  /** A decision id stands for one decision with all that it says; absent where comments and reasons are not compared. */
  readonly decisionIds?: 'compared';
  /** Absent where nothing but consent was asked so far. */
  readonly resumed?: readonly AnsweredPause[];
  /** Grants that took the place of the run's own, one for each server. */
  readonly grants?: readonly Authorized[];
  /** Requests whose deadline passed, kept so that a late decision is told why it is refused. */
  readonly expired: readonly { readonly callId: string; readonly deadline: string }[];
  readonly queue: readonly Say[];
  readonly heard: readonly string[];
  /** Of what was heard, in the order of `heard`; absent where messages of one id are not compared. */
  readonly heardHashes?: readonly string[];
  readonly stop?: Stop;
  /** What repeats are answered; absent where they are asked. */
  readonly refusals?: readonly RefusedCall[];
  /** Of the turns that are over, where some rule asks for it. */
  readonly tally?: Tally;
  /** Resources that results have linked to, the newest last; absent where none may be read. */
  readonly links?: readonly Link[];
  /** Approvals that answer later calls, too. */
  readonly standing?: readonly Standing[];
  /** Those that were taken back, the newest. */
  readonly forgotten?: readonly ForgetAck[];
}

export interface Change {
  readonly run: Run;
  readonly facts: readonly LedgerFact[];
}

/** Decision ids that are remembered; DESIGN "Transcript and size". */
export const MOST_ANSWERED = 1_000;

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
  };
}

/** A model step ended with these calls (none: a final answer). @param cost millionths, where the model has a price */
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
    facts: [{ kind: 'turn.proposed', turn, calls: calls.length, usage, ...(cost === undefined ? {} : { cost }) }],
  };
}

export function callOf(run: Run, callId: string): CallState | undefined {
  return run.calls.find(({ call }) => call.callId === callId);
}

export function replaceCall(run: Run, next: CallState): Run {
  return { ...run, calls: run.calls.map((state) => (state.call.callId === next.call.callId ? next : state)) };
}

/** The one repair turn of a final answer that does not fit `agent.output` was taken. */
export function repaired(run: Run): Run {
  return { ...run, repairs: run.repairs + 1 };
}

// The calls that a model step proposed, in its order.

export function callsOf({ parts, malformed }: Pick<ModelStepResult, 'parts' | 'malformed'>): ProposedCall[] {
  return parts.flatMap((part) => {
    if (part.type !== 'call') return [];
    const { callId, providerCallId, name } = part;
    const reason = malformed?.[callId];
    return [
      {
        callId,
        providerCallId,
        name,
        arguments: part.arguments,
        ...(reason === undefined ? {} : { malformed: reason }),
      },
    ];
  });
}

/** `deadline` and `decidedAt` are epoch ms. */
export interface Standing {
  /** That of the decision that settled the request. */
  readonly id: string;
  readonly callId: string;
  readonly target: ToolTarget;
  readonly generation: number;
  readonly arguments: JsonObject;
  readonly approvers: ApproverRule;
  readonly deadline: number;
  readonly decidedAt: number;
  /** Without what was said with them. */
  readonly decisions: readonly SignedDecision[];
  /** Places in `arguments` that are not shown in passing, as of when they were judged. */
  readonly redact?: readonly string[];
  readonly connection?: string;
  readonly grant?: string;
}

/** A resource that a result has named. */
export interface Link {
  readonly server: string;
  readonly uri: string;
  /** Message of the transcript that holds the result. */
  readonly at: number;
}

/** How a call was refused, and what its repeats are answered. */
export interface RefusedCall {
  /** Of server, tool and canonical arguments. */
  readonly key: string;
  readonly outcome: Extract<Outcome, { kind: 'rejected' | 'denied' }>;
}
