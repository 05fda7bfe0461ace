/**
 * Serves the well-behaved tools of most tests, and records every call: the truth about what was executed.
 *
 * 1. A call is in `calls` from the moment the server acts on it, even if nobody waits for its answer any more.
 * 2. `slow` answers when the test says so, never after a time.
 */
import type { Tool } from '@modelcontextprotocol/server';
import type { JsonObject } from '../../../contracts/schemas/json.ts';
import { Holds } from './holds.ts';
import { acts, type ExecutedCall, type RawServer, startRawServer } from './raw-server.ts';

export interface RecordingServer extends Pick<RawServer, 'url' | 'calls' | 'seen' | 'close'> {
  /** Methods of all requests for tools, in order. */
  readonly methods: readonly string[];
  /** Returns the calls with this purpose, an argument that each test sets: one log serves all tests of a file. */
  callsFor(purpose: string, tool?: string): readonly ExecutedCall[];
  /** Waits until this many `slow` calls of this purpose are held. */
  held(purpose: string, count?: number): Promise<void>;
  /** Lets held and later calls of this purpose finish. */
  release(purpose: string): void;
  /** Number of slow calls of this purpose that the client gave up. */
  abandoned(purpose: string): number;
}

const object = { type: 'object' } as const;

/**
 * `pay` changes things, `lookup` declares that it does not, `odd` says "true" where a boolean belongs, `slow` waits for
 * the test, `fail` reports an error, `big` answers with so many characters.
 */
export const TOOLS: readonly Tool[] = [
  { name: 'pay', description: 'Pays an amount.', inputSchema: object, annotations: { destructiveHint: true } },
  { name: 'lookup', description: 'Looks something up.', inputSchema: object, annotations: { readOnlyHint: true } },
  { name: 'odd', description: 'Says "true" where a boolean belongs.', inputSchema: object },
  { name: 'slow', description: 'Takes its time.', inputSchema: object },
  { name: 'fail', description: 'Always fails.', inputSchema: object },
  { name: 'bare', inputSchema: object },
  { name: 'big', description: 'Answers with so many characters.', inputSchema: object },
  { name: 'transfer', inputSchema: { ...object, properties: { amount: { type: 'number' } }, required: ['amount'] } },
];

export async function startRecordingServer({
  tools = TOOLS,
}: { readonly tools?: readonly Tool[] } = {}): Promise<RecordingServer> {
  const holds = new Holds();
  const abandoned: string[] = [];
  const done = acts((exchange) =>
    exchange.text(`${String(exchange.params['name'])} did ${JSON.stringify(exchange.arguments)}`),
  );
  const server = await startRawServer({
    era: 'modern',
    // Read with each listing: a test may change the tools of a server that runs.
    get pages() {
      return [tools.map((tool) => (tool.name === 'odd' ? { ...tool, annotations: { readOnlyHint: 'true' } } : tool))];
    },
    tools: {
      slow: (exchange) => {
        exchange.execute();
        const purpose = purposeOf(exchange.arguments);
        const { response } = exchange;
        response.once('close', () => {
          if (!response.writableEnded) abandoned.push(purpose);
        });
        holds.hold(() => exchange.text(`slow did ${JSON.stringify(exchange.arguments)}`), purpose);
      },
      big: acts((exchange) => exchange.text('x'.repeat(Number(exchange.arguments['characters'])))),
      fail: acts((exchange) => exchange.result({ isError: true, content: [{ type: 'text', text: 'no money' }] })),
    },
    onCall: done,
  });
  return {
    url: server.url,
    calls: server.calls,
    seen: server.seen,
    get methods() {
      return server.seen.flatMap(({ rpcMethod }) => (rpcMethod?.startsWith('tools/') === true ? [rpcMethod] : []));
    },
    callsFor: (purpose, tool) =>
      server.calls.filter(
        (call) => purposeOf(call.arguments) === purpose && (tool === undefined || call.tool === tool),
      ),
    held: (purpose, count) => holds.held(purpose, count),
    release: (purpose) => holds.release(purpose),
    abandoned: (purpose) => abandoned.filter((other) => other === purpose).length,
    close: server.close,
  };
}

function purposeOf({ purpose }: JsonObject): string {
  return typeof purpose === 'string' ? purpose : '';
}
