/** Serves the misbehaving server with a way to fail for each of its tools, and logs what it executed. */
import { type CallExchange, type Era, type RawServer, startRawServer } from './mcp-raw-server.ts';
import type { ExecutedCall } from './recording-server.ts';

/**
 * Reaction of a tool to a call.
 * @param attempt number of the attempt at the same call, from 1
 */
export type Behaviour = (exchange: CallExchange, attempt: number) => void;

export interface FaultServer extends RawServer {
  /** Executed calls, in order. */
  readonly calls: readonly ExecutedCall[];
}

const object = { type: 'object' } as const;

export async function startFaultServer(era: Era, tools: Readonly<Record<string, Behaviour>>): Promise<FaultServer> {
  const calls: ExecutedCall[] = [];
  const attempts = new Map<string, number>();
  const server = await startRawServer({
    era,
    pages: [Object.keys(tools).map((name) => ({ name, description: `Fails by ${name}.`, inputSchema: object }))],
    onCall: (exchange) => {
      const { headers } = exchange.request;
      const name = String(exchange.params['name']);
      const key = `${name} ${String(headers['idempotency-key'])}`;
      attempts.set(key, (attempts.get(key) ?? 0) + 1);
      const execute = (): void => {
        calls.push({ tool: name, arguments: {}, headers });
        exchange.execute();
      };
      tools[name]?.({ ...exchange, execute }, attempts.get(key) ?? 1);
    },
  });
  return { ...server, calls };
}

/** Makes a behaviour that acts and answers with this text. */
export function succeedWith(text: string): Behaviour {
  return (exchange) => {
    exchange.execute();
    exchange.result({ content: [{ type: 'text', text }] });
  };
}
