/**
 * Speaks Chat Completions on the wire (openai-openapi: `CreateChatCompletionStreamResponse`), with
 * `reasoning_content` as servers send it.
 */
import type { JsonObject, JsonValue } from '../../../contracts/schemas/json.ts';
import { type Dialect, halves, objects, type SaidPart, sse, stringOf } from './dialect.ts';

export const chatDialect: Dialect = {
  provider: 'openai-compatible',
  model: 'local-model',
  schema: 'chat-completions',
  path: '/v1/chat/completions',
  keyHeader: 'authorization',
  key: (apiKey) => `Bearer ${apiKey}`,
  seals: false,
  flagsErrors: false,
  events: ({ parts, inputTokens, outputTokens, finish }) => {
    const calls = parts.filter(({ type }) => type === 'call');
    const reason = { stop: calls.length > 0 ? 'tool_calls' : 'stop', length: 'length', refused: 'content_filter' }[
      finish
    ];
    const usage = {
      prompt_tokens: inputTokens,
      completion_tokens: outputTokens,
      total_tokens: inputTokens + outputTokens,
    };
    return [
      chunk([choice({ role: 'assistant', content: '' }, null)]),
      ...parts.flatMap((part) => deltas(part, calls.indexOf(part))).map((delta) => chunk([choice(delta, null)])),
      chunk([choice({}, reason)]),
      chunk([], usage),
      sse(undefined, '[DONE]'),
    ];
  },
  errorEvent: (type, message) => sse(undefined, { error: { type, message, code: null, param: null } }),
  errorBody: (type, code, message) => JSON.stringify({ error: { type, code, message, param: null } }),
  echo: (body) => {
    const messages = objects(body['messages']);
    const ofRole = (role: string): JsonObject[] => messages.filter((message) => message['role'] === role);
    return {
      calls: ofRole('assistant').flatMap((message) => objects(message['tool_calls']).map(({ id }) => stringOf(id))),
      results: ofRole('tool').map((message) => ({
        id: stringOf(message['tool_call_id']),
        text: stringOf(message['content']),
      })),
      reasoning: ofRole('assistant').flatMap((message) =>
        message['reasoning_content'] === undefined ? [] : [{ text: stringOf(message['reasoning_content']) }],
      ),
      texts: messages
        .filter(({ role }) => role === 'user' || role === 'assistant')
        .map(({ content }) => stringOf(content)),
      system: ofRole('system')
        .map(({ content }) => stringOf(content))
        .join('\n'),
    };
  },
};

function deltas(part: SaidPart, index: number): JsonObject[] {
  switch (part.type) {
    case 'reasoning':
      return halves(part.text).map((piece) => ({ reasoning_content: piece }));
    case 'text':
      return halves(part.text).map((content) => ({ content }));
    case 'call':
      return [
        { tool_calls: [{ index, id: part.id, type: 'function', function: { name: part.name, arguments: '' } }] },
        ...halves(part.json).map((piece) => ({ tool_calls: [{ index, function: { arguments: piece } }] })),
      ];
  }
}

function choice(delta: JsonObject, reason: string | null): JsonObject {
  return { index: 0, delta, finish_reason: reason, logprobs: null };
}

function chunk(choices: readonly JsonValue[], usage: JsonObject | null = null): string {
  return sse(undefined, {
    id: 'c1',
    object: 'chat.completion.chunk',
    created: 1,
    model: 'local-model',
    choices,
    usage,
  });
}
