/**
 * The activity `modelStep` assembles the conversation, asks the model once, and gives the model's calls our ids.
 *
 * 1. It heartbeats while it waits, so that a dead worker is noticed and a cancellation arrives; cancelling ends the
 *    request.
 * 2. Repeating it costs tokens and nothing else: it executes no tool.
 * 3. Its errors carry a code, and no request, prompt or key (INV-S1).
 */
import { activityInfo, cancellationSignal, heartbeat } from '@temporalio/activity';
import { TemporalFailure } from '@temporalio/common';
import type { ModelActivities, ModelStepInput, ModelStepResult, RunActivities } from '../../contracts/wire/run.ts';
import { CountersignError } from '../../contracts/errors.ts';
import { failureOf } from '../../contracts/failure.ts';
import { callIdOf } from '../../contracts/ids.ts';
import type { ArtifactRef } from '../../contracts/schemas/json.ts';
import type { AssistantPart, Message } from '../../contracts/schemas/transcript.ts';
import { callsOf } from '../../domain/state/run.ts';
import type { OfferedTool } from '../../domain/run/toolset.ts';
import { Heartbeat } from '../kit/heartbeat.ts';
import { checkOutput } from './output.ts';
import { modelTool } from './prompt.ts';
import type { Model, ModelAnswer, ModelPart } from './port.ts';
import { type Pause, pauseWithJitter, retried } from '../kit/retry.ts';
import { createTranscriptCache, type TranscriptCache } from './transcript-cache.ts';
import type { ToolsetRef } from '../../contracts/wire/identity.ts';

/**
 * UTF-8 bytes of JSON. Temporal refuses a payload above 2 MiB (`limit.blobSize.error`), and would then retry a paid
 * request for ever. The answer is limited to less than the result: it returns both as a message and as calls to judge,
 * with more beside it.
 */
const MOST_ANSWER_BYTES = 1_048_576;
const MOST_RESULT_BYTES = 1_500_000;

export interface ModelStepDependencies {
  readonly models: (name: string) => Model | undefined;
  readonly toolset: (refs: readonly ToolsetRef[]) => Promise<readonly OfferedTool[]>;
  /** Returns a page of the range, never empty, by query of that run and from its stored segments. */
  readonly transcript: (
    workflowId: string,
    runId: string,
    from: number,
    to: number,
    segment?: ArtifactRef,
  ) => Promise<readonly Message[]>;
  /** Judges what the model proposed on the worker where the step ran. */
  readonly judge?: RunActivities['judge'];
  readonly cache?: TranscriptCache;
  /** Waits between tries to read conversation and tools. */
  readonly pause?: Pause;
}

export function createModelStep(dependencies: ModelStepDependencies): ModelActivities['modelStep'] {
  const { models, toolset, transcript, judge, cache = createTranscriptCache(), pause = pauseWithJitter } = dependencies;
  return async (input) => {
    const signal = cancellationSignal();
    const beat = new Heartbeat(heartbeat, activityInfo().heartbeatTimeoutMs);
    try {
      const { run, runId, base, turn, output } = input;
      const model = models(input.model);
      if (model === undefined) throw unknownHere(input.model);
      const [messages, tools] = await Promise.all([
        cache.resolveTranscript(input, (from, to) =>
          retried(
            "The run's conversation",
            () => transcript(run.workflowId, runId, from, to, base.segment),
            pause,
            signal,
          ),
        ),
        retried("The run's tools", () => toolset(input.toolset), pause, signal),
      ]);
      const answer = await model.step({
        turn,
        messages,
        tools: tools.map(modelTool),
        ...(output === undefined ? {} : { output }),
        signal,
        onProgress: () => beat.progressed(),
      });
      return await withVerdicts(resultOf(answer, input), input, judge);
    } catch (error) {
      // Whatever a cancelled request throws, the step ended because it was cancelled.
      signal.throwIfAborted();
      throw asFailure(error);
    } finally {
      beat.stop();
    }
  };
}

/**
 * An answer costs tokens. So if judging fails or says too much, the answer is returned without verdicts, and the run
 * judges it apart.
 */
async function withVerdicts(
  step: ModelStepResult,
  input: ModelStepInput,
  judge: RunActivities['judge'] | undefined,
): Promise<ModelStepResult> {
  const calls = callsOf(step);
  if (judge === undefined || calls.length === 0) return step;
  const { run, toolset, runPolicy, earlier } = input;
  try {
    const judged = {
      ...step,
      judged: await judge({ run, toolset, runPolicy, calls, ...(earlier === undefined ? {} : { earlier }) }),
    };
    return jsonBytes(judged) <= MOST_RESULT_BYTES ? judged : step;
  } catch {
    return step;
  }
}

/**
 * Makes a retryable error, though the code is final at a start: the run was admitted where the model is known, so this
 * worker is behind.
 */
function unknownHere(model: string): Error {
  const message = `No model ${model} is configured on this worker. The step is tried again, until a worker has it.`;
  return failureOf('MODEL_UNKNOWN', message, { path: 'agent.model' }, undefined, true);
}

function resultOf(answer: ModelAnswer, { turn, output, model }: ModelStepInput): ModelStepResult {
  assertFits(answer.parts, MOST_ANSWER_BYTES, `The answer of model ${model}`);
  const parts = withOurIds(answer.parts, turn);
  const malformed = parts.flatMap(({ part, malformed: reason }) =>
    part.type === 'call' && reason !== undefined ? [[part.callId, reason] as const] : [],
  );
  const texts = answer.parts.flatMap((part) => (part.type === 'text' ? [part.text] : []));
  const ended = output !== undefined && !answer.parts.some(({ type }) => type === 'call');
  const result: ModelStepResult = {
    parts: parts.map(({ part }) => part),
    ...(malformed.length === 0 ? {} : { malformed: Object.fromEntries(malformed) }),
    usage: answer.usage,
    finish: answer.finish,
    ...(ended ? { output: checkOutput(texts, output) } : {}),
  };
  assertFits(result, MOST_RESULT_BYTES, `The answer of model ${model}, with the value read from it,`);
  return result;
}

function assertFits(value: unknown, most: number, what: string): void {
  const bytes = jsonBytes(value);
  if (bytes <= most) return;
  const advice = 'Lower its maxOutputTokens, or ask for less.';
  throw new CountersignError('MODEL_OUTPUT_INVALID', `${what} has ${bytes} bytes; ${most} are allowed. ${advice}`);
}

function jsonBytes(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value));
}

function withOurIds(
  parts: readonly ModelPart[],
  turn: number,
): { part: AssistantPart; malformed?: string | undefined }[] {
  let index = 0;
  return parts.map((part) => {
    if (part.type !== 'call') return { part };
    const { malformed, ...call } = part;
    return { part: { ...call, callId: callIdOf(turn, index++) }, malformed };
  });
}

function asFailure(error: unknown): Error {
  if (error instanceof TemporalFailure) return error;
  if (error instanceof CountersignError) {
    const { retryAfterMs } = error.facts;
    return failureOf(
      error.code,
      error.message,
      error.facts,
      typeof retryAfterMs === 'number' ? retryAfterMs : undefined,
    );
  }
  // The message of an unknown error may quote what it failed on.
  return failureOf('INTERNAL', `The model step failed: ${error instanceof Error ? error.name : 'unknown error'}.`);
}
