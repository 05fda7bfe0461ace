/**
 * The run workflow: model steps and countersigned tool calls until there is an answer.
 *
 * 1. Every call has an outcome, whatever ends the run. Before the run ends, all of its record is where it is kept: in
 *    Temporal's history, or in the store and the sinks (INV-D3, docs/adr/0059). The exception is a run that fails while
 *    the store is away too.
 */
import { ActivityFailure, TemporalFailure } from '@temporalio/common';
import {
  allHandlersFinished,
  CancellationScope,
  CancelledFailure,
  ContinueAsNew,
  isCancellation,
  sleep,
  workflowInfo,
} from '@temporalio/workflow';
import { defined } from '../../contracts/defined.ts';
import { codedFailureIn, failureOf, final } from '../../contracts/failure.ts';
import type { JsonValue } from '../../contracts/schemas/json.ts';
import type { RunSpec } from '../../contracts/schemas/run-spec.ts';
import type { RunResult } from '../../contracts/schemas/run-state.ts';
import { type Carry, CARRY_VERSION } from '../../contracts/wire/carry.ts';
import { tasksOf } from '../../domain/legacy-2025/tasks.ts';
import { reachedLimit, spentOf } from '../../domain/run/limits.ts';
import { callsOf } from '../../domain/state/run.ts';
import { hashOf } from '../../domain/text/canonical.ts';
import { assertBegun, type Beginning } from '../entity/beginning.ts';
import { runActivities } from './activities.ts';
import { stopJudging } from './edits.ts';
import { registerHandlers } from './handlers.ts';
import { listTools, pin } from './listing.ts';
import { LiveRun } from './live-run.ts';
import { endedHere, isKeptByHistory, isToEndHere, ownTask, roll, storeJournal, withdrawTasks } from './roll.ts';
import { begin, timeOf } from './stretch.ts';
import { Messenger } from './telling.ts';
import { act, answerOf, think } from './turn.ts';
import { Surface } from './visibility.ts';
import { condition } from '../interceptors/condition.ts';

type Ending =
  | { readonly status: 'completed'; readonly output: JsonValue; readonly because?: string }
  | { readonly status: 'stopped' | 'limited'; readonly output: JsonValue; readonly because: string }
  | { readonly status: 'cancelled' };

const BEGINNING: Beginning = {
  code: 'SPEC_INVALID',
  input: 'The run spec',
  alone: 'A run is started with one argument, the spec',
  versions: [CARRY_VERSION],
  refuse: () => {
    const { attempt, cronSchedule = '' } = workflowInfo();
    if (attempt === 1 && cronSchedule === '') return undefined;
    const message =
      'A run is started once, without a retry policy or a cron schedule of Temporal: they would repeat its calls.';
    return { path: 'options', message };
  },
};

/** @param carry state of the previous execution; only continue-as-new passes it */
export async function agentRun(spec: RunSpec, carry?: Carry | null): Promise<RunResult> {
  assertBegun(spec, carry, BEGINNING);
  const live = new LiveRun(spec, carry ?? undefined);
  registerHandlers(live);
  const surface = new Surface(live);
  const messenger = new Messenger(live, carry?.messages);
  let ending: Ending;
  try {
    if (!live.isPrepared) await live.work.run(() => begin(live));
    watchWallClock(live);
    if (!live.isListed) await live.work.run(() => list(live));
    ending = await live.work.run(() => converse(live));
  } catch (error) {
    if (error instanceof ContinueAsNew) throw error;
    if (!isCancellation(error))
      return await CancellationScope.nonCancellable(() => fail(live, surface, messenger, error));
    ending = interruption(live);
  }
  // Outside of the `try`: the cancellation with which a run ends must not count as another interruption.
  return await CancellationScope.nonCancellable(() => end(live, surface, messenger, ending));
}

async function list(live: LiveRun): Promise<void> {
  const { found, times } = live.begun;
  if (found !== undefined) return pin(live, found, times && timeOf(live, times.listed));
  while ((await listTools(live)) === 'roll') await roll(live);
}

