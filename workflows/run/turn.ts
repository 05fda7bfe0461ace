/**
 * Runs one turn: a model step, the verdicts on its proposed calls, and every call to its outcome.
 *
 * 1. Results go to the model in the order of the proposals, whatever the order in which they came (INV-G3).
 * 2. Calls settle side by side; the turn waits, but no call waits for another.
 */
import { ApplicationFailure, CancellationScope, workflowInfo } from '@temporalio/workflow';
import { defined } from '../../contracts/defined.ts';
import type { ProposedCall } from '../../contracts/schemas/call.ts';
import type { JsonValue } from '../../contracts/schemas/json.ts';
import type { JudgeResult, ModelStepInput, ModelStepResult } from '../../contracts/wire/run.ts';
import type { StretchResult } from '../../contracts/wire/stretch.ts';
import { failureOf } from '../../contracts/failure.ts';
import { followsOn } from '../../domain/run/stretch.ts';
import { costOf } from '../../domain/run/limits.ts';
import { withoutUnlinked } from '../../domain/run/resource-link.ts';
import { judgedAll, judgementsOn, resultsOf } from '../../domain/run/turn.ts';
import { callsOf, type CallStatus, proposed } from '../../domain/state/run.ts';
import { answered } from '../entity/unread.ts';
import { modelActivities, runActivities } from './activities.ts';
import { settleCall } from './call.ts';
import type { LiveRun } from './live-run.ts';
import { stretched, takeOver, timeOf } from './stretch.ts';
import { condition } from '../interceptors/condition.ts';

/**
 * Takes the next model step and judges the calls that it proposed; in a stretch, also the turns that need nobody.
 * @returns the newest model step; undefined if an interruption came before the model had answered
 * @throws ApplicationFailure if the model has refused the first step for good
 */
export async function think(live: LiveRun): Promise<ModelStepResult | undefined> {
  live.enter('thinking');
  const { turns: begun, failed, said } = live.begun;
  if (begun !== undefined) {
    live.begun = {};
    return await thinkOn(live, { turns: begun, ...defined({ failed }) });
  }
  // A run that was ended meanwhile ends as it was told to. With a message that came meanwhile the request is another
  // one.
  const isSameRequest = live.journal.transcriptLength === said;
  if (failed !== undefined && isSameRequest && !live.work.consideredCancelled)
    throw ApplicationFailure.nonRetryable(failed.message, failed.code, failed.facts);
  const input = stepInput(live);
  // Nobody proves the record of a stretch (docs/adr/0058).
  const bounds = live.isSigned ? undefined : live.prepared.stretch;
  if (bounds !== undefined) return await thinkOn(live, await stretched(live, input, bounds));
  const { modelStep } = modelActivities(`turn ${input.turn}: ${input.model}`, live.prepared.priority);
  const step = answered(live, 'modelStep', await modelStep(input));
  const judging = propose(live, step);
  if (judging !== undefined) await judging;
  return step;
}

/** Takes turns over, and keeps the refusal of a next step. @throws ApplicationFailure if they contradict each other */
async function thinkOn(live: LiveRun, { turns, failed }: StretchResult): Promise<ModelStepResult | undefined> {
  if (!followsOn(live.run.turn, turns)) throw failureOf('INTERNAL', 'The turns of a stretch contradict each other.');
  for (const turn of turns) {
    const isLast = turn.calls === undefined;
    await propose(live, turn.step, isLast ? undefined : timeOf(live, turn.at));
    takeOver(live, turn);
  }
  if (failed !== undefined) live.begun = { failed, said: live.journal.transcriptLength };
  return turns.at(-1)?.step;
}

/**
 * Takes a model's answer over. Not `async`: one more promise would change the order of recorded commands (INV-D1).
 * @param at epoch ms at which the model had answered; absent: now
 * @returns what is to be awaited, if calls were proposed
 */
function propose(live: LiveRun, step: ModelStepResult, at?: number): Promise<void> | undefined {
  const { run } = live;
  live.markSeen();
  live.say({ role: 'assistant', parts: [...step.parts] });
  const calls = callsOf(step);
  const { price } = live.prepared;
  live.commit(proposed(run, calls, step.usage, price === undefined ? undefined : costOf(price, step.usage)), at);
  return calls.length === 0 ? undefined : judgeAll(live, calls, run.totalCalls, step.judged, at);
}

function stepInput(live: LiveRun): ModelStepInput {
  const { spec, run } = live;
  return {
    run: live.identity,
    runId: workflowInfo().runId,
    model: spec.agent.model,
    turn: run.turn + 1,
    ...conversationOf(live),
    toolset: live.toolset,
    ...defined({ runPolicy: spec.policy }),
    ...live.earlier,
    ...defined({ output: spec.agent.output }),
  };
}

