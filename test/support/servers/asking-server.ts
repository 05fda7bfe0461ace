/** Serves a raw MCP server of 2025-11-25 that asks in the middle of a call, on the call's own stream. */
import { createMemoryStore } from '../../../activities/artifacts/memory.ts';
import { LEGACY_CALLS } from '../../../activities/mcp/legacy-2025/legacy-calls.ts';
import { createMcpToolServer } from '../../../activities/mcp/mcp-server.ts';
import type { AskPeople } from '../../../activities/mcp/port.ts';
import type { InputRequests } from '../../../contracts/schemas/input.ts';
import { loopbackEgress } from '../egress.ts';
import {
  type CallExchange,
  type RawServer,
  type RawServerScript,
  type SeenRequest,
  startRawServer,
} from './raw-server.ts';

export async function startAsking(
  onCall: (exchange: CallExchange) => void,
  more: Partial<RawServerScript> = {},
): Promise<RawServer> {
  return await startRawServer({ era: 'legacy', sessions: true, onCall, ...more });
}

/** The client side of the server. */
export const toolServer = () =>
  createMcpToolServer({ legacy: LEGACY_CALLS, artifacts: createMemoryStore(), egress: loopbackEgress() });

export const A_QUESTION = {
  message: 'Deploy to production?',
  requestedSchema: { type: 'object', properties: { sure: { type: 'boolean' } }, required: ['sure'] },
};

export const YES = { action: 'accept', content: { sure: true } } as const;

/** Answers every question with yes. */
export const accepting: AskPeople = () => Promise.resolve(YES);

/** Writes one event of a stream. */
export function event(message: object, id?: string): string {
  const line = id === undefined ? '' : `id: ${id}\n`;
  return `${line}data: ${JSON.stringify({ jsonrpc: '2.0', ...message })}\n\n`;
}

export function question(id: string | number, params: object = A_QUESTION, method = 'elicitation/create'): string {
  return event({ id, method, params });
}

/** Returns the client's answer to the request with this id. */
export async function answerAt(server: RawServer, id: string | number): Promise<NonNullable<SeenRequest['answer']>> {
  const { answer } = await server.sees((seen) => seen.answer?.id === id);
  if (answer === undefined) throw new Error('seen without an answer');
  return answer;
}

/** Ends the call with the answer that the server got, as its text. */
export function end({ response, answerWith, execute }: CallExchange, answer: unknown): void {
  execute();
  const result = answerWith({ content: [{ type: 'text', text: JSON.stringify(answer) }] });
  response.end(`data: ${result}\n\n`);
}

/** Returns the capabilities that the client declared, in order. */
export function declared(server: RawServer): readonly unknown[] {
  return server.seen.flatMap(({ rpcMethod, params }) => (rpcMethod === 'initialize' ? [params['capabilities']] : []));
}

/** Makes a promise that the test resolves. */
export function later<T>(): { readonly promise: Promise<T>; readonly resolve: (value: T) => void } {
  let resolve: (value: T) => void = () => undefined;
  const promise = new Promise<T>((settle) => {
    resolve = settle;
  });
  return { promise, resolve };
}

/** Makes somebody who is asked, and answers when the test says so. */
export function somebody() {
  const asked = later<{ readonly requests: InputRequests; readonly signal: AbortSignal }>();
  const answer = later<typeof YES>();
  const people: AskPeople = async (requests, signal) => {
    asked.resolve({ requests, signal });
    return await answer.promise;
  };
  return { people, asked: asked.promise, answer: () => answer.resolve(YES) };
}
