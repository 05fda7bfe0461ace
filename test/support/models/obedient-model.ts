/**
 * Serves OpenAI's Chat Completions on loopback, for systems that bring an agent of their own: the model calls the tool
 * that a test has told it to call when it reads certain words, once, and then says what the tool said.
 */
import type { JsonObject, JsonValue } from '../../../contracts/schemas/json.ts';
import { bodyOf, listenOnLoopback } from '../servers/loopback-server.ts';
import { object, objects, sse, stringOf } from './dialect.ts';

export const OBEDIENT = 'obedient';

export interface ObedientModel {
  readonly baseUrl: string;
  /** Number of answers that it was asked for. */
  asked(): number;
  /** @param words of the user, whole */
  obey(words: string, tool: string, args: JsonObject): void;
  close(): Promise<void>;
}

export async function startObedientModel(): Promise<ObedientModel> {
  const orders = new Map<string, { readonly name: string; readonly arguments: string }>();
  let asked = 0;
  const server = await listenOnLoopback((request, response) => {
    const answer = async (): Promise<void> => {
      if (request.method === 'GET') {
        const data = [{ id: OBEDIENT, object: 'model', created: 1, owned_by: 'test' }];
        response.setHeader('content-type', 'application/json').end(JSON.stringify({ object: 'list', data }));
        return;
      }
      const messages = objects(object(JSON.parse(await bodyOf(request)) as JsonValue)['messages']);
      asked += 1;
      const order = orders.get(wordsIn(messages.find(({ role }) => role === 'user')));
      const result = messages.findLast(({ role }) => role === 'tool');
      const said =
        order === undefined || result !== undefined
          ? { delta: { role: 'assistant', content: result === undefined ? 'ok' : wordsIn(result) }, ends: 'stop' }
          : {
              delta: { role: 'assistant', tool_calls: [{ index: 0, id: 'call_1', type: 'function', function: order }] },
              ends: 'tool_calls',
            };
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      const chunk = (delta: JsonObject, reason: string | null): string =>
        sse(undefined, {
          id: 'chatcmpl-1',
          object: 'chat.completion.chunk',
          created: 1,
          model: OBEDIENT,
          choices: [{ index: 0, delta, finish_reason: reason }],
        });
      response.end(`${chunk(said.delta, null)}${chunk({}, said.ends)}${sse(undefined, '[DONE]')}`);
    };
    answer().catch((error: unknown) => response.destroy(error instanceof Error ? error : undefined));
  });
  return {
    baseUrl: `${server.origin}/v1`,
    asked: () => asked,
    obey: (words, name, args) => void orders.set(words, { name, arguments: JSON.stringify(args) }),
    close: server.close,
  };
}

function wordsIn(message: JsonObject | undefined): string {
  const content = message?.['content'];
  return typeof content === 'string'
    ? content
    : objects(content)
        .map(({ text }) => stringOf(text))
        .join('\n');
}
