/** Speaks Anthropic Messages on the wire (anthropic-sdk-typescript: `RawMessageStreamEvent`). */
import type { JsonObject } from '../../../contracts/schemas/json.ts';
import { type Dialect, halves, objects, type SaidPart, sse, stringOf } from './dialect.ts';

export const anthropicDialect: Dialect = {
  provider: 'anthropic',
  model: 'claude-opus-5',
  schema: 'anthropic-messages',
  path: '/v1/messages',
  keyHeader: 'x-api-key',
  key: (apiKey) => apiKey,
  seals: true,
  flagsErrors: true,
  events: ({ parts, inputTokens, outputTokens, finish }) => {
    const calls = parts.some(({ type }) => type === 'call');
    const stop = { stop: calls ? 'tool_use' : 'end_turn', length: 'max_tokens', refused: 'refusal' }[finish];
    const message = {
      id: 'msg_1',
      type: 'message',
      role: 'assistant',
      model: 'claude-opus-5',
      content: [],
      stop_reason: null,
    };
    return [
      event('message_start', {
        message: { ...message, stop_sequence: null, usage: { input_tokens: inputTokens, output_tokens: 1 } },
      }),
      event('ping', {}),
      ...parts.flatMap(blockEvents),
      event('message_delta', {
        delta: { stop_reason: stop, stop_sequence: null },
        usage: { output_tokens: outputTokens },
      }),
      event('message_stop', {}),
    ];
  },
  errorEvent: (type, message) => event('error', { error: { type, message } }),
  errorBody: (type, _code, message) => JSON.stringify({ type: 'error', error: { type, message }, request_id: 'req_1' }),
  echo: (body) => {
    const blocks = objects(body['messages']).flatMap(({ content }) => objects(content));
    const ofType = (type: string): JsonObject[] => blocks.filter((block) => block['type'] === type);
    return {
      calls: ofType('tool_use').map(({ id }) => stringOf(id)),
      results: ofType('tool_result').map((block) => ({
        id: stringOf(block['tool_use_id']),
        text: stringOf(block['content']),
        isError: block['is_error'] === true,
      })),
      reasoning: ofType('thinking').map(({ thinking, signature }) => ({
        text: stringOf(thinking),
        seal: stringOf(signature),
      })),
      texts: ofType('text').map((block) => stringOf(block['text'])),
      system: objects(body['system'])
        .map((block) => stringOf(block['text']))
        .join('\n'),
    };
  },
};

function blockEvents(part: SaidPart, index: number): string[] {
  return [
    event('content_block_start', { index, content_block: started(part) }),
    ...deltas(part).map((delta) => event('content_block_delta', { index, delta })),
    event('content_block_stop', { index }),
  ];
}

function started(part: SaidPart): JsonObject {
  switch (part.type) {
    case 'reasoning':
      return { type: 'thinking', thinking: '', signature: '' };
    case 'text':
      return { type: 'text', text: '', citations: null };
    case 'call':
      return { type: 'tool_use', id: part.id, name: part.name, input: {} };
  }
}

function deltas(part: SaidPart): JsonObject[] {
  switch (part.type) {
    case 'reasoning':
      return [
        ...halves(part.text).map((thinking) => ({ type: 'thinking_delta', thinking })),
        { type: 'signature_delta', signature: part.seal },
      ];
    case 'text':
      return halves(part.text).map((piece) => ({ type: 'text_delta', text: piece }));
    case 'call':
      return halves(part.json).map((piece) => ({ type: 'input_json_delta', partial_json: piece }));
  }
}

function event(type: string, data: JsonObject): string {
  return sse(type, { type, ...data });
}
