/** The calls of one run share a session of a server before 2026-07-28, and nobody else does (docs/adr/0061). */
import type { IncomingMessage } from 'node:http';
import { setImmediate as immediate, setTimeout as pause } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { createMemoryStore } from '../../activities/artifacts/memory.ts';
import { sessionOwner } from '../../activities/discovery/access.ts';
import { LEGACY_CALLS } from '../../activities/mcp/legacy-2025/legacy-calls.ts';
import { createKeptSessions } from '../../activities/mcp/kept-sessions.ts';
import { createMcpToolServer, type McpToolServerOptions } from '../../activities/mcp/mcp-server.ts';
import type { ServerConnection, ToolServer } from '../../activities/mcp/port.ts';
import { openSession } from '../../activities/mcp/session.ts';
import type { TokenRequest } from '../../activities/tokens/port.ts';
import { aCall, aConnection } from '../support/activities/tool-call.ts';
import { loopbackEgress } from '../support/egress.ts';
import { until } from '../support/until.ts';
import {
  type RawServer,
  type RawServerScript,
  type SeenRequest,
  startRawServer,
} from '../support/servers/raw-server.ts';

const OPENED = ['initialize', 'notifications/initialized'];
const isCall = ({ rpcMethod }: SeenRequest): boolean => rpcMethod === 'tools/call';
const isEnd = ({ httpMethod }: SeenRequest): boolean => httpMethod === 'DELETE';

let server: RawServer;
let tools: ToolServer;

beforeEach(async () => {
  server = await startRawServer({ era: 'legacy', sessions: 'checked' });
  tools = create();
});
afterEach(async () => {
  await tools.close?.();
  await server.close();
});

function create(parts: Pick<McpToolServerOptions, 'keptMs'> = {}): ToolServer {
  return createMcpToolServer({
    legacy: LEGACY_CALLS,
    artifacts: createMemoryStore(),
    egress: loopbackEgress(),
    ...parts,
  });
}

/** Changes what the server does from now on. */
function become(script: Partial<RawServerScript>): void {
  server.become({ era: 'legacy', sessions: 'checked', ...script });
}

function of(run: string | undefined, fields: Partial<ServerConnection> = {}): ServerConnection {
  const owner = run === undefined ? {} : { keptFor: run };
  return aConnection({ url: server.url, protocol: 'legacy', ...owner, ...fields });
}

const call = async (connection: ServerConnection, fields: Parameters<typeof aCall>[0] = {}) =>
  await tools.call(connection, aCall(fields));
const seen = (): string[] => server.seen.map(({ httpMethod, rpcMethod }) => rpcMethod ?? httpMethod);
const sessionsOfCalls = (): unknown[] => server.seen.filter(isCall).map(({ headers }) => headers['mcp-session-id']);

test('five calls of a run are seven requests, and the end of the worker ends the session', async () => {
  for (let left = 5; left > 0; left -= 1) expect(await call(of('run-1'))).toMatchObject({ kind: 'executed' });
  const calls = Array.from({ length: 5 }, () => 'tools/call');
  expect(seen()).toEqual([...OPENED, ...calls]);
  expect(new Set(sessionsOfCalls()).size).toBe(1);
  await tools.close?.();
  expect(seen()).toEqual([...OPENED, ...calls, 'DELETE']);
});

test('a session that is handed back after the end of the worker is ended too', async () => {
  await tools.close?.();
  await call(of('run-1'));
  expect(seen()).toEqual([...OPENED, 'tools/call', 'DELETE']);
});

test('the calls of a run go on in the session of its list', async () => {
  become({
    pages: [[{ name: 'write_file', inputSchema: { type: 'object' } }]],
  });
  await tools.list(of('run-1'), new AbortController().signal);
  await call(of('run-1'));
  expect(seen()).toEqual([...OPENED, 'tools/list', 'tools/call']);
});

