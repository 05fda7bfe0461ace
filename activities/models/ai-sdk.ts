/**
 * Asks models of providers through the AI SDK: one request, one answer, no loop, no execution of tools, no retry.
 *
 * 1. Answers are streamed, since proxies cut a silent connection. Only a complete answer is returned.
 * 2. Neither the key nor the request appears in a result or an error (INV-S1).
 * 3. Opaque provider data goes back with the part it came with (reasoning items, signatures).
 * 4. Every call of an assistant message has exactly one result in the next message; else the transcript is refused.
 */
import {
  type AssistantModelMessage,
  type FinishReason,
  jsonSchema,
  type ModelMessage,
  type StepResult,
  streamText,
  tool,
  type ToolModelMessage,
  type ToolSet,
} from 'ai';
import { defined } from '../../contracts/defined.ts';
import { CountersignError } from '../../contracts/errors.ts';
import type { JsonObject } from '../../contracts/schemas/json.ts';
import type { AssistantPart, CallResult, Message, Usage } from '../../contracts/schemas/transcript.ts';
import { byteLength } from '../../domain/text/canonical.ts';
import { resultOf } from '../../domain/views/model-text.ts';
import type { Egress } from '../egress/fetch.ts';
import { ENDLESS_NUMBER, holdsEndlessNumber, jsonOf, MAX_NESTING, nestsTooDeeply } from '../kit/json.ts';
import { ROUNDED_NUMBER, roundsNumber } from '../../domain/text/written-json.ts';
import type { Model, ModelAnswer, ModelPart, ModelRequest, ModelTool } from './port.ts';
import { type Provider, type ProviderConfig, providerOf } from './provider.ts';
import { refusalOf, type Scrub, scrubberOf, type Subject } from './refusal.ts';

// The SDK's warnings quote parts of the conversation, and go to the console unless this flag is off.
globalThis.AI_SDK_LOG_WARNINGS = false;

export function createAiSdkModel(name: string, config: ProviderConfig, egress: Egress): Model {
  const provider = providerOf(name, config, egress);
  return askedInTime(name, config, (request, subject) => ask(provider, subject, config.maxOutputTokens, request));
}

