/**
 * One turn: a model step, the verdicts on what it proposed, and every call to its outcome.
 *
 * 1. Results go to the model in the order of the proposals, whatever the order in which they came (INV-G3).
 * 2. Calls settle side by side; the turn waits, no call does.
 */
import { CancellationScope, condition, workflowInfo } from '@temporalio/workflow';
import type { JudgeResult, ModelStepInput, ModelStepResult } from '../contracts/activities.ts';
import type { Judgement, ProposedCall } from '../contracts/schemas/call.ts';
import type { JsonValue } from '../contracts/schemas/json.ts';
import type { CallResult } from '../contracts/schemas/transcript.ts';
import { callsOf } from '../domain/calls.ts';
import { isHeld } from '../domain/held.ts';
import { isHeldOpen } from '../domain/held-input.ts';
import { overLimit } from '../domain/limits.ts';
import { withLinks } from '../domain/resource-link.ts';
import { judgedAll } from '../domain/judged-calls.ts';
import { closeTurn, proposed } from '../domain/run.ts';
import { costOf } from '../domain/spend.ts';
import { isOnTask } from '../domain/server-task.ts';
import { isSettled } from '../domain/status.ts';
import { interrupted } from '../domain/talk.ts';
import { modelActivities, runActivities } from './activity-stubs.ts';
import { linkedOnly } from './linked-reads.ts';
import type { LiveRun } from './live-run.ts';
import { wantsToRoll } from './roll.ts';
import { settleCall } from './settle-call.ts';
import { answered } from './unread.ts';

/** Takes the next model step and judges what it proposed. */
export async function think(live: LiveRun): Promise<ModelStepResult> {
  const { spec, journal, run } = live;
  live.enter('thinking');
  const turn = run.turn + 1;
  const { modelStep } = modelActivities(`turn ${turn}: ${spec.agent.model}`, live.prepared.priority);
  const answer = await modelStep({
    run: live.identity,
    runId: workflowInfo().runId,
    model: spec.agent.model,
    turn,
    ...conversationOf(live),
    toolset: live.toolset,
    ...(spec.policy === undefined ? {} : { runPolicy: spec.policy }),
    ...live.earlier,
    ...(spec.agent.output === undefined ? {} : { output: spec.agent.output }),
  });
  const step = answered(live, 'modelStep', answer);
  live.seen = { length: journal.transcriptLength, digest: journal.transcriptDigest };
  live.say({ role: 'assistant', parts: [...step.parts] });
  const calls = callsOf(step);
  const callsBefore = run.totalCalls;
  const { price } = live.prepared;
  live.commit(proposed(live.run, calls, step.usage, price === undefined ? undefined : costOf(price, step.usage)));
  if (calls.length > 0) await judgeAll(live, calls, callsBefore, step.judged);
  return step;
}

/** UTF-16 units of JSON: with what else an activity is given, less than the 2 MiB that Temporal takes. */
const LONGEST_TAIL = 524_288;

/** The conversation, as the new messages and a digest of those before; what is too long to be sent is read by query, page by page. */
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
  const denied = overLimit(calls, prepared.limits, callsBefore);
  const over: Judgement[] = [...denied].map(([callId, verdict]) => ({ callId, verdict, repeatable: false }));
  // What goes over a limit is denied whatever policy says: the first judgement of a call counts.
  const judgements = judged.judgements.map((judgement) =>
    linkedOnly(live, callWith(calls, judgement.callId), judgement),
  );
  live.commit(judgedAll(live.run, [...over, ...judgements], judged.policyVersion, live.ids, Date.now()));
  live.commit(interrupted(live.run));
}

function callWith(calls: readonly ProposedCall[], callId: string): ProposedCall | undefined {
  return calls.find((call) => call.callId === callId);
}

/** Brings every open call to its outcome. `roll`: the run should continue as new first, with requests open. */
export async function act(live: LiveRun): Promise<'done' | 'roll'> {
  live.enter('acting');
  let done = false;
  const settling = settleAll(live).then(() => {
    done = true;
  });
  live.settling = settling;
  // Where a call's own code is at fault the error ends the run; nothing is left hanging.
  // Not cancellable: a stopped run still waits for its calls in flight.
  await CancellationScope.nonCancellable(() =>
    Promise.race([settling, condition(() => done || (wantsToRoll(live) && isSafePoint(live)))]),
  );
  if (!done) return 'roll';
  const results = live.run.calls.filter(isSettled).map(({ call, outcome, edit }): CallResult => {
    const { callId, providerCallId, name } = call;
    const edited = edit === undefined ? {} : { edited: { by: edit.by, arguments: call.arguments } };
    return { callId, providerCallId, name, outcome, ...edited };
  });
  const { links } = live.prepared;
  if (links !== undefined) live.run = withLinks(live.run, links, live.journal.transcriptLength);
  live.say({ role: 'tool', results });
  live.run = closeTurn(live.run, live.prepared.tally);
  return 'done';
}

/** Not `async`, as in `settle-call.ts`: what comes next in a recorded run came no promise later. */
export function settleAll(live: LiveRun): Promise<unknown> {
  return Promise.all(live.run.calls.map(({ call }) => settleCall(live, call.callId)));
}

/** Nothing in flight and nothing about to be: every call has ended, or waits for a person or its server. */
function isSafePoint({ run, polling, work }: LiveRun): boolean {
  return run.calls.every(
    (state) =>
      state.status === 'settled' ||
      (state.status === 'asking' && !isHeldOpen(state)) ||
      isHeld(state) ||
      // Of a run that was stopped nothing is carried: its next execution would know nothing of the stop.
      (isOnTask(state) && !polling.has(state.call.callId) && !work.consideredCancelled),
  );
}

export type Answer =
  | { readonly kind: 'final'; readonly output: JsonValue; readonly because?: string }
  | { readonly kind: 'invalid'; readonly errors: readonly string[] };

/** What a step without calls answers. A cut or refused answer says so in `because`. */
export function answerOf({ parts, output, finish }: ModelStepResult): Answer {
  if (output?.kind === 'invalid') return output;
  const text = parts.map((part) => (part.type === 'text' ? part.text : '')).join('');
  return {
    kind: 'final',
    output: output === undefined ? text : output.value,
    ...(finish === 'length' || finish === 'refused' ? { because: finish } : {}),
  };
}
