/**
 * Runs one turn: a model step, the verdicts on its proposed calls, and every call to its outcome.
 *
 * 1. Results go to the model in the order of the proposals, whatever the order in which they came (INV-G3).
 * 2. Calls settle side by side; the turn waits, but no call waits for another.
 */
import { CancellationScope, condition, patched, workflowInfo } from '@temporalio/workflow';
import { defined } from '../../contracts/defined.ts';
import type { Judgement, ProposedCall } from '../../contracts/schemas/call.ts';
import type { JsonValue } from '../../contracts/schemas/json.ts';
import type { CallResult } from '../../contracts/schemas/transcript.ts';
import type { JudgeResult, ModelStepInput, ModelStepResult } from '../../contracts/wire/run.ts';
import { costOf, overLimit } from '../../domain/run/limits.ts';
import { withoutUnlinked } from '../../domain/run/resource-link.ts';
import { judgedAll } from '../../domain/run/turn.ts';
import type { CallStatus } from '../../domain/state/call.ts';
import { callsOf, isSettled, proposed } from '../../domain/state/run.ts';
import { answered } from '../entity/unread.ts';
import { modelActivities, runActivities } from './activities.ts';
import { settleCall } from './call.ts';
import type { LiveRun } from './live-run.ts';

/** Takes the next model step and judges the calls that it proposed. */
export async function think(live: LiveRun): Promise<ModelStepResult> {
  const { spec, run } = live;
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
    ...defined({ runPolicy: spec.policy }),
    ...live.earlier,
    ...defined({ output: spec.agent.output }),
  });
  const step = answered(live, 'modelStep', answer);
  live.markSeen();
  live.say({ role: 'assistant', parts: [...step.parts] });
  const calls = callsOf(step);
  const callsBefore = run.totalCalls;
  const { price } = live.prepared;
  live.commit(proposed(live.run, calls, step.usage, price === undefined ? undefined : costOf(price, step.usage)));
  if (calls.length > 0) await judgeAll(live, calls, callsBefore, step.judged);
  return step;
}

/**
 * Longest tail in UTF-16 units of JSON. With the rest of an activity's input it stays below Temporal's limit of 2 MiB.
 */
const LONGEST_TAIL = 524_288;

/**
 * Gives the conversation as its new messages and a digest of the earlier ones. A tail that is too long to send is read
 * by query, page by page.
 */
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
  // Calls over a limit are denied whatever policy says, because the first judgement of a call counts.
  const judgements = judged.judgements.map((judgement) =>
    linkedOnly(live, callWith(calls, judgement.callId), judgement),
  );
  live.commit(judgedAll(live.run, [...over, ...judgements], judged.policyVersion, live.ids, Date.now()));
}

function callWith(calls: readonly ProposedCall[], callId: string): ProposedCall | undefined {
  return calls.find((call) => call.callId === callId);
}

/**
 * Brings every open call to its outcome. `roll` means that the run should first continue as new, with requests open.
 */
export async function act(live: LiveRun): Promise<'done' | 'roll'> {
  live.enter('acting');
  let done = false;
  const settling = settleAll(live).then(() => {
    done = true;
  });
  live.settleWith(settling);
  // A fault in the code of a call ends the run, so that nothing is left hanging. The scope is not cancellable, because
  // a stopped run still waits for its calls in flight.
  await CancellationScope.nonCancellable(() =>
    Promise.race([settling, condition(() => done || (live.reasonToRoll !== undefined && isSafePoint(live)))]),
  );
  if (!done) return 'roll';
  const results = live.run.calls.filter(isSettled).map(({ call, outcome, edit }): CallResult => {
    const { callId, providerCallId, name } = call;
    const edited = edit === undefined ? {} : { edited: { by: edit.by, arguments: call.arguments } };
    return { callId, providerCallId, name, outcome, ...edited };
  });
  live.closeTurn(results);
  return 'done';
}

/** Settles all calls of the turn. Not `async`, like `call.ts`: recorded runs did not await another promise here. */
export function settleAll(live: LiveRun): Promise<unknown> {
  return Promise.all(live.run.calls.map(({ call }) => settleCall(live, call.callId)));
}

/** States in which a call has ended, or waits for a person or its server with nothing under way. */
const AT_REST: ReadonlySet<CallStatus> = new Set(['settled', 'waiting-for-consent', 'waiting-for-answer', 'throttled']);

/** True if nothing is in flight or about to be: every call has ended, or waits for a person or its server. */
function isSafePoint({ run, polling, work }: LiveRun): boolean {
  return run.calls.every(
    ({ status, call }) =>
      AT_REST.has(status) ||
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

// A read of a resource that no result has linked to is denied (docs/adr/0042).
//
// The first denial leaves a marker. If a build without this denial has continued, the judgement stays as it was
// (INV-D1), and the dispatch refuses the read.

export function linkedOnly(
  { run }: LiveRun,
  call: Pick<ProposedCall, 'arguments'> | undefined,
  judgement: Judgement,
): Judgement {
  const allowed = withoutUnlinked(run, call, judgement);
  return allowed === judgement || patched('links') ? allowed : judgement;
}
