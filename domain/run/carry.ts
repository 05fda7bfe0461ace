/**
 * An execution hands this state to the next one at continue-as-new, for the reasons named here.
 *
 * The reasons apply to runs and catalogs alike. `workflows/run/roll.ts` does the handing over.
 *
 * The recorded shape stays as it is; `toCarry` and `fromCarry` stand between it and the run, so that the names of
 * `domain/state` are free.
 *
 * 1. A run carries only what cannot be read elsewhere: heads and references, open calls, remembered answers.
 */
import type { PreparedRun } from '../../contracts/wire/run.ts';
import { defined } from '../../contracts/defined.ts';
import type {
  Approved,
  AskingOnConnection,
  CallState,
  Cleared,
  Consent,
  InFlight,
  MadeDecision,
  OnTask,
  OpenRequest,
  Proposed,
  QuestionProgress,
  Resolved,
  Settled,
  Vote,
  Wait,
  WaitingForAnswer,
} from '../state/call.ts';
import { requestOf, resolvedOf, sendable } from '../state/call.ts';
import type { JournalHead } from './journal.ts';
import { type AnsweredDecision, type AnsweredPause, isPauseAnswer, type Run } from '../state/run.ts';
import type { ToolsetRef } from '../../contracts/wire/identity.ts';

/** Version of a carry without pauses. A changed shape raises the version; an execution refuses an unknown version. */
export const CARRY_VERSION = 1;
/**
 * Version of a carry that holds requests for something other than consent. An older build would take an answer to such
 * a request for an approval.
 */
export const PAUSED_CARRY_VERSION = 2;
/** Version of a carry that holds tasks of servers. An older build would end such calls before any marker stops it. */
export const TASK_CARRY_VERSION = 3;

export const CARRY_VERSIONS = [CARRY_VERSION, PAUSED_CARRY_VERSION, TASK_CARRY_VERSION] as const;

export interface Carry {
  readonly version: (typeof CARRY_VERSIONS)[number];
  readonly prepared: Omit<PreparedRun, 'opening'>;
  readonly toolset: readonly ToolsetRef[];
  readonly run: CarriedRun;
  readonly journal: JournalHead;
  /** Temporal run ids of earlier executions, see `domain/state/run.ts`. */
  readonly earlier: readonly string[];
  /** Time of the last read of the trust set, epoch ms; only in trust mode `signed`. */
  readonly trustReadAt?: number;
}

/** Decisions and other answers are recorded apart; `resumed` is absent if there are none. */
export type CarriedRun = Omit<Run, 'calls' | 'answered'> & {
  readonly calls: readonly CarriedCall[];
  readonly answered: readonly AnsweredDecision[];
  readonly resumed?: readonly AnsweredPause[];
};

/** A call as it is recorded: six statuses, of which some stand for several states. */
type CarriedCall =
  | Proposed
  | Settled
  | (Resolved & { readonly status: 'cleared'; readonly held?: Wait })
  | (Resolved & { readonly status: 'approved'; readonly held?: Wait } & Consent)
  | (Resolved & {
      readonly status: 'asking';
      readonly request: OpenRequest;
      readonly votes?: readonly Vote[];
      readonly consented?: Consent;
      readonly agreed?: NonNullable<WaitingForAnswer['agreed']>;
      readonly heldOpen?: AskingOnConnection['questions'];
    })
  | (Resolved & {
      readonly status: 'in-flight';
      readonly request?: OpenRequest;
      readonly made?: MadeDecision;
      readonly task?: OnTask['task'];
      readonly heldInput?: QuestionProgress;
      readonly grant?: NonNullable<InFlight['grant']>;
    });

/** Returns the run as it is carried, and the version of its shape. */
export function toCarry(run: Run): { readonly version: Carry['version']; readonly run: CarriedRun } {
  const resumed = run.answered.filter(isPauseAnswer);
  return {
    version: carryVersionOf(run),
    run: {
      ...run,
      calls: run.calls.map(carriedCall),
      answered: run.answered.filter((each): each is AnsweredDecision => !isPauseAnswer(each)),
      ...(resumed.length === 0 ? {} : { resumed }),
    },
  };
}

export function fromCarry({ calls, answered, resumed = [], ...run }: CarriedRun): Run {
  const inOrder = [...answered, ...resumed].sort(({ ack: one }, { ack: other }) =>
    one.decidedAt < other.decidedAt ? -1 : Number(one.decidedAt > other.decidedAt),
  );
  return { ...run, calls: calls.map(callFrom), answered: inOrder };
}

function carryVersionOf({ calls, grants }: Run): Carry['version'] {
  if (calls.some(({ status }) => status === 'on-task')) return TASK_CARRY_VERSION;
  return grants !== undefined || calls.some(wasPaused) ? PAUSED_CARRY_VERSION : CARRY_VERSION;
}

/** True if a call was ever paused. A settled call has no open question and does not count. */
function wasPaused(state: CallState): boolean {
  if (state.status === 'settled' || state.status === 'proposed') return false;
  const { asked, retry, input, authorized } = state;
  return [requestOf(state)?.about, asked, retry, input, authorized].some((each) => each !== undefined);
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
  const { request, votes, consented: consent, agreed, heldOpen } = carried;
  const { about, ...asked } = request;
  const resolved = resolvedOf(carried);
  if (about === undefined) return { status: 'waiting-for-consent', ...resolved, request: asked, ...defined({ votes }) };
  if (about.kind === 'input' && heldOpen !== undefined) {
    const held = { request: { ...request, about }, questions: heldOpen };
    return { status: 'asking-on-connection', ...resolved, ...held, ...defined({ consent }) };
  }
  const waiting = { request: { ...request, about }, ...defined({ consent, agreed }) };
  return { status: 'waiting-for-answer', ...resolved, ...waiting };
}

// An execution hands over for one of these reasons, within these bounds.

/**
 * Temporal ends a run at 2,000 updates and suggests a new one at 1,800; the lower bound leaves room for those under
 * way.
 */
export const MOST_UPDATES = 1_500;

/** Everything that an execution has used up so far. */
export interface Taken {
  /** Set if a `nudge` signal asked for a new execution. */
  readonly nudged: boolean;
  readonly updates: number;
  /** Turns of this execution and their bound; absent for a catalog, and before the run is prepared. */
  readonly turns?: { readonly had: number; readonly most: number };
  /** Temporal's own suggestion, because of the length of the history. */
  readonly suggested: boolean;
}

export type RollReason = 'nudge' | 'updates' | 'turns' | 'history';

export function rollReason({ nudged, updates, turns, suggested }: Taken): RollReason | undefined {
  if (nudged) return 'nudge';
  if (updates >= MOST_UPDATES) return 'updates';
  if (turns !== undefined && turns.had >= turns.most) return 'turns';
  return suggested ? 'history' : undefined;
}
