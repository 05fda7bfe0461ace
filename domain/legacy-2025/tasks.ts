/**
 * When a call that a server of MCP 2025-11-25 works on as a task is polled and given up (docs/adr/0041).
 * `activities/gate/legacy-2025/poll-task.ts` polls, and `workflows/legacy-2025/tasks.ts` waits.
 *
 * 1. Only the result of an activity makes a call a task.
 * 2. The run bounds the poll rate, whatever the server wants: each poll is eleven events of history.
 * 3. Time alone bounds a task. A task that has not ended by then has an unknown outcome.
 */
import { defined } from '../../contracts/defined.ts';
import type { RunningTask } from '../../contracts/schemas/legacy-2025.ts';
import type { ServerTask } from '../../contracts/wire/carry.ts';
import type { PollResult } from '../../contracts/wire/legacy-2025.ts';
import type { DispatchResult } from '../../contracts/wire/tools.ts';
import { type Change, move, type OnTask, type Run } from '../state/run.ts';

type Begun = Extract<DispatchResult, { kind: 'task' }>;
type HistorySize = Readonly<Record<'historyLength' | 'historySize', number>>;
type GoesOn = Exclude<PollResult, { kind: 'ended' }>;

const SHORTEST_MS = 1_000;
const LONGEST_MS = 300_000;
/** Poll interval for a server that names none. */
const DEFAULT_MS = 5_000;
/** Temporal ends an execution at 51,200 events or 50 MiB; the rest is for the last polls, and the end of the run. */
const MOST_EVENTS = 40_000;
const MOST_BYTES = 40 * 1_048_576;
/** Divisor of the time that the task has taken so far: a result waits at most a fifth of its task's duration. */
const SHARE = 5;

/** Records that the server works on the call as a task. @param now epoch ms */
export function taskBegun(run: Run, callId: string, { task, token }: Begun, now: number): Change {
  const { sealed, sentAt, until, pollMs, message } = task;
  const begun = {
    sealed,
    since: Date.parse(sentAt),
    until: Date.parse(until),
    polls: 0,
    ...defined({ pollMs, message, token }),
  };
  return move(run, callId, ['in-flight'], (state) => ({
    call: { ...state, status: 'on-task', task: { ...begun, next: nextQuestion(begun, now) } },
    facts: [{ kind: 'task.begun', callId, attempt: state.attempts, until }],
  }));
}

/** Records a poll that found the task running, or the server out of reach; that is no fact. @param now epoch ms */
export function taskAsked(run: Run, callId: string, said: GoesOn, now: number): Change {
  return move(run, callId, ['on-task'], (state) => {
    const { message: _, ...before } = state.task;
    const { message } = said;
    const pollMs = (said.kind === 'working' ? said.pollMs : undefined) ?? before.pollMs;
    const least = said.kind === 'unreached' ? said.retryAfterMs : undefined;
    const task = { ...before, polls: before.polls + 1, ...defined({ pollMs, message }) };
    return { call: { ...state, task: { ...task, next: nextQuestion(task, now, least) } }, facts: [] };
  });
}

/** Time of the next poll, epoch ms. Polls become more frequent before the end, so that no result is missed. */
function nextQuestion(
  { since, until, pollMs = DEFAULT_MS }: Pick<ServerTask, 'since' | 'until' | 'pollMs'>,
  now: number,
  least = 0,
): number {
  const wanted = Math.min(Math.max(pollMs, (now - since) / SHARE, least), LONGEST_MS);
  const wait = Math.max(SHORTEST_MS, Math.min(wanted, (until - now) / 2));
  return Math.max(now + 1, Math.min(Math.round(now + wait), until));
}

export function isOverdue({ task }: OnTask, now: number): boolean {
  return now >= task.until;
}

/** True if an execution that has no next one has no room for more polls. */
export function isTooLong({ historyLength, historySize }: HistorySize): boolean {
  return historyLength >= MOST_EVENTS || historySize >= MOST_BYTES;
}

export function tasksOf({ calls }: Run): readonly OnTask[] {
  return calls.filter((state) => state.status === 'on-task');
}

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
    ...defined({ message }),
  };
}