describe('nobody else', () => {
  test.each<[string, () => [ServerConnection, ServerConnection]]>([
    ['two runs', () => [of('run-1'), of('run-2')]],
    ['other headers', () => [of('run-1'), of('run-1', { headers: { 'x-tenant': 'other' } })]],
  ])('%s have a session each', async (_, connections) => {
    const [one, other] = connections();
    for (const connection of [one, other, one, other]) await call(connection);
    const sessions = sessionsOfCalls();
    expect(new Set(sessions).size).toBe(2);
    expect(sessions.slice(2)).toEqual(sessions.slice(0, 2));
  });

  test.each<[string, () => ServerConnection]>([
    ['of nobody', () => of(undefined)],
    ['with a token, which ends with its call (INV-S2)', () => of('run-1', { accessToken: 'token-1234' })],
    ['at a server that may ask people', () => of('run-1', { asks: true })],
  ])('a session %s serves one call', async (_, connection) => {
    await call(connection());
    await call(connection());
    const one = [...OPENED, 'tools/call', 'DELETE'];
    expect(seen()).toEqual([...one, ...one]);
  });

  test('a run has another owner with another grant, consent, initiator or execution', () => {
    const run = { namespace: 'n', workflowId: 'w', specHash: 's', initiator: { id: 'ann', tenant: 't' } };
    const request = {
      run,
      server: 'files',
      serverUrl: 'https://files.example/mcp',
      initiator: run.initiator,
      signal: new AbortController().signal,
    } as const satisfies TokenRequest;
    const owners = [
      sessionOwner(request, 'first'),
      sessionOwner(request, 'second'),
      sessionOwner({ ...request, consented: ['write'] }, 'first'),
      sessionOwner({ ...request, grant: { server: 'files', sealed: 'x' } as never }, 'first'),
      sessionOwner({ ...request, initiator: { id: 'bob', tenant: 't' } }, 'first'),
      sessionOwner({ ...request, server: 'mail' }, 'first'),
    ].map(({ keptFor }) => keptFor);
    expect(new Set(owners).size).toBe(owners.length);
    expect(sessionOwner({ ...request, tool: 'write_file' }, 'first').keptFor).toBe(owners[0]);
    expect(sessionOwner(request, undefined)).toEqual({});
  });
});

test('two calls at once have a session each, and one of them is kept', async () => {
  await Promise.all([call(of('run-1')), call(of('run-1'))]);
  expect(new Set(sessionsOfCalls()).size).toBe(2);
  expect(server.seen.filter(isEnd)).toHaveLength(1);
  await call(of('run-1'));
  expect(new Set(sessionsOfCalls()).size).toBe(2);
});

test('a session that waits for the next call holds nothing of the last answer, which may be megabytes', async () => {
  const kept = createKeptSessions();
  const connection = of('run-1');
  const { signal } = new AbortController();
  const session = await openSession({ connection, connectMs: 5_000, signal, egress: loopbackEgress() });
  await session.client.callTool({ name: 'write_file', arguments: {} });
  expect(session.transport.answer).toMatchObject({ kind: 'result' });
  await kept.keepOrEnd(connection, session);
  expect(kept.take(connection)?.transport.answer).toBeUndefined();
  await session.close();
});

test('an idle session is ended', async () => {
  tools = create({ keptMs: 20 });
  await call(of('run-1'));
  const { headers } = await server.sees(isEnd);
  expect([headers['mcp-session-id']]).toEqual(sessionsOfCalls());
});

test.each([
  ['forgot it', () => server.forget()],
  [
    'answers 404 without a word',
    () => {
      let refused = 0;
      become({
        sessions: true,
        onCall: ({ status, execute, result }) => {
          if (refused++ === 0) return status(404);
          execute();
          result({ content: [] });
        },
      });
    },
  ],
] as const)('a kept session of a server that %s is opened anew, and the call runs once (F10)', async (_, lose) => {
  await call(of('run-1'));
  lose();
  expect(await call(of('run-1'))).toMatchObject({ kind: 'executed' });
  expect(server.executions()).toBe(2);
});

