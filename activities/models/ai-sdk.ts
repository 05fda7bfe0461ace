/**
 * This adapter asks models of providers through the AI SDK: one request, one answer, no loop, no execution of tools, no
 * retry.
 *
 * 1. Answers are streamed. An answer that takes minutes would otherwise leave a silent connection, which proxies cut;
 *    and each chunk shows progress. Only a complete answer is returned.
 * 2. Neither the key nor the request appears in a result or an error (INV-S1).
 */
import { type OutputUnit, Validator } from '@cfworker/json-schema';
import { type FinishReason, jsonSchema, type StepResult, streamText, tool, type ToolSet } from 'ai';
import { defined } from '../../contracts/defined.ts';
import { CountersignError } from '../../contracts/errors.ts';
import type { JsonObject, JsonValue } from '../../contracts/schemas/json.ts';
import type { Usage } from '../../contracts/schemas/transcript.ts';
import type { ModelStepResult } from '../../contracts/wire/run.ts';
import type { Egress } from '../egress/fetch.ts';
import { jsonOf, MAX_NESTING, nestsTooDeeply } from '../kit/json.ts';
import { within } from '../kit/time-limit.ts';
import type { Model, ModelAnswer, ModelPart, ModelRequest, ModelTool } from './port.ts';
import { promptOf } from './prompt.ts';
import { type Provider, type ProviderConfig, providerOf } from './provider.ts';
import { refusalOf, type Scrub, scrubberOf, type Subject } from './refusal.ts';

// The SDK's warnings quote parts of the conversation, and go to the console unless this flag is off.
globalThis.AI_SDK_LOG_WARNINGS = false;

/** @param name of the model in the configuration */
export function createAiSdkModel(name: string, config: ProviderConfig, egress: Egress): Model {
  const provider = providerOf(name, config, egress);
  const subject: Subject = { name, provider: config.provider };
  const scrub = scrubberOf(config.apiKey);
  return {
    step: async (request) => {
      request.signal.throwIfAborted();
      const deadline = new AbortController();
      const timer = setTimeout(() => deadline.abort(), config.timeoutSeconds * 1_000);
      const signal = AbortSignal.any([request.signal, deadline.signal]);
      try {
        return scrub(await ask(provider, subject, config.maxOutputTokens, { ...request, signal }));
      } catch (error) {
        request.signal.throwIfAborted();
        if (deadline.signal.aborted) throw lateness(subject, config.timeoutSeconds);
        throw scrubbed(error instanceof CountersignError ? error : refusalOf(error, subject), scrub);
      } finally {
        clearTimeout(timer);
      }
    },
  };
}

async function ask(
  provider: Provider,
  subject: Subject,
  maxOutputTokens: number,
  request: ModelRequest,
): Promise<ModelAnswer> {
  const { system, messages } = promptOf(request.messages, request.output);
  const result = streamText({
    model: provider.model,
    providerOptions: provider.providerOptions,
    system,
    messages,
    ...(request.tools.length === 0 ? {} : { tools: toolSetOf(request.tools, provider.strict) }),
    maxOutputTokens,
    maxRetries: 0,
    abortSignal: request.signal,
    // Errors are read from the stream; the SDK's default writes them to the console, with the whole request.
    onError: () => undefined,
  });
  for await (const part of result.fullStream) {
    request.onProgress();
    if (part.type === 'error') throw refusalOf(part.error, subject);
    if (part.type === 'abort') break;
  }
  request.signal.throwIfAborted();
  // The promise is read only here: the SDK makes its promises when they are read, and one that nobody awaits would
  // reject into the process.
  const [step] = await result.steps;
  if (step === undefined || !isComplete(step)) {
    throw new CountersignError(
      'MODEL_UNAVAILABLE',
      `Model ${subject.name} (${subject.provider}) broke off its answer. It is asked again.`,
    );
  }
  return answerOf(step);
}

/** Makes tools without `execute`: the SDK can only propose them. */
function toolSetOf(tools: readonly ModelTool[], strict: boolean | undefined): ToolSet {
  const set: ToolSet = {};
  for (const { name, description, inputSchema } of tools) {
    // Sound: an MCP input schema is a JSON Schema, which the SDK passes on unchanged.
    const schema = jsonSchema(inputSchema as Parameters<typeof jsonSchema>[0]);
    set[name] = tool({
      inputSchema: schema,
      ...defined({ description, strict }),
    });
  }
  return set;
}

function lateness({ name, provider }: Subject, timeoutSeconds: number): CountersignError {
  return new CountersignError(
    'MODEL_UNAVAILABLE',
    `Model ${name} (${provider}) gave no complete answer within ${timeoutSeconds} s. It is asked again.`,
  );
}

function scrubbed(error: CountersignError, scrub: Scrub): CountersignError {
  return new CountersignError(error.code, scrub(error.message), scrub(error.facts));
}

// Turns one step of the AI SDK into an answer of the model port.

/** The fields of a step that are read. */
export type Step = Pick<StepResult<ToolSet>, 'content' | 'finishReason' | 'rawFinishReason' | 'usage'>;
type Content = Step['content'][number];

/**
 * False for a stream that broke off or reported an error; neither is an answer. The provider packages end a broken
 * stream as `other` without the provider's own word, and a reported error as `error`.
 */
function isComplete({ finishReason, rawFinishReason }: Step): boolean {
  return finishReason !== 'error' && !(finishReason === 'other' && rawFinishReason === undefined);
}

