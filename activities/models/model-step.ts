/**
 * The activity `modelStep` assembles the conversation, asks the model once, and gives the model's calls our ids.
 *
 * 1. It heartbeats while it waits; cancelling ends the request.
 * 2. Repeating it costs tokens and nothing else: it executes no tool.
 * 3. An answer costs tokens: what is refused after it came is a coded error, and final.
 */
import { Validator } from '@cfworker/json-schema';
import { cancellationSignal, heartbeat } from '@temporalio/activity';
import { TemporalFailure } from '@temporalio/common';
import { LRUCache } from 'lru-cache';
import { defined } from '../../contracts/defined.ts';
import { CountersignError } from '../../contracts/errors.ts';
import { failureOf } from '../../contracts/failure.ts';
import { callIdOf } from '../../contracts/names.ts';
import type { JsonObject, JsonValue } from '../../contracts/schemas/json.ts';
import type { AssistantPart, Message } from '../../contracts/schemas/transcript.ts';
import type { ToolsetRef } from '../../contracts/wire/identity.ts';
import type { ModelActivities, RunActivities } from '../../contracts/wire/activities.ts';
import type { ModelStepInput, ModelStepResult } from '../../contracts/wire/run.ts';
import { EMPTY_DIGEST, extendDigest } from '../../domain/run/journal.ts';
import type { OfferedTool } from '../../domain/run/toolset.ts';
import { callsOf } from '../../domain/state/run.ts';
import { faultName } from '../kit/activity.ts';
import { ENDLESS_NUMBER, holdsEndlessNumber, MAX_NESTING, nestsTooDeeply, parsedJson } from '../kit/json.ts';
import { problemsBy } from '../kit/json-schema.ts';
import { ROUNDED_NUMBER, roundsNumber } from '../../domain/text/written-json.ts';
import { within } from '../kit/time-limit.ts';
import type { ReadTranscript } from '../run/read-transcript.ts';
import { type Pause, pauseWithJitter, retried } from './patient-reading.ts';
import type { Model, ModelAnswer, ModelPart, ModelTool } from './port.ts';
import { inertSchema, inertText } from '../../domain/views/inert-definition.ts';

/**
 * UTF-8 bytes of JSON. Temporal refuses a payload above 2 MiB (`limit.blobSize.error`), and would retry a paid request
 * for ever. The result holds the answer, and more beside it.
 */
const MOST_ANSWER_BYTES = 1_048_576;
export const MOST_RESULT_BYTES = 1_500_000;

/** A cancelled step hears of it with its next heartbeat. */
const BEAT_MS = 2_000;

export interface ModelStepDependencies {
  readonly models: (name: string) => Model | undefined;
  readonly toolset: (refs: readonly ToolsetRef[]) => Promise<readonly OfferedTool[]>;
  readonly transcript: ReadTranscript;
  readonly judge?: RunActivities['judge'];
  readonly resolve?: ResolveTranscript;
  readonly pause?: Pause;
}

