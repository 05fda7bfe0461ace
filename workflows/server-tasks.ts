/**
 * Calls that their servers work on as tasks: the run sleeps, asks, and sleeps again; no connection and no slot of a worker is held
 * (docs/adr/0041).
 *
 * 1. Asking executes nothing and is repeated at will; the call itself was sent once (INV-X1).
 * 2. Between two questions the run may hand over. A question that is under way when it does is asked again by the next execution.
 * 3. What is withdrawn, or has had its time, is asked about once more and then cancelled at its server, as far as that listens. So is
 *    what a stopped run lets finish, once its history has no more room: such a run cannot hand over.
 */
import { ActivityFailure, TimeoutFailure, TimeoutType } from '@temporalio/common';
import { CancellationScope, condition, isCancellation, workflowInfo } from '@temporalio/workflow';
import type { DispatchResult } from '../contracts/dispatch.ts';
import { codedFailureIn } from '../contracts/failure.ts';
import type { PollInput, PollResult } from '../contracts/server-task.ts';
import { givenGrant } from '../domain/authorization.ts';
import { resultRoom } from '../domain/limits.ts';
import { summaryOf } from '../domain/present.ts';
import { callOf } from '../domain/run.ts';
import { isOnTask, isOverdue, isTooLong, type OnTask, taskAsked } from '../domain/server-task.ts';
import { pollActivities } from './activity-stubs.ts';
import { serverOf } from './dispatch-input.ts';
import type { LiveRun } from './live-run.ts';
import { wantsToRoll } from './roll.ts';
import { answered, assertFailure } from './unread.ts';

/** Longer than a question takes that no worker answers. */
const MOST_PATIENCE_MS = 900_000;

type Ended = Extract<DispatchResult, { kind: 'ended' }>;

/** What became of it; undefined where the run hands over before anything did. */
export async function followTask(live: LiveRun, callId: string): Promise<Ended | undefined> {
  for (;;) {
    const state = callOf(live.run, callId);
    if (state === undefined || !isOnTask(state) || live.rolling) return undefined;
    let giveUp = await wait(live, state);
    if (giveUp === undefined && mayHandOver(live) && !isOverdue(state, Date.now()))
      giveUp = await untilHandedOver(live, state);
    if (live.rolling) return undefined;
    if (giveUp === undefined && live.work.consideredCancelled && isTooLong(workflowInfo())) giveUp = 'withdrawn';
    if (giveUp === undefined && isOverdue(state, Date.now())) giveUp = 'time';
    let said: PollResult;
    live.polling.add(callId);
    try {
      said = await ask(live, state, giveUp);
    } finally {
      live.polling.delete(callId);
    }
    if (said.kind === 'ended') return endedAs(state, said);
    live.commit(taskAsked(live.run, callId, said, Date.now()));
  }
}

/** Until its next time. `withdrawn`: nobody waits for it any longer. */
async function wait(live: LiveRun, state: OnTask): Promise<PollInput['giveUp']> {
  const isOver = (): boolean => live.rolling || live.timeIsUp;
  const left = Math.max(1, state.task.next - Date.now());
  const summary = summaryOf(state, 'worked on by its server as a task');
  try {
    // As with calls in flight: a stop that lets them finish lets a task finish, too.
    await live.flights.run(() => condition(isOver, left, { summary }));
  } catch (error) {
    if (!isCancellation(error)) throw error;
    return 'withdrawn';
  }
  return live.timeIsUp ? 'withdrawn' : undefined;
}

/** One that was stopped does not any more. */
function mayHandOver(live: LiveRun): boolean {
  return !live.rolling && !live.work.consideredCancelled && wantsToRoll(live);
}

/**
 * Where the run should continue as new no question is begun: of several tasks that are asked at different times, one would always be
 * asked about. Bounded, so that a call in flight beside them does not keep tasks from being looked at.
 */
async function untilHandedOver(live: LiveRun, { task }: OnTask): Promise<PollInput['giveUp']> {
  const isOver = (): boolean => live.rolling || live.timeIsUp || live.work.consideredCancelled;
  const left = Math.max(1, Math.min(task.until - Date.now(), MOST_PATIENCE_MS));
  try {
    await live.flights.run(() => condition(isOver, left, { summary: 'the run hands over before it asks again' }));
  } catch (error) {
    if (!isCancellation(error)) throw error;
    return 'withdrawn';
  }
  return live.timeIsUp ? 'withdrawn' : undefined;
}

async function ask(live: LiveRun, state: OnTask, giveUp: PollInput['giveUp']): Promise<PollResult> {
  if (giveUp === undefined) {
    try {
      return await live.flights.run(() => poll(live, state));
    } catch (error) {
      assertFailure(error);
      if (!isCancellation(error)) return { kind: 'unreached', message: reasonIn(error) };
      giveUp = 'withdrawn';
    }
  }
  try {
    return await CancellationScope.nonCancellable(() => poll(live, state, giveUp));
  } catch (error) {
    assertFailure(error);
    const { server, tool } = state.judgement.target;
    const message = `Tool "${tool}" of server "${server}" was begun as a task and may or may not have run, and no worker could ask the server to cancel it: ${reasonIn(error)}`;
    return { kind: 'ended', outcome: { kind: 'unknown', code: 'OUTCOME_UNKNOWN', message } };
  }
}

async function poll(live: LiveRun, before: OnTask, giveUp?: PollInput['giveUp']): Promise<PollResult> {
  // While the run slept another grant may have come, and with it the call was given the one that it was sent with.
  const now = callOf(live.run, before.call.callId);
  const state = now !== undefined && isOnTask(now) ? now : before;
  const { call, judgement, attempts, task } = state;
  const { spec, prepared } = live;
  const server = serverOf(live, state);
  const own = spec.grants?.find((entry) => entry.server === server.name);
  const given = givenGrant(live.run, state);
  const grants = [own, given].filter((grant) => grant !== undefined);
  const about = giveUp === undefined ? `task, question ${task.polls + 1}` : 'task, given up';
  const { pollTask } = pollActivities(server, summaryOf(state, about), prepared.priority, giveUp !== undefined);
  const answer = await pollTask({
    run: live.identity,
    callId: call.callId,
    attempt: attempts,
    name: call.name,
    target: judgement.target,
    server,
    sealed: task.sealed,
    ...(grants.length === 0 ? {} : { grants }),
    toolset: live.toolset,
    limits: resultRoom(prepared.limits, live.run.calls),
    ...(giveUp === undefined ? {} : { giveUp }),
  });
  return answered(live, 'pollTask', answer);
}

function endedAs({ task }: OnTask, { outcome }: Extract<PollResult, { kind: 'ended' }>): Ended {
  return {
    kind: 'ended',
    outcome,
    ...(task.token === undefined ? {} : { token: task.token }),
    sent: { at: new Date(task.since).toISOString() },
  };
}

function reasonIn(error: unknown): string {
  const cause = error instanceof ActivityFailure ? error.cause : undefined;
  if (cause instanceof TimeoutFailure && cause.timeoutType === TimeoutType.SCHEDULE_TO_START)
    return 'No worker took the question.';
  return codedFailureIn(error)?.message ?? 'The worker was lost while it asked.';
}