test('a call that is refused for its session is not sent again with less than a second of its time left', async () => {
  await call(of('run-1'));
  let sent = 0;
  become({
    sessions: true,
    // A slow server: it leaves 900 ms of two seconds.
    onCall: ({ status }) => {
      sent += 1;
      setTimeout(() => status(404, {}, 'Session not found'), 1_100);
    },
  });
  await call(of('run-1'), { timeoutMs: 2_000 });
  expect(sent).toBe(1);
});

test.each([
  '{"error":"order 42 not found"}',
  'Not Found',
  '{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":""}}',
])(
  'a 404 in other words than those of a transport does not say that a kept session is gone: sent once (INV-X1)',
  async (body) => {
    await call(of('run-1'));
    become({
      sessions: true,
      onCall: ({ execute, status }) => {
        execute();
        status(404, {}, body);
      },
    });
    expect(await call(of('run-1'))).toMatchObject({ kind: 'refused', code: 'TOOL_UNAVAILABLE' });
    expect(server.executions()).toBe(2);
  },
);

test('a call that was not answered leaves no session behind', async () => {
  const cancel = new AbortController();
  await call(of('run-1'));
  become({ onCall: () => cancel.abort() });
  expect(await call(of('run-1'), { signal: cancel.signal })).toMatchObject({ kind: 'unknown' });
  expect(server.seen.filter(isEnd)).toHaveLength(1);
  become({});
  await call(of('run-1'));
  expect(new Set(sessionsOfCalls()).size).toBe(2);
});

test('a server that went away since the last call was not sent the next one', async () => {
  await call(of('run-1'));
  await server.close();
  const next = aCall();
  expect(await tools.call(of('run-1'), next)).toMatchObject({ kind: 'not-sent', code: 'TOOL_UNAVAILABLE' });
  expect(next.beats).toEqual([{ phase: 'connecting' }]);
  server = await startRawServer({ era: 'legacy' });
});

describe('connections (docs/adr/0092)', () => {
  test('a call that may be repeated goes by one that was just used, a call that may run only once by a new one', async () => {
    const known = new Set<number | undefined>();
    const isNew: boolean[] = [];
    become({
      intercept: ({ socket: { remotePort } }, _, rpcMethod) => {
        if (rpcMethod === 'tools/call') isNew.push(!known.has(remotePort));
        known.add(remotePort);
        return false;
      },
    });
    for (const repeatable of [true, true, false, true, false]) {
      await call(of('run-1'), { repeatable });
      // Undici takes a connection back one round of the event loop after the answer.
      await immediate();
      await immediate();
    }
    expect(isNew).toEqual([false, false, true, false, true]);
  });

  test('a server that does not end the streams of its answers has one of them at a time, for a second', async () => {
    become({
      onCall: ({ execute, stream, answerWith }) => {
        execute();
        stream(`data: ${answerWith({ content: [] })}\n\n`);
      },
    });
    const hasOneStream = (): boolean => server.waiting() === 1;
    for (let left = 5; left > 0; left -= 1) {
      expect(await call(of('run-1'), { repeatable: true })).toMatchObject({ kind: 'executed' });
      await until(hasOneStream, { what: 'one open stream' });
    }
    await until(() => server.waiting() === 0, { what: 'the end of the last stream' });
    expect(server.seen.filter(isEnd)).toHaveLength(0);
    expect(await call(of('run-1'), { repeatable: true })).toMatchObject({ kind: 'executed' });
    expect(new Set(sessionsOfCalls()).size).toBe(1);
  });

  test('a call is not known to be unsent because its connection was there before it (INV-X1)', async () => {
    await call(of('run-1'), { repeatable: true });
    become({
      onCall: ({ execute, reset }) => {
        execute();
        reset();
      },
    });
    const next = aCall({ repeatable: true });
    expect(await tools.call(of('run-1'), next)).toMatchObject({ kind: 'unknown' });
    expect(next.beats).toContainEqual(expect.objectContaining({ phase: 'sent' }));
    expect(server.executions()).toBe(2);
  });
});