export function createModelStep(dependencies: ModelStepDependencies): ModelActivities['modelStep'] {
  const {
    models,
    toolset,
    transcript,
    judge,
    resolve = createTranscriptCache(),
    pause = pauseWithJitter,
  } = dependencies;
  return async (input) => {
    const signal = cancellationSignal();
    const beats = setInterval(heartbeat, BEAT_MS);
    try {
      const { run, runId, base, turn, output } = input;
      const model = models(input.model);
      if (model === undefined) throw unknownHere(input.model);
      const { length } = base;
      const [messages, tools] = await Promise.all([
        resolve(run.workflowId, input, () =>
          retried(
            "The run's conversation",
            () => transcript(run.workflowId, runId, length, base.segment),
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
        ...defined({ output }),
        signal,
      });
      return await withVerdicts(resultOf(answer, input), input, judge);
    } catch (error) {
      // Whatever a cancelled request throws, the step ended because it was cancelled.
      signal.throwIfAborted();
      if (error instanceof CountersignError || error instanceof TemporalFailure) throw error;
      // Final, since a further attempt pays the model again. The message of an unknown error may quote a conversation.
      throw failureOf('INTERNAL', `The model step failed: ${faultName(error)}.`);
    } finally {
      clearInterval(beats);
    }
  };
}

/** An answer costs tokens: if judging fails or says too much, it is returned without verdicts, and judged apart. */
async function withVerdicts(
  step: ModelStepResult,
  input: ModelStepInput,
  judge: RunActivities['judge'] | undefined,
): Promise<ModelStepResult> {
  const calls = callsOf(step);
  if (judge === undefined || calls.length === 0) return step;
  const { run, toolset, runPolicy, earlier } = input;
  try {
    const judged = { ...step, judged: await judge({ run, toolset, runPolicy, calls, ...defined({ earlier }) }) };
    return jsonBytes(judged) <= MOST_RESULT_BYTES ? judged : step;
  } catch {
    return step;
  }
}

/** Retryable, though the code is final at a start: the run was admitted elsewhere, so this worker is behind. */
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

// The conversations that this worker knows: a step fetches only its new messages (INV-D2). A lost entry costs a query.

export interface TranscriptPosition {
  readonly base: { readonly length: number; readonly digest: string };
  readonly tail: readonly Message[];
}

/** Reads the messages of the base, or fewer. */
export type ReadBase = () => Promise<readonly Message[]>;

/** @param run whose conversation it is: an entry is found by the run, and believed by its digest */
type ResolveTranscript = (run: string, position: TranscriptPosition, readBase: ReadBase) => Promise<readonly Message[]>;

interface Conversation {
  readonly messages: readonly Message[];
  readonly bytes: number;
  readonly base: TranscriptPosition['base'];
  readonly end: TranscriptPosition['base'];
}

/** Bytes are UTF-16 units of messages as JSON. */
export function createTranscriptCache(
  { maxBytes, maxEntries } = { maxBytes: 64 * 1_048_576, maxEntries: 1_000 },
): ResolveTranscript {
  const kept = new LRUCache<string, Conversation>({ max: maxEntries, maxSize: maxBytes });
  return async (run, { base, tail }, readBase) => {
    const end = { length: base.length + tail.length, digest: digestOf(tail, base.digest) };
    const known = kept.get(run);
    if (known !== undefined && isSame(known.end, end)) return known.messages.slice();
    const isExtended = known !== undefined && isSame(known.end, base);
    // A step that is taken again may have more to say than before.
    const isKnown = isExtended || (known !== undefined && isSame(known.base, base));
    const prefix = isKnown
      ? known.messages.slice(0, base.length)
      : checked(base, base.length === 0 ? [] : await readBase());
    const messages = [...prefix, ...tail];
    const bytes = (isExtended ? known.bytes : sizeOf(prefix)) + sizeOf(tail);
    kept.set(run, { messages, bytes, base, end }, { size: Math.max(1, bytes) });
    return messages.slice();
  };
}

function isSame(one: TranscriptPosition['base'], other: TranscriptPosition['base']): boolean {
  return one.length === other.length && one.digest === other.digest;
}

function checked({ length, digest }: TranscriptPosition['base'], messages: readonly Message[]): readonly Message[] {
  if (messages.length === length && digestOf(messages, EMPTY_DIGEST) === digest) return messages;
  const message = `The stored conversation is not the one of this step: ${messages.length} of ${length} messages were read, and the digest of the first ${length} is not ${digest}.`;
  throw new CountersignError('TRANSCRIPT_MISMATCH', message);
}

function digestOf(messages: readonly Message[], from: string): string {
  return messages.reduce(extendDigest, from);
}

function sizeOf(messages: readonly Message[]): number {
  return messages.reduce((sum, message) => sum + JSON.stringify(message).length, 0);
}

// Checks a final answer against the JSON Schema that its run asks for (draft 2020-12), bounded in time: schema and text
// are foreign. An answer that could not be checked is refused: a caller would rely on it.

export type OutputCheck = NonNullable<ModelStepResult['output']>;

/** Longer than for arguments: an unchecked answer is refused, and honest answers and schemas may be large. */
const CHECK_MS = 1_000;

export function checkOutput(texts: readonly string[], schema: JsonObject): OutputCheck {
  try {
    return within(CHECK_MS, () => {
      const parsed = parseAnswer(texts);
      if (parsed === undefined) return invalid('The answer is not one JSON value.');
      if (nestsTooDeeply(parsed.value)) return invalid(`The answer nests deeper than ${MAX_NESTING} levels.`);
      if (holdsEndlessNumber(parsed.value)) return invalid(`The answer holds ${ENDLESS_NUMBER}.`);
      if (roundsNumber(parsed.text)) return invalid(`The answer holds ${ROUNDED_NUMBER}.`);
      const errors = violations(parsed.value, schema);
      return errors.length === 0 ? { kind: 'valid', value: parsed.value } : invalid(...errors);
    });
  } catch {
    return invalid('The answer could not be checked in time against the output schema of the run.');
  }
}

function invalid(...errors: readonly string[]): OutputCheck {
  return { kind: 'invalid', errors };
}

/** Tries the whole text, then its last part (after a comment of the model), then the last fenced block. */
function parseAnswer(texts: readonly string[]): { readonly value: JsonValue; readonly text: string } | undefined {
  const whole = texts.join('');
  const fenced = [...whole.matchAll(/```[A-Za-z]*[ \t]*\r?\n([^]*?)\r?\n[ \t]*```/g)].at(-1)?.[1];
  for (const text of [whole, texts.at(-1), fenced]) {
    const value = text === undefined ? undefined : parsedJson(text);
    if (text !== undefined && value !== undefined) return { value, text };
  }
  return undefined;
}

function violations(value: JsonValue, schema: JsonObject): readonly string[] {
  try {
    // Any JSON object may be tried as a schema; an invalid one throws here.
    return problemsBy(new Validator(schema, '2020-12', false), value);
  } catch {
    return ['The output schema of the run cannot be applied: it is not a valid JSON Schema.'];
  }
}

/** A toolset is offered anew with every step. */
const made = new WeakMap<OfferedTool, ModelTool>();

export function modelTool(pinned: OfferedTool): ModelTool {
  const known = made.get(pinned);
  if (known !== undefined) return known;
  const { modelName, server, serverUrl, definition, hosted } = pinned;
  const description = definition.description ?? definition.title;
  const offered = {
    name: modelName,
    qualifiedName: `${server}/${definition.name}`,
    ...(description === undefined ? {} : { description: inertText(description) }),
    // Sound: an object stays an object.
    inputSchema: inertSchema(definition.inputSchema) as JsonObject,
    ...(hosted === undefined
      ? {}
      : { hosted: { server, serverUrl, tool: definition.name, ...defined({ connectorId: hosted.connectorId }) } }),
  };
  made.set(pinned, offered);
  return offered;
}
