/** A raw server of MCP 2025-11-25 that asks in the middle of a call, on the call's own stream. */
import { createMemoryStore } from '../../activities/artifacts/memory.ts';
import { createMcpToolServer } from '../../activities/mcp/mcp-server.ts';
import type { AskPeople } from '../../activities/mcp/port.ts';
import type { InputRequests } from '../../contracts/schemas/input.ts';
import { loopbackEgress } from './egress.ts';
import {
  type CallExchange,
  type RawServer,
  type RawServerScript,
  type SeenRequest,
  startRawServer,
} from './mcp-raw-server.ts';

export async function startAsking(
  onCall: (exchange: CallExchange) => void,
  more: Partial<RawServerScript> = {},
): Promise<RawServer> {
  return await startRawServer({ era: 'legacy', sessions: true, onCall, ...more });
}

/** Our side of it. */
export const toolServer = () => createMcpToolServer({ artifacts: createMemoryStore(), egress: loopbackEgress() });

export const A_QUESTION = {
  message: 'Deploy to production?',
  requestedSchema: { type: 'object', properties: { sure: { type: 'boolean' } }, required: ['sure'] },
};

export const YES = { action: 'accept', content: { sure: true } } as const;

/** Somebody who is there, and says yes. */
export const accepting: AskPeople = () => Promise.resolve(YES);

/** One event of a stream. */
export function event(message: object, id?: string): string {
  const line = id === undefined ? '' : `id: ${id}\n`;
  return `${line}data: ${JSON.stringify({ jsonrpc: '2.0', ...message })}\n\n`;
}

export function question(id: string | number, params: object = A_QUESTION, method = 'elicitation/create'): string {
  return event({ id, method, params });
}

/** What the client answers to the request of this id. */
export async function answerAt(server: RawServer, id: string | number): Promise<NonNullable<SeenRequest['answer']>> {
  const { answer } = await server.sees((seen) => seen.answer?.id === id);
  if (answer === undefined) throw new Error('seen without an answer');
  return answer;
}

/** Ends the call with the answer that it got, as its text. */
export function end({ response, answerWith, execute }: CallExchange, answer: unknown): void {
  execute();
  const result = answerWith({ content: [{ type: 'text', text: JSON.stringify(answer) }] });
  response.end(`data: ${result}\n\n`);
}

/** What the client said of itself, in the order in which it did. */
export function declared(server: RawServer): readonly unknown[] {
  return server.seen.flatMap(({ rpcMethod, params }) => (rpcMethod === 'initialize' ? [params['capabilities']] : []));
}

/** What the test waits for, or lets come. */
export function later<T>(): { readonly promise: Promise<T>; readonly resolve: (value: T) => void } {
  let resolve: (value: T) => void = () => undefined;
  const promise = new Promise<T>((settle) => {
    resolve = settle;
  });
  return { promise, resolve };
}

/** Somebody who is asked, and answers when the test says so. */
export function somebody() {
  const asked = later<{ readonly requests: InputRequests; readonly signal: AbortSignal }>();
  const answer = later<typeof YES>();
  const people: AskPeople = async (requests, signal) => {
    asked.resolve({ requests, signal });
    return await answer.promise;
  };
  return { people, asked: asked.promise, answer: () => answer.resolve(YES) };
}