function answerOf(step: Step): ModelAnswer {
  const refused = step.finishReason === 'content-filter';
  // A refusal may come after calls were streamed; calls that were taken back are not proposed.
  const parts = step.content.flatMap(partOf).filter(({ type }) => !(refused && type === 'call'));
  const proposes = parts.some(({ type }) => type === 'call');
  return { parts, usage: usageOf(step.usage), finish: proposes ? 'calls' : finishOf(step.finishReason) };
}

function finishOf(reason: FinishReason): ModelAnswer['finish'] {
  if (reason === 'content-filter') return 'refused';
  // Some servers say `tool_calls` without a call, or have their own word for a stop.
  return reason === 'length' ? 'length' : 'stop';
}

/** Drops sources, files and the SDK's own notes on calls: they are no parts of the conversation. */
function partOf(content: Content): ModelPart[] {
  switch (content.type) {
    case 'text':
    case 'reasoning': {
      const echo = answeredBy(content.providerMetadata);
      return content.text === '' && echo.provider === undefined
        ? []
        : [{ type: content.type, text: content.text, ...echo }];
    }
    case 'tool-call':
      return [
        {
          type: 'call',
          providerCallId: content.toolCallId,
          name: content.toolName,
          ...argumentsOf(content.input),
          ...answeredBy(content.providerMetadata),
        },
      ];
    case 'source':
    case 'file':
    case 'tool-approval-request':
    case 'tool-result':
    case 'tool-error':
      return [];
  }
}

function answeredBy(metadata: object | undefined): { provider?: JsonObject } {
  // Sound: provider metadata is an object of objects, and stays one as JSON.
  return metadata === undefined || nestsTooDeeply(metadata) ? {} : { provider: jsonOf(metadata) as JsonObject };
}

/** The SDK returns unparsable arguments as the text it got; a tool without parameters is called with no text at all. */
function argumentsOf(input: unknown): { arguments: JsonObject; malformed?: string } {
  if (typeof input === 'string') {
    return input.trim() === ''
      ? { arguments: {} }
      : { arguments: {}, malformed: 'the arguments are not a JSON object' };
  }
  if (input === null || typeof input !== 'object' || Array.isArray(input)) {
    const kind = input === null ? 'null' : Array.isArray(input) ? 'an array' : `a ${typeof input}`;
    return { arguments: {}, malformed: `the arguments are ${kind}, not a JSON object` };
  }
  // Checked before any recursive walk, which would overflow the stack and look like a broken connection.
  if (nestsTooDeeply(input))
    return { arguments: {}, malformed: `the arguments nest deeper than ${MAX_NESTING} levels` };
  // Sound: parsed from JSON, and neither null nor an array.
  return { arguments: jsonOf(input) as JsonObject };
}

function usageOf({ inputTokens, outputTokens }: Step['usage']): Usage {
  return { inputTokens: count(inputTokens), outputTokens: count(outputTokens) };
}

function count(tokens: number | undefined): number {
  return tokens === undefined || !Number.isFinite(tokens) ? 0 : Math.max(0, Math.round(tokens));
}

// Checks a final answer against the JSON Schema that its run asks for (draft 2020-12).
//
// 1. The check is bounded in time, parsing included: schema and patterns come from the starter, and the text from a
//    model. An answer that could not be checked is refused: a caller would rely on it, and a model may well find a
//    shorter one.

export type OutputCheck = NonNullable<ModelStepResult['output']>;

/** Limits of the errors that go to the model for its repair turn, and into history. */
const MOST_ERRORS = 10;
const MOST_CHARACTERS = 300;
/**
 * Longer than the limit for arguments: an unchecked answer is refused, and an honest answer and schema may be large.
 */
const CHECK_MS = 1_000;

/** @param texts the text parts of the answer, in order */
export function checkOutput(texts: readonly string[], schema: JsonObject): OutputCheck {
  try {
    return within(CHECK_MS, () => {
      const parsed = parseAnswer(texts);
      if (parsed === undefined) return invalid('The answer is not one JSON value.');
      // Code that walks values by recursion, in the workflow too, would overflow the stack.
      if (nestsTooDeeply(parsed.value)) return invalid(`The answer nests deeper than ${MAX_NESTING} levels.`);
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
function parseAnswer(texts: readonly string[]): { value: JsonValue } | undefined {
  const whole = texts.join('');
  const fenced = [...whole.matchAll(/```[A-Za-z]*[ \t]*\r?\n([^]*?)\r?\n[ \t]*```/g)].at(-1)?.[1];
  for (const text of [whole, texts.at(-1), fenced]) {
    const value = text === undefined ? undefined : parseJson(text);
    if (value !== undefined) return { value };
  }
  return undefined;
}

function parseJson(text: string): JsonValue | undefined {
  try {
    // Sound: what JSON.parse returns is a JSON value.
    return JSON.parse(text) as JsonValue;
  } catch {
    return undefined;
  }
}

function violations(value: JsonValue, schema: JsonObject): string[] {
  try {
    // Any JSON object may be tried as a schema; an invalid one throws here.
    const { valid, errors } = new Validator(schema, '2020-12', false).validate(value);
    return valid ? [] : bounded(errors.map(described));
  } catch {
    return ['The output schema of the run cannot be applied: it is not a valid JSON Schema.'];
  }
}

function described({ instanceLocation, keyword, error }: OutputUnit): string {
  return `${instanceLocation} (${keyword}): ${error}`.slice(0, MOST_CHARACTERS);
}

function bounded(errors: readonly string[]): string[] {
  const rest = errors.length - MOST_ERRORS;
  return rest <= 0 ? [...errors] : [...errors.slice(0, MOST_ERRORS), `and ${rest} more`];
}
