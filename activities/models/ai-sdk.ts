/**
 * This adapter asks models of providers through the AI SDK: one request, one answer, no loop, no execution of tools, no
 * retry.
 *
 * 1. Answers are streamed. An answer that takes minutes would otherwise leave a silent connection, which proxies cut;
 *    and each chunk shows progress. Only a complete answer is returned.
 * 2. Neither the key nor the request appears in a result or an error (INV-S1).
 */
import { jsonSchema, streamText, tool, type ToolSet } from 'ai';
import { CountersignError } from '../../contracts/errors.ts';
import type { Egress } from '../egress/fetch.ts';
import { answerOf, isComplete } from './answer.ts';
import type { Model, ModelAnswer, ModelRequest, ModelTool } from './port.ts';
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
      ...(description === undefined ? {} : { description }),
      ...(strict === undefined ? {} : { strict }),
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
