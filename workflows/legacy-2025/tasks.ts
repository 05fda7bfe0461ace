/**
 * Follows calls that their servers work on as tasks. The run sleeps and polls in turn, and holds no connection or
 * worker slot meanwhile (docs/adr/0041).
 *
 * 1. A poll executes nothing and may be repeated; the call itself was sent once (INV-X1).
 * 2. Between two polls the run may hand over. A poll that is then under way is repeated by the next execution.
 * 3. A withdrawn task, or one whose time is over, is polled once more and then cancelled at its server, as far as the
 *    server listens. The same happens to a task that a stopped run lets finish, once its history has no more room: such
 *    a run cannot hand over.
 */
import { ActivityFailure, TimeoutFailure, TimeoutType } from '@temporalio/common';
import { CancellationScope, isCancellation, workflowInfo } from '@temporalio/workflow';
import { defined } from '../../contracts/defined.ts';
import { codedFailureIn } from '../../contracts/failure.ts';
import type { PollInput, PollResult } from '../../contracts/wire/legacy-2025.ts';
import type { DispatchResult } from '../../contracts/wire/tools.ts';
import { isOverdue, isTooLong, taskAsked } from '../../domain/legacy-2025/tasks.ts';
import { givenGrant } from '../../domain/request/authorization.ts';
import { resultRoom } from '../../domain/run/limits.ts';
import { callOf, type OnTask } from '../../domain/state/run.ts';
import { summaryOf } from '../../domain/views/temporal-ui.ts';
import { answered, assertFailure } from '../entity/unread.ts';
import { pollActivities } from '../run/activities.ts';
import { serverOf } from '../run/dispatch-input.ts';
import type { LiveRun } from '../run/live-run.ts';
import { condition } from '../interceptors/condition.ts';

/** Longer than a poll takes that no worker answers. */
const MOST_PATIENCE_MS = 900_000;

type Ended = Extract<DispatchResult, { kind: 'ended' }>;

/** Returns what became of the task; undefined if the run hands over first. */
export async function followTask(live: LiveRun, callId: string): Promise<Ended | undefined> {
  for (;;) {
    const state = callOf(live.run, callId);
    if (state?.status !== 'on-task' || live.rolling) return undefined;
    let giveUp = await wait(live, state);
    const mayHandOver = !live.rolling && !live.work.consideredCancelled && live.reasonToRoll !== undefined;
    if (giveUp === undefined && mayHandOver && !isOverdue(state, Date.now()))
      giveUp = await untilHandedOver(live, state);
    if (live.rolling) return undefined;
    if (giveUp === undefined && live.work.consideredCancelled && isTooLong(workflowInfo())) giveUp = 'withdrawn';
    if (giveUp === undefined && isOverdue(state, Date.now())) giveUp = 'time';
    const said = await live.polling.during(callId, () => ask(live, state, giveUp));
    if (said.kind === 'ended') return endedAs(state, said);
    live.commit(taskAsked(live.run, callId, said, Date.now()));
  }
}

/** Waits until the next poll is due. `withdrawn` means that nobody waits for the task any longer. */
function wait(live: LiveRun, state: OnTask): Promise<PollInput['giveUp']> {
  const isOver = (): boolean => live.rolling || live.timeIsUp;
  return rest(live, isOver, state.task.next - Date.now(), summaryOf(state, 'worked on by its server as a task'));
}

/**
 * Begins no poll while the run should continue as new: with several tasks polled at different times, one poll would
 * always be under way. The wait is bounded, so that a call in flight beside the tasks does not keep them from being
 * polled.
 */
function untilHandedOver(live: LiveRun, { task }: OnTask): Promise<PollInput['giveUp']> {
  const isOver = (): boolean => live.rolling || live.timeIsUp || live.work.consideredCancelled;
  const left = Math.min(task.until - Date.now(), MOST_PATIENCE_MS);
  return rest(live, isOver, left, 'the run hands over before it asks again');
}

async function rest(
  live: LiveRun,
  isOver: () => boolean,
  leftMs: number,
  summary: string,
): Promise<PollInput['giveUp']> {
  try {
    // A stop that lets calls in flight finish lets a task finish too.
    await live.flights.run(() => condition(isOver, Math.max(1, leftMs), { summary }));
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
  // A new grant may have come while the run slept. The state then also names the grant with which the call was sent.
  const now = callOf(live.run, before.call.callId);
  const state = now?.status === 'on-task' ? now : before;
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
    ...defined({ giveUp }),
  });
  return answered(live, 'pollTask', answer);
}

function endedAs({ task }: OnTask, { outcome }: Extract<PollResult, { kind: 'ended' }>): Ended {
  return {
    kind: 'ended',
    outcome,
    ...defined({ token: task.token }),
    sent: { at: new Date(task.since).toISOString() },
  };
}

function reasonIn(error: unknown): string {
  const cause = error instanceof ActivityFailure ? error.cause : undefined;
  if (cause instanceof TimeoutFailure && cause.timeoutType === TimeoutType.SCHEDULE_TO_START)
    return 'No worker took the question.';
  return codedFailureIn(error)?.message ?? 'The worker was lost while it asked.';
}