describe('a connection that comes about too late (INV-X1)', () => {
  test.each(['cancelled', 'out of time'])('a call that is %s by then is not sent, as it is told', async (why) => {
    const waiting: (() => void)[] = [];
    let isSlow = false;
    const resolve = async (): Promise<readonly [{ readonly address: string }]> => {
      if (isSlow) await new Promise<void>((late) => waiting.push(late));
      return [{ address: '127.0.0.1' }];
    };
    await tools.close?.();
    tools = createMcpToolServer({
      legacy: LEGACY_CALLS,
      artifacts: createMemoryStore(),
      egress: loopbackEgress({ resolve }),
    });
    const named = of('run-1', { url: server.url.replace('127.0.0.1', 'localhost') });
    await call(named);
    isSlow = true;
    const cancel = new AbortController();
    const ended = call(named, { signal: cancel.signal, timeoutMs: why === 'cancelled' ? 20_000 : 100 });
    while (waiting.length === 0) await immediate();
    if (why === 'cancelled') cancel.abort();
    else await pause(120);
    isSlow = false;
    for (const late of waiting) late();
    expect(await ended).toMatchObject({ kind: 'not-sent', code: 'TOOL_UNAVAILABLE' });
    await pause(100);
    expect(server.executions()).toBe(1);
  });
});

test('a list, and why there is none, holds no id of the session in which its calls go on (INV-S1)', async () => {
  const list = async () => JSON.stringify(await tools.list(of('run-1'), new AbortController().signal));
  const idOf = (request: IncomingMessage): string => String(request.headers['mcp-session-id']);
  become({
    methods: {
      'tools/list': ({ request, result }) => {
        const description = `Writes in session ${idOf(request)}.`;
        result({ tools: [{ name: 'write_file', description, inputSchema: { type: 'object' } }] });
      },
    },
  });
  const listed = await list();
  expect(listed).toMatch('in session');
  expect(listed).not.toContain(server.seen.at(-1)?.headers['mcp-session-id']);

  // So answers the Java SDK, where a replica does not know the session of another one.
  for (const lost of ['notifications/initialized', 'tools/list']) {
    become({
      intercept: (request, response, rpcMethod) => {
        if (rpcMethod !== lost) return false;
        response.writeHead(404).end(`Session not found: ${idOf(request)}`);
        return true;
      },
    });
    const why = String(await list().catch((error: unknown) => error));
    expect(why).toMatch('HTTP 404: Session not found: ');
    const refused = server.seen.findLast(({ rpcMethod }) => rpcMethod === lost);
    expect(why).not.toContain(refused?.headers['mcp-session-id']);
  }
});

test('a refusal while a session begins does not name it (INV-S1)', async () => {
  become({
    intercept: (request, response, rpcMethod) => {
      if (rpcMethod !== 'notifications/initialized') return false;
      response.writeHead(403).end(`Not for you: ${String(request.headers['mcp-session-id'])}`);
      return true;
    },
  });
  const ending = JSON.stringify(await call(of('run-1')));
  expect(ending).toMatch('HTTP 403: Not for you: ');
  const refused = server.seen.find(({ rpcMethod }) => rpcMethod === 'notifications/initialized');
  expect(ending).not.toContain(refused?.headers['mcp-session-id']);
});

test('a later result holds no id of the session either (INV-S1)', async () => {
  become({
    onCall: ({ request, text }) => text(`in session ${String(request.headers['mcp-session-id'])}`),
  });
  for (const _ of [1, 2]) {
    const ending = await call(of('run-1'));
    expect(JSON.stringify(ending)).toMatch('in session');
    expect(JSON.stringify(ending)).not.toContain(String(sessionsOfCalls()[0]));
  }
});
