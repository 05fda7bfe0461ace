/** The list and the calls of a run share a session of its server, and a run has none of another's (docs/adr/0061). */
import { expect, test } from '@jest/globals';
import { startRawServer } from '../support/servers/raw-server.ts';
import { startWorld } from '../support/world/world.ts';

const LOOK = { calls: [{ tool: 'files/look', arguments: {} }] };

test('a run opens one session, and the end of its worker ends it', async () => {
  const files = await startRawServer({
    era: 'legacy',
    sessions: 'checked',
    pages: [[{ name: 'look', inputSchema: { type: 'object' } }]],
  });
  const world = await startWorld({
    config: {
      policy: { servers: { files: { tools: { look: 'allow' } } } },
      servers: { files: { url: files.url, protocol: 'legacy', credentials: { kind: 'none' } } },
    },
    beside: [files],
  });
  const requests = (): string[] => files.seen.map(({ httpMethod, rpcMethod }) => rpcMethod ?? httpMethod);
  const ofOne = ['initialize', 'notifications/initialized', 'tools/list', 'tools/call', 'tools/call', 'tools/call'];
  try {
    for (const _ of ['one', 'other']) await (await world.start([LOOK, LOOK, LOOK, { text: 'done' }])).result();
    expect(requests()).toEqual([...ofOne, ...ofOne]);
    const sessions = files.seen.flatMap(({ headers }) => headers['mcp-session-id'] ?? []);
    expect(new Set(sessions).size).toBe(2);
    await world.workers.stop();
    expect(requests().slice(2 * ofOne.length)).toEqual(['DELETE', 'DELETE']);
  } finally {
    await world.stop();
  }
});
