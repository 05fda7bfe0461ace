/**
 * Calls that their servers work on as tasks: when a server is asked how far one is, and when it is given up (docs/adr/0041).
 *
 * Pure. Does not own asking (`activities/tools/poll-task.ts`), nor waiting (`workflows/server-tasks.ts`).
 *
 * 1. Only what an activity says makes a task of a call: runs of earlier releases have none, and replay as they were.
 * 2. How often a server is asked is ours to say, whatever it wants: each question is eleven events of history.
 * 3. A task is bounded by time alone. What has not ended by then is not known.
 */
import type { DispatchResult } from '../contracts/dispatch.ts';
import type { RunningTask } from '../contracts/schemas/server-task.ts';
import type { PollResult } from '../contracts/server-task.ts';
import type { CallState, InFlight, ServerTask } from './call-state.ts';
import { isFiniteNumber } from './field-checks.ts';
import { isInstant } from './messages.ts';
import { callOf, type Change, replaceCall, type Run } from './run.ts';

export type OnTask = InFlight & { readonly task: ServerTask };
type Begun = Extract<DispatchResult, { kind: 'task' }>;
/** Events, and bytes. */
interface HistorySize {
  readonly historyLength: number;
  readonly historySize: number;
}
type GoesOn = Exclude<PollResult, { kind: 'ended' }>;

const SHORTEST_MS = 1_000;
const LONGEST_MS = 300_000;
/** Where the server says nothing of it. */
const DEFAULT_MS = 5_000;
/** Temporal ends an execution at 51,200 events or 50 MiB; what is left holds the last questions of all tasks, and the end of the run. */
const MOST_EVENTS = 40_000;
const MOST_BYTES = 40 * 1_048_576;
/** Of the time that it has taken so far: a result waits no longer than a fifth of what its task took. */
const SHARE = 5;

export function isOnTask(state: CallState): state is OnTask {
  return state.status === 'in-flight' && state.task !== undefined;
}

/** The server has made a task of the call. @param now epoch ms */
export function taskBegun(run: Run, callId: string, { task, token }: Begun, now: number): Change {
  const state = callOf(run, callId);
  if (state?.status !== 'in-flight') return { run, facts: [] };
  const { sealed, pollMs, message } = task;
  const sentAt = instantOr(task.sentAt, now);
  const until = instantOr(task.until, now);
  const begun = {
    sealed,
    since: Date.parse(sentAt),
    until: Date.parse(until),
    polls: 0,
    ...(isFiniteNumber(pollMs) ? { pollMs } : {}),
    ...(typeof message === 'string' ? { message } : {}),
    ...(token === undefined ? {} : { token }),
  };
  const next = { ...state, task: { ...begun, next: nextQuestion(begun, now) } };
  return { run: replaceCall(run, next), facts: [{ kind: 'task.begun', callId, attempt: state.attempts, until }] };
}

/** Whoever may write to the namespace can say what a worker says: what is no time is now, so that such a task is given up at once. */
function instantOr(said: string, now: number): string {
  return isInstant(said) ? said : new Date(now).toISOString();
}

/** It goes on, or could not be asked about: without a fact, since nothing has become of it. @param now epoch ms */
export function taskAsked(run: Run, callId: string, said: GoesOn, now: number): Change {
  const state = callOf(run, callId);
  if (state === undefined || !isOnTask(state)) return { run, facts: [] };
  const { message: _, ...before } = state.task;
  const { message } = said;
  const pollMs = said.kind === 'working' ? (said.pollMs ?? before.pollMs) : before.pollMs;
  const least = said.kind === 'unreached' ? (said.retryAfterMs ?? 0) : 0;
  const task = {
    ...before,
    polls: before.polls + 1,
    ...(pollMs === undefined ? {} : { pollMs }),
    ...(message === undefined ? {} : { message }),
  };
  const next = { ...state, task: { ...task, next: nextQuestion(task, now, least) } };
  return { run: replaceCall(run, next), facts: [] };
}

/** Epoch ms. Before it is given up it is asked about more often again: a result that is there should not be missed. */
function nextQuestion(
  { since, until, pollMs = DEFAULT_MS }: Pick<ServerTask, 'since' | 'until' | 'pollMs'>,
  now: number,
  least = 0,
): number {
  const wanted = Math.min(Math.max(pollMs, (now - since) / SHARE, least), LONGEST_MS);
  const wait = Math.max(SHORTEST_MS, Math.min(wanted, (until - now) / 2));
  return Math.max(now + 1, Math.min(Math.round(now + wait), until));
}

/** Is it given up now, whatever the server says? */
export function isOverdue({ task }: OnTask, now: number): boolean {
  return now >= task.until;
}

/** Is there no room for more questions? Of an execution that has no next one. */
export function isTooLong({ historyLength, historySize }: HistorySize): boolean {
  return historyLength >= MOST_EVENTS || historySize >= MOST_BYTES;
}

export function tasksOf({ calls }: Run): readonly OnTask[] {
  return calls.filter(isOnTask);
}

/** As people read it. */
export function shownTask({ call, judgement, task }: OnTask): RunningTask {
  const { server, tool } = judgement.target;
  const { since, next, until, polls, message } = task;
  return {
    callId: call.callId,
    server,
    tool,
    since: new Date(since).toISOString(),
    next: new Date(next).toISOString(),
    until: new Date(until).toISOString(),
    polls,
    ...(message === undefined ? {} : { message }),
  };
}
