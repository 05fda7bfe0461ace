/**
 * Serves a tool server that holds a call at one step of its life, so that a test can kill the worker exactly
 * there.
 *
 * 1. Nothing is held before `arm` or after `disarm`: the server then acts and answers.
 * 2. `calls` is what the server acted on, even if nobody got the answer.
 */
import { once } from 'node:events';
import {
  type CallExchange,
  type Era,
  type ExecutedCall,
  type RawServer,
  startRawServer,
} from '../servers/raw-server.ts';
import { until } from '../until.ts';

export type KillPoint =
  /** The worker asks for the tool's current definition; the call's session has not begun. */
  | 'before the session'
  /**
   * The server has greeted, and no call was sent. A known server of 2026-07-28 is not greeted: the call is the first
   * request.
   */
  | 'connected, not sent'
  | 'sent, not acted on'
  | 'acted on, not answered'
  /** The worker has read the answer and cannot report it to Temporal. */
  | 'answered, not completed';

export const KILL_POINTS: Readonly<Record<Era, readonly KillPoint[]>> = {
  modern: ['before the session', 'sent, not acted on', 'acted on, not answered', 'answered, not completed'],
  legacy: [
    'before the session',
    'connected, not sent',
    'sent, not acted on',
    'acted on, not answered',
    'answered, not completed',
  ],
};

export interface KillServer extends Pick<RawServer, 'url' | 'close'> {
  readonly calls: readonly ExecutedCall[];
  arm(): void;
  disarm(): void;
  /** Waits until this many calls are held. */
  held(count: number): Promise<void>;
  /** Answers the calls that wait only for that, and waits until the worker has read the answer and left. */
  answer(): Promise<void>;
}

export async function startKillServer(era: Era, point: KillPoint): Promise<KillServer> {
  const calls: ExecutedCall[] = [];
  const unanswered: CallExchange[] = [];
  let isArmed = false;
  let holding = 0;
  const holds = (where: KillPoint): boolean => {
    if (!isArmed || point !== where) return false;
    holding += 1;
    return true;
  };
  const act = (exchange: CallExchange): void => {
    calls.push({ tool: 'act', arguments: {}, headers: exchange.request.headers });
    exchange.execute();
  };
  const server = await startRawServer({
    era,
    sessions: era === 'legacy',
    pages: [[{ name: 'act', description: 'Acts.', inputSchema: { type: 'object' } }]],
    onList: (answer) => {
      if (!holds('before the session')) answer();
    },
    intercept: (_, response, rpcMethod) => {
      if (rpcMethod === 'notifications/initialized') return holds('connected, not sent');
      if (!isArmed || point !== 'connected, not sent' || rpcMethod !== 'tools/call') return false;
      // The session that is kept since the list is lost, so the call opens another one.
      response.writeHead(404).end();
      return true;
    },
    onCall: (exchange) => {
      if (holds('sent, not acted on')) return;
      act(exchange);
      if (holds('acted on, not answered')) return;
      if (holds('answered, not completed')) return void unanswered.push(exchange);
      exchange.result({ content: [{ type: 'text', text: 'done' }] });
    },
  });
  return {
    url: server.url,
    close: server.close,
    calls,
    arm: () => {
      isArmed = true;
    },
    disarm: () => {
      isArmed = false;
    },
    held: async (count) => {
      await until(() => holding >= count, {
        what: `${count} calls held ${point}`,
        withinMs: 60_000,
      });
    },
    answer: async () => {
      await Promise.all(
        unanswered.splice(0).map(async (exchange) => {
          const left = once(exchange.request.socket, 'close');
          exchange.result({ content: [{ type: 'text', text: 'done' }] });
          await left;
        }),
      );
    },
  };
}