/** UTF-16 units of JSON: with the rest of an activity's input it stays below Temporal's limit of 2 MiB. */
const LONGEST_TAIL = 524_288;

/** New messages, and a digest of the earlier ones. A tail that is too long to send is read by query, page by page. */
function conversationOf({ journal, seen }: LiveRun): Pick<ModelStepInput, 'base' | 'tail'> {
  const segment = journal.segment === undefined ? {} : { segment: journal.segment };
  const tail = journal.messages(seen.length, journal.transcriptLength);
  if (JSON.stringify(tail).length <= LONGEST_TAIL) return { base: { ...seen, ...segment }, tail };
  return { base: { length: journal.transcriptLength, digest: journal.transcriptDigest, ...segment }, tail: [] };
}

async function judgeAll(
  live: LiveRun,
  calls: readonly ProposedCall[],
  callsBefore: number,
  given: JudgeResult | undefined,
  at?: number,
): Promise<void> {
  const { prepared, spec } = live;
  const judged =
    given ??
    answered(
      live,
      'judge',
      await runActivities(`judge turn ${live.run.turn}`).judge({
        run: live.identity,
        toolset: live.toolset,
        runPolicy: spec.policy,
        calls,
        ...live.earlier,
      }),
    );
  const judgements = judged.judgements.map((judgement) => {
    const call = calls.find(({ callId }) => callId === judgement.callId);
    return withoutUnlinked(live.run, call, judgement);
  });
  const all = judgementsOn(calls, judgements, prepared.limits, callsBefore);
  const judgedAt = at ?? Date.now();
  live.commit(judgedAll(live.run, all, judged.policyVersion, live.ids, judgedAt), judgedAt);
}

/** Brings every open call to its outcome. `roll`: the run should first continue as new, with requests open. */
export async function act(live: LiveRun): Promise<'done' | 'roll'> {
  live.enter('acting');
  let done = false;
  const settling = settleAll(live).then(() => {
    done = true;
  });
  live.settleWith(settling);
  // A fault in the code of a call ends the run. Not cancellable: a stopped run still waits for its calls in flight.
  const isOver = (): boolean => done || live.isOverEarly;
  await CancellationScope.nonCancellable(() => Promise.race([settling, condition(() => isOver() || isToRoll(live))]));
  if (!isOver()) return 'roll';
  // Whoever hands over waits for no timer of a call that was withdrawn.
  if (!done) live.settleWith(Promise.resolve());
  live.closeTurn(resultsOf(live.run));
  return 'done';
}

/** Settles all calls of the turn. Not `async`, like `call.ts`: recorded runs did not await another promise here. */
export function settleAll(live: LiveRun): Promise<unknown> {
  return Promise.all(live.run.calls.map(({ call }) => settleCall(live, call.callId)));
}

/** States in which a call has ended, or waits for a person or its server with nothing under way. */
const AT_REST: ReadonlySet<CallStatus> = new Set(['settled', 'waiting-for-consent', 'waiting-for-answer', 'throttled']);

/** True if the run hands over now: no call leaves any more, not even for a client that is back in this task. */
function isToRoll(live: LiveRun): boolean {
  if (!isSafePoint(live) || live.reasonToRoll === undefined) return false;
  live.holdBack();
  return true;
}

/** True if nothing is in flight: every call has ended, or waits for a person, its server or its client. */
function isSafePoint({ run, polling, work, away, awaitsClient }: LiveRun): boolean {
  return run.calls.every(
    ({ status, call }) =>
      AT_REST.has(status) ||
      (status === 'approved' && awaitsClient && away.has(call.callId)) ||
      // A stopped run carries nothing over, because its next execution would not know of the stop.
      (status === 'on-task' && !polling.has(call.callId) && !work.consideredCancelled),
  );
}

export type Answer =
  | { readonly kind: 'final'; readonly output: JsonValue; readonly because?: string }
  | { readonly kind: 'invalid'; readonly errors: readonly string[] };

/** Returns the answer of a step without calls. `because` says if the answer was cut or refused. */
export function answerOf({ parts, output, finish }: ModelStepResult): Answer {
  if (output?.kind === 'invalid') return output;
  const text = parts.map((part) => (part.type === 'text' ? part.text : '')).join('');
  return {
    kind: 'final',
    output: output === undefined ? text : output.value,
    ...(finish === 'length' || finish === 'refused' ? { because: finish } : {}),
  };
}