async function converse(live: LiveRun): Promise<Ending> {
  for (;;) {
    if (live.run.calls.length > 0) {
      if ((await act(live)) === 'roll') {
        // The catch stands here: recorded runs did not await another promise at this point (INV-D1).
        try {
          await roll(live);
        } catch (error) {
          if (isToEndHere(live, error)) await endedHere(live);
          throw error;
        }
      }
      if (live.work.consideredCancelled) return interruption(live);
      continue;
    }
    // The turns with which the run began come before everything that happened since.
    if (live.begun.turns === undefined) {
      if (live.reasonToRoll !== undefined) await roll(live);
      live.takeQueue();
      const limit = reachedLimit(live.run, live.prepared.limits, Date.now());
      if (limit !== undefined) {
        live.record({ kind: 'limit.reached', ...limit });
        return { status: 'limited', output: '', because: limit.limit };
      }
    }
    const step = await think(live);
    // A stretch that is no longer wanted returns what it has done; an answer that came after a stop is not asked for.
    if (live.prepared.stretch && live.run.calls.length === 0 && live.work.consideredCancelled)
      return interruption(live);
    if (step === undefined || callsOf(step).length > 0 || live.run.queue.length > 0) continue;
    const answer = answerOf(step);
    if (answer.kind === 'final')
      return {
        status: 'completed',
        output: answer.output,
        ...defined({ because: answer.because }),
      };
    if (live.run.repairs > 0) {
      throw failureOf(
        'MODEL_OUTPUT_INVALID',
        `The answer does not fit agent.output, also after one repair turn: ${answer.errors.join('; ')}`,
      );
    }
    live.repair({
      role: 'user',
      text: `Your answer does not fit the required JSON Schema: ${answer.errors.join('; ')}. Answer again with JSON that fits, and nothing else.`,
    });
  }
}

function interruption(live: LiveRun): Ending {
  if (live.run.stop !== undefined) return { status: 'stopped', output: '', because: live.run.stop.reason };
  if (live.timeIsUp) return { status: 'limited', output: '', because: 'wallClockSeconds' };
  return { status: 'cancelled' };
}

/** Ends the run at an absolute time, so that the limit survives continue-as-new. */
function watchWallClock(live: LiveRun): void {
  const left = Math.max(1, live.endsAt - Date.now());
  sleep(left, { summary: 'wall clock of the run' }).then(
    () => live.runOutOfTime(),
    // The timer was cancelled with the run, so there is nothing left to watch.
    () => undefined,
  );
}

async function end(live: LiveRun, surface: Surface, messenger: Messenger, ending: Ending): Promise<RunResult> {
  live.close(ending.status === 'limited' || ending.status === 'stopped' ? ending.because : undefined);
  if (ending.status === 'cancelled') live.record({ kind: 'cancel.requested' });
  live.withdrawAll();
  const isStored = !isKeptByHistory(live);
  live.endAs(ending.status, isStored);
  const output = ending.status === 'cancelled' ? '' : ending.output;
  live.record({
    kind: 'run.ended',
    status: ending.status,
    ...(ending.status === 'completed' ? { outputHash: hashOf(output) } : {}),
  });
  if (ending.status === 'cancelled' && !live.isPrepared)
    throw new CancelledFailure('The run was cancelled before it began.');
  if (messenger.hurries()) await messenger.settled();
  const answersEditors = live.judging.size > 0;
  if (answersEditors) await answerEditors(live);
  const segment = isStored ? await storeJournal(live) : await ownTask(live, answersEditors);
  live.stored();
  surface.show();
  if (ending.status === 'cancelled') throw new CancelledFailure('The run was cancelled.');
  const { run, journal } = live;
  return {
    status: ending.status,
    output,
    ...defined({ because: ending.because }),
    turns: run.turn,
    calls: run.totalCalls,
    usage: run.usage,
    ...(live.isPrepared ? spentOf(run, live.prepared.price) : {}),
    ledgerHead: journal.ledgerHead,
    ledgerLength: journal.ledgerLength,
    ...defined({ segment }),
  };
}

/** Tells those who wait for the verdict on an edit that the run is over (INV-D3). */
async function answerEditors(live: LiveRun): Promise<void> {
  stopJudging(live);
  await condition(allHandlersFinished);
}

async function fail(live: LiveRun, surface: Surface, messenger: Messenger, error: unknown): Promise<never> {
  // An error that Temporal did not raise is a fault of ours: it fails the workflow task, and the next build tries.
  if (!(error instanceof TemporalFailure)) throw error;
  const what = error instanceof ActivityFailure ? `Activity ${error.activityType}` : 'The run';
  const coded = codedFailureIn(error) ?? {
    code: 'INTERNAL',
    message: `${what} failed for a reason without a code; the history of the run shows it.`,
    facts: {},
  };
  live.close(`${coded.code}: ${coded.message}`);
  const isStored = live.isPrepared && !isKeptByHistory(live);
  live.endAs('failed', isStored);
  if (tasksOf(live.run).length > 0) await withdrawTasks(live);
  live.withdrawAll();
  live.record({ kind: 'run.ended', status: 'failed', code: coded.code });
  if (messenger.hurries()) await messenger.settled();
  const answersEditors = live.judging.size > 0;
  if (answersEditors) await answerEditors(live);
  if (isStored) {
    // The store may itself be at fault, so the run does not wait for it; the code that ended the run names the cause.
    await storeJournal(live, runActivities('store transcript and ledger')).catch(() => undefined);
  } else if (isKeptByHistory(live)) await ownTask(live, answersEditors);
  live.stored();
  surface.show();
  throw final(failureOf(coded.code, coded.message, { ...coded.facts, runId: workflowInfo().workflowId }));
}
