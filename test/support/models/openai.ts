/** Speaks OpenAI Responses on the wire (openai-openapi: `ResponseStreamEvent`, `Response`). */
import type { JsonObject } from '../../../contracts/schemas/json.ts';
import { type Dialect, halves, object, objects, type Said, type SaidPart, sse, stringOf } from './dialect.ts';

export const openaiDialect: Dialect = {
  provider: 'openai',
  model: 'gpt-5.1',
  schema: 'openai-responses',
  path: '/v1/responses',
  keyHeader: 'authorization',
  key: (apiKey) => `Bearer ${apiKey}`,
  seals: true,
  flagsErrors: false,
  events: (answer) => {
    const items = answer.parts.flatMap((part, index) =>
      itemEvents(part, index, answer.finish === 'refused' && incompleteReason(answer) === undefined),
    );
    return [event('response.created', { response: response(answer, 'in_progress') }), ...items, ending(answer)];
  },
  errorEvent: (type, message) => event('error', { code: type, message, param: null }),
  errorBody: (type, code, message) => JSON.stringify({ error: { type, code, message, param: null } }),
  echo: (body) => {
    const input = objects(body['input']);
    const ofType = (type: string): JsonObject[] => input.filter((item) => item['type'] === type);
    const messages = input.filter(({ role }) => role !== undefined);
    return {
      calls: ofType('function_call').map((item) => stringOf(item['call_id'])),
      results: ofType('function_call_output').map((item) => ({
        id: stringOf(item['call_id']),
        text: stringOf(item['output']),
      })),
      reasoning: ofType('reasoning').map((item) => ({
        text: objects(item['summary'])
          .map((part) => stringOf(part['text']))
          .join(''),
        seal: stringOf(item['encrypted_content']),
      })),
      texts: messages.filter(({ role }) => role === 'assistant' || role === 'user').map(contentOf),
      system: messages
        .filter(({ role }) => role === 'developer' || role === 'system')
        .map(contentOf)
        .join('\n'),
    };
  },
};

function contentOf({ content }: JsonObject): string {
  return typeof content === 'string'
    ? content
    : objects(content)
        .map((part) => stringOf(part['text']))
        .join('');
}

function itemEvents(part: SaidPart, index: number, refused: boolean): string[] {
  const place = { output_index: index, item_id: idOf(part, index) };
  const started = event('response.output_item.added', {
    output_index: index,
    item: itemOf(part, index, false, refused),
  });
  const done = event('response.output_item.done', { output_index: index, item: itemOf(part, index, true, refused) });
  return [started, ...deltas(part, place, refused), done];
}

function deltas(part: SaidPart, place: JsonObject, refused: boolean): string[] {
  switch (part.type) {
    case 'reasoning': {
      const summary = { ...place, summary_index: 0 };
      const open = event('response.reasoning_summary_part.added', {
        ...summary,
        part: { type: 'summary_text', text: '' },
      });
      const close = event('response.reasoning_summary_part.done', {
        ...summary,
        part: { type: 'summary_text', text: part.text },
      });
      const pieces = halves(part.text).map((delta) =>
        event('response.reasoning_summary_text.delta', { ...summary, delta }),
      );
      return part.text === '' ? [] : [open, ...pieces, close];
    }
    case 'text': {
      const kind = refused ? 'response.refusal.delta' : 'response.output_text.delta';
      return halves(part.text).map((delta) => event(kind, { ...place, content_index: 0, delta, logprobs: [] }));
    }
    case 'call':
      return halves(part.json).map((delta) => event('response.function_call_arguments.delta', { ...place, delta }));
  }
}

function itemOf(part: SaidPart, index: number, done: boolean, refused: boolean): JsonObject {
  const id = idOf(part, index);
  const status = done ? 'completed' : 'in_progress';
  switch (part.type) {
    case 'reasoning': {
      const summary = done && part.text !== '' ? [{ type: 'summary_text', text: part.text }] : [];
      return { type: 'reasoning', id, summary, ...(done ? { encrypted_content: part.seal } : {}) };
    }
    case 'text': {
      const content = refused
        ? { type: 'refusal', refusal: part.text }
        : { type: 'output_text', text: part.text, annotations: [], logprobs: [] };
      return { type: 'message', id, role: 'assistant', status, content: done ? [content] : [] };
    }
    case 'call':
      return { type: 'function_call', id, call_id: part.id, name: part.name, arguments: done ? part.json : '', status };
  }
}

function idOf({ type }: SaidPart, index: number): string {
  return `${{ reasoning: 'rs', text: 'msg', call: 'fc' }[type]}_${index}`;
}

/** A refusal in words is a complete answer; content that the filter withheld makes it incomplete. */
function incompleteReason({ finish, parts }: Said): string | undefined {
  if (finish === 'length') return 'max_output_tokens';
  return finish === 'refused' && parts.some(({ type }) => type === 'call') ? 'content_filter' : undefined;
}

function ending(answer: Said): string {
  if (incompleteReason(answer) !== undefined)
    return event('response.incomplete', { response: response(answer, 'incomplete') });
  return event('response.completed', { response: response(answer, 'completed') });
}

function response(answer: Said, status: string): JsonObject {
  const { inputTokens, outputTokens } = answer;
  const reason = status === 'incomplete' ? incompleteReason(answer) : undefined;
  return {
    id: 'resp_1',
    object: 'response',
    created_at: 1_760_000_000,
    model: 'gpt-5.1',
    status,
    output: [],
    incomplete_details: reason === undefined ? null : { reason },
    usage: {
      input_tokens: inputTokens,
      input_tokens_details: { cached_tokens: 0, cache_write_tokens: 0 },
      output_tokens: outputTokens,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: inputTokens + outputTokens,
    },
  };
}

function event(type: string, data: JsonObject): string {
  return sse(type, { type, sequence_number: 0, ...object(data) });
}