/** Bounds each question in time, and keeps the key out of answers and errors. */
export function askedInTime(
  name: string,
  config: ProviderConfig,
  asked: (request: ModelRequest, subject: Subject) => Promise<ModelAnswer>,
): Model {
  const subject: Subject = { name, provider: config.provider };
  const scrub = scrubberOf(config.apiKey);
  return {
    step: async (request) => {
      request.signal.throwIfAborted();
      const deadline = new AbortController();
      const timer = setTimeout(() => deadline.abort(), config.timeoutSeconds * 1_000);
      const signal = AbortSignal.any([request.signal, deadline.signal]);
      try {
        return scrub(await asked({ ...request, signal }, subject));
      } catch (error) {
        // A breach is told whatever else has happened meanwhile.
        if (error instanceof CountersignError && error.code === 'HOSTED_UNSUPPORTED') throw scrubbed(error, scrub);
        request.signal.throwIfAborted();
        if (deadline.signal.aborted)
          throw unavailable(subject, `gave no complete answer within ${config.timeoutSeconds} s`);
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
  const written = new Map<string, string>();
  for await (const part of result.fullStream) {
    if (part.type === 'tool-input-delta') written.set(part.id, (written.get(part.id) ?? '') + part.delta);
    if (part.type === 'error') throw refusalOf(part.error, subject);
    if (part.type === 'abort') break;
  }
  request.signal.throwIfAborted();
  // Read only here: a promise of the SDK that nobody awaits would reject into the process.
  const [step] = await result.steps;
  if (step === undefined || !isComplete(step)) {
    throw unavailable(subject, 'broke off its answer');
  }
  return answerOf(step, written, request);
}

/** Without `execute` the SDK can only propose a tool. */
function toolSetOf(tools: readonly ModelTool[], strict: boolean | undefined): ToolSet {
  const set: ToolSet = {};
  for (const { name, description, inputSchema } of tools) {
    // Sound: an MCP input schema is a JSON Schema, which the SDK passes on unchanged.
    const schema = jsonSchema(inputSchema as Parameters<typeof jsonSchema>[0]);
    set[name] = tool({ inputSchema: schema, ...defined({ description, strict }) });
  }
  return set;
}

export function unavailable({ name, provider }: Subject, what: string): CountersignError {
  return new CountersignError('MODEL_UNAVAILABLE', `Model ${name} (${provider}) ${what}. It is asked again.`);
}

function scrubbed(error: CountersignError, scrub: Scrub): CountersignError {
  return new CountersignError(error.code, scrub(error.message), scrub(error.facts));
}

export type Step = Pick<StepResult<ToolSet>, 'content' | 'finishReason' | 'rawFinishReason' | 'usage'>;
type Content = Step['content'][number];

/** Words of servers that have given up within an answer: vLLM and SGLang, OpenRouter, DeepSeek. */
const GIVEN_UP: ReadonlySet<string> = new Set(['abort', 'error', 'insufficient_system_resource']);

/**
 * False for a stream that broke off or reported an error. The provider packages end a broken stream as `other` without
 * the provider's own word. A word that they do not know is `other`, too: most mean that it has stopped where it should.
 */
function isComplete({ finishReason, rawFinishReason }: Step): boolean {
  if (finishReason !== 'other') return finishReason !== 'error';
  return rawFinishReason !== undefined && !GIVEN_UP.has(rawFinishReason);
}

/** @param written arguments as the model wrote them, by the provider's id of the call */
function answerOf(step: Step, written: ReadonlyMap<string, string>, request: ModelRequest): ModelAnswer {
  const refused = step.finishReason === 'content-filter';
  // Calls that a refusal took back are not proposed.
  const last = step.content.at(-1);
  const cutOff = step.finishReason === 'length' && last?.type === 'tool-call' && isBlank(last.input) ? last : undefined;
  const parts = step.content
    .flatMap((content) => partOf(content, written).map((part) => (content === cutOff ? withoutArguments(part) : part)))
    .filter(({ type }) => !(refused && type === 'call'));
  const proposes = parts.some(({ type }) => type === 'call');
  const usage = usageOf(step.usage, request, parts);
  return { parts, usage, finish: proposes ? 'calls' : finishOf(step.finishReason) };
}

/** The SDK reads arguments of which nothing has come as an empty object. */
function isBlank(input: unknown): boolean {
  return input === '' || (typeof input === 'object' && input !== null && Object.keys(input).length === 0);
}

function withoutArguments(part: ModelPart): ModelPart {
  return part.type === 'call' ? { ...part, arguments: {}, malformed: CUT_OFF_WORDS } : part;
}

function finishOf(reason: FinishReason): ModelAnswer['finish'] {
  if (reason === 'content-filter') return 'refused';
  // Some servers say `tool_calls` without a call, or have their own word for a stop.
  return reason === 'length' ? 'length' : 'stop';
}

function partOf(content: Content, written: ReadonlyMap<string, string>): ModelPart[] {
  switch (content.type) {
    case 'text':
    case 'reasoning': {
      const { type, text } = content;
      const echo = answeredBy(content.providerMetadata);
      return text === '' && echo.provider === undefined ? [] : [{ type, text, ...echo }];
    }
    case 'tool-call':
      return [
        {
          type: 'call',
          providerCallId: content.toolCallId,
          name: content.toolName,
          ...argumentsOf(content.input, written.get(content.toolCallId)),
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

export const CUT_OFF_WORDS = 'the call was cut off';

/**
 * The SDK returns unparsable arguments as the text it got; a tool without parameters is called with no text at all.
 * @param written the JSON of which they were read
 */
export function argumentsOf(input: unknown, written = ''): { arguments: JsonObject; malformed?: string } {
  const malformed = (how: string) => ({ arguments: {}, malformed: `the arguments ${how}` });
  if (typeof input === 'string') return input.trim() === '' ? { arguments: {} } : malformed('are not a JSON object');
  if (input === null || typeof input !== 'object' || Array.isArray(input)) {
    const kind = input === null ? 'null' : Array.isArray(input) ? 'an array' : `a ${typeof input}`;
    return malformed(`are ${kind}, not a JSON object`);
  }
  // A recursive walk would overflow the stack, and look like a broken connection.
  if (nestsTooDeeply(input)) return malformed(`nest deeper than ${MAX_NESTING} levels`);
  // People would be asked about another number than the model meant, and the tool be called with it.
  if (holdsEndlessNumber(input)) return malformed(`hold ${ENDLESS_NUMBER}`);
  if (roundsNumber(written)) return malformed(`hold ${ROUNDED_NUMBER}`);
  // Sound: parsed from JSON, and neither null nor an array.
  return { arguments: jsonOf(input) as JsonObject };
}

const BYTES_OF_A_TOKEN = 4;

/** Tokens that a provider does not count are estimated by size: a run would otherwise have no limit of them. */
export function usageOf(
  { inputTokens, outputTokens }: { readonly inputTokens?: unknown; readonly outputTokens?: unknown },
  { messages, tools }: Pick<ModelRequest, 'messages' | 'tools'>,
  parts: readonly ModelPart[],
): Usage {
  return {
    inputTokens: counted(inputTokens) ?? estimated([messages, tools]),
    outputTokens: counted(outputTokens) ?? estimated(parts),
  };
}

function counted(tokens: unknown): number | undefined {
  const whole = typeof tokens === 'number' ? Math.round(tokens) : 0;
  return whole > 0 && Number.isSafeInteger(whole) ? whole : undefined;
}

function estimated(said: readonly unknown[]): number {
  return said.length === 0 ? 0 : Math.ceil(byteLength(JSON.stringify(said)) / BYTES_OF_A_TOKEN);
}

type Options = NonNullable<AssistantModelMessage['providerOptions']>;
type AssistantContent = Exclude<AssistantModelMessage['content'], string>;

/** @param output JSON Schema of the final answer, put in words: not every provider can combine it with tools */
export function promptOf(transcript: readonly Message[], output?: JsonObject) {
  const { system, said } = openingOf(transcript, output);
  const ids = new EchoedIds();
  const messages = said.flatMap((message) => modelMessage(message, ids));
  ids.assertAnswered();
  return { system, messages };
}

/** Divides a conversation into the instructions that it begins with, and all that follows. */
export function openingOf(transcript: readonly Message[], output: JsonObject | undefined) {
  const opening = transcript.findIndex(({ role }) => role !== 'system');
  const head = opening === -1 ? transcript : transcript.slice(0, opening);
  const instructions = head.flatMap((message) => (message.role === 'system' ? [message.text] : []));
  if (output !== undefined)
    instructions.push(
      `When you give your final answer, reply with one JSON value and nothing else. It must fit this JSON Schema: ${JSON.stringify(output)}`,
    );
  const system = instructions.flatMap((content) => (content === '' ? [] : [{ role: 'system' as const, content }]));
  return { system, said: transcript.slice(head.length) };
}

function modelMessage(message: Message, ids: EchoedIds): ModelMessage[] {
  if (message.role !== 'tool') ids.assertAnswered();
  switch (message.role) {
    // Only some providers know system messages between turns; all understand a user's.
    case 'system':
    case 'user':
      return message.text === '' ? [] : [{ role: 'user', content: message.text }];
    case 'assistant': {
      const content = message.parts.filter(isSaid).map((part) => assistantPart(part, ids));
      return content.length === 0 ? [] : [{ role: 'assistant', content }];
    }
    case 'tool': {
      const content = message.results.map((result) => toolResult(result, ids));
      ids.assertAnswered();
      return content.length === 0 ? [] : [{ role: 'tool', content }];
    }
  }
}

/** Drops empty texts, which providers refuse, unless provider data makes the text an item of its own. */
function isSaid(part: AssistantPart): boolean {
  return part.type === 'call' || part.text !== '' || part.provider !== undefined;
}

function assistantPart(part: AssistantPart, ids: EchoedIds): AssistantContent[number] {
  const echo = part.provider === undefined ? {} : { providerOptions: providerOptions(part.provider) };
  if (part.type !== 'call') return { type: part.type, text: part.text, ...echo };
  return {
    type: 'tool-call',
    toolCallId: ids.propose(part),
    toolName: part.name,
    input: jsonOf(part.arguments),
    ...echo,
  };
}

function toolResult(result: CallResult, ids: EchoedIds): ToolModelMessage['content'][number] {
  const { text, isError } = resultOf(result);
  return {
    type: 'tool-result',
    toolCallId: ids.answer(result),
    toolName: result.name,
    output: { type: isError ? 'error-text' : 'text', value: text },
  };
}

function providerOptions(provider: JsonObject): Options {
  // Sound: `provider` is the `providerMetadata` of an earlier answer, which has this shape; the AI SDK checks it again.
  const options = jsonOf(provider) as Options;
  // Gemini's signature: the OpenAI-compatible package writes it under its own name and reads it under `google`.
  const signature = options['compatible']?.['thoughtSignature'];
  return signature === undefined ? options : { ...options, google: { thoughtSignature: signature } };
}

class EchoedIds {
  readonly #used = new Set<string>();
  readonly #open = new Map<string, string>();

  propose({ callId, providerCallId }: { callId: string; providerCallId: string }): string {
    // Some servers give no ids, or count from zero in every answer. Providers allow letters, digits, `_` and `-` only.
    let id = providerCallId;
    if (id === '' || this.#used.has(id)) id = callId.replaceAll('.', '_');
    this.#used.add(id);
    this.#open.set(callId, id);
    return id;
  }

  answer({ callId }: CallResult): string {
    const id = this.#open.get(callId);
    if (id === undefined) {
      const message = `The transcript has a result of call ${callId}, which was not proposed in the turn before it.`;
      throw new CountersignError('INTERNAL', message, { callId });
    }
    this.#open.delete(callId);
    return id;
  }

  assertAnswered(): void {
    const [callId] = this.#open.keys();
    if (callId !== undefined)
      throw new CountersignError('INTERNAL', `The transcript has no result of call ${callId}.`, { callId });
  }
}
