/** Reading a linked resource: one `resources/read`, on the path of a call in both eras (rows of mcp.md §2.1; F12, F29). */
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { MASK } from '../../activities/scrubbing/scrubber.ts';
import type { CallEnding, ServerConnection, ToolCall } from '../../activities/mcp/port.ts';
import { READ_RESOURCE } from '../../contracts/names.ts';
import { ToolResult } from '../../contracts/schemas/call.ts';
import { READ_RESOURCE_TOOL } from '../../domain/run/resource-link.ts';
import { aCall, aConnection, observedArtifacts, type ToolServerHarness } from '../support/activities/tool-call.ts';
import { acts, type CallExchange, type RawServer, startRawServer } from '../support/servers/raw-server.ts';

const URI = 'demo://räk/1?a=b c';
const TOKEN = 'canary-token-789';

export function resourceSuite({ name, create }: ToolServerHarness): void {
  describe.each(['modern', 'legacy'] as const)(`${name}: resources of a %s server`, (era) => {
    let server: RawServer;
    const artifacts = observedArtifacts();
    beforeEach(async () => void (server = await startRawServer({ era })));
    afterEach(async () => server.close());

    const read = async (
      does: (exchange: CallExchange) => void,
      call: Partial<ToolCall> = {},
      connection: Partial<ServerConnection> = {},
    ): Promise<CallEnding> => {
      server.become({
        era,
        onRead: acts((exchange) => does(exchange)),
      });
      return await create({ artifacts }).call(
        aConnection({ url: server.url, ...connection }),
        aCall({ definition: READ_RESOURCE_TOOL, arguments: { uri: URI }, ...call }),
      );
    };
    const contents =
      (...list: readonly object[]) =>
      ({ result }: CallExchange) =>
        result({ contents: list, ttlMs: 0, cacheScope: 'private' });

    test('text and bytes come back as embedded resources, asked for once, by the URI alone', async () => {
      const ending = await read(
        contents(
          { uri: URI, mimeType: 'text/plain', text: 'words' },
          { uri: `${URI}#2`, mimeType: 'application/pdf', blob: 'JVBERg==' },
        ),
      );
      if (ending.kind !== 'executed') throw new Error(JSON.stringify(ending));
      expect(ToolResult.parse(ending.result)).toEqual(ending.result);
      expect(ending).toMatchObject({
        isError: false,
        result: {
          content: [
            { type: 'resource', uri: URI, mimeType: 'text/plain', text: 'words' },
            { type: 'resource', uri: `${URI}#2`, mimeType: 'application/pdf', artifact: { bytes: 4 } },
          ],
        },
      });
      expect(Buffer.from(artifacts.stored.at(-1)?.bytes ?? []).toString()).toBe('%PDF');
      expect(server.executions()).toBe(1);
      const asked = server.seen.filter(({ rpcMethod }) => rpcMethod === 'resources/read');
      expect(asked).toMatchObject([{ params: { uri: URI }, headers: { 'idempotency-key': 'run-1/t1.c0' } }]);
      expect(server.seen.map(({ rpcMethod }) => rpcMethod)).not.toContain('tools/call');
    });

    test('what is too long becomes a preview, the whole goes to the artifact store (F12)', async () => {
      const text = 'line\n'.repeat(20_000);
      const ending = await read(contents({ uri: URI, text }), { resultBytes: 4_096 });
      if (ending.kind !== 'executed') throw new Error(JSON.stringify(ending));
      expect(Buffer.byteLength(JSON.stringify(ending.result.content))).toBeLessThanOrEqual(4_096);
      expect(ending.result.content[0]).toMatchObject({ type: 'resource', uri: URI });
      expect(ending.result.full).toMatchObject({ contentType: 'application/json' });
    });

    test('a token that is echoed in text, URI, type and bytes is scrubbed (INV-S1, F29)', async () => {
      const before = artifacts.stored.length;
      const echo = { uri: `x://${TOKEN}`, mimeType: `text/${TOKEN}` };
      const blob = Buffer.from(`\0${TOKEN}\0`).toString('base64');
      const ending = await read(
        contents({ ...echo, text: `a ${TOKEN} b` }, { ...echo, blob }),
        {},
        { secrets: [TOKEN] },
      );
      expect(JSON.stringify(ending)).not.toContain(TOKEN);
      expect(ending).toMatchObject({ result: { content: [{ text: `a ${MASK} b` }, { artifact: {} }] } });
      const kept = artifacts.stored.slice(before).map(({ bytes }) => Buffer.from(bytes).toString('latin1'));
      expect(kept).toHaveLength(1);
      expect(kept.join()).not.toContain(TOKEN);
    });

    test.each([
      [-32_002, 'RESOURCE_UNKNOWN', /has no such resource/],
      [-32_602, 'RESOURCE_UNKNOWN', /has no such resource/],
      [-32_601, 'TOOL_REFUSED', /JSON-RPC error -32601/],
      [-32_603, 'TOOL_REFUSED', /JSON-RPC error -32603/],
      [7, 'TOOL_REFUSED', /JSON-RPC error 7/],
    ])('error %i is the end of it, and nothing is unknown: %s', async (code, says, words) => {
      const ending = await read(({ error }) => error(code, `no ${TOKEN}`), {}, { secrets: [TOKEN] });
      expect(ending).toMatchObject({ kind: 'refused', code: says, message: expect.stringMatching(words) });
      expect(JSON.stringify(ending)).not.toContain(TOKEN);
      expect(server.executions()).toBe(1);
    });

    test('a lost answer is unknown and is not asked for again here: that is for local policy to say (INV-X1)', async () => {
      const ending = await read(({ reset }) => reset());
      expect(ending).toMatchObject({ kind: 'unknown', code: 'OUTCOME_UNKNOWN' });
      expect(server.executions()).toBe(1);
    });

    test.each([
      [401, 'TOOL_UNAUTHORIZED'],
      [403, 'TOOL_FORBIDDEN'],
      [429, 'TOOL_RATE_LIMITED'],
    ])('HTTP %i means what it means for a call: %s', async (status, code) => {
      expect(await read((exchange) => exchange.status(status))).toMatchObject({ kind: 'refused', code });
    });

    test.each([
      ['no list', { contents: 'x' }],
      ['nothing', {}],
      ['things that are no resource', { contents: [7, null, { uri: 1 }, { text: 'no uri' }] }],
    ])('an answer with %s is a result with warnings', async (_, fields) => {
      const ending = await read(({ result }) => result({ ...fields, ttlMs: 0, cacheScope: 'private' }));
      expect(ending).toMatchObject({ kind: 'executed', isError: false, result: { content: [] } });
      expect(ending).toHaveProperty('result.warnings');
    });

    test('a read is never a link to more: what looks like one is not kept', async () => {
      const ending = await read(contents({ type: 'resource_link', uri: 'file:///etc/passwd', name: 'a', text: 'x' }));
      expect(ending).toMatchObject({ result: { content: [{ type: 'resource' }] } });
    });

    test('that it has resources is said with its list of tools, and only then', async () => {
      const list = async () => await create().list(aConnection({ url: server.url }), new AbortController().signal);
      expect(await list()).not.toHaveProperty('resources');
      server.become({ era, onRead: () => {} });
      expect(await list()).toMatchObject({ resources: true });
    });

    test('a tool that a server lists under the name of ours is refused by name', async () => {
      const pages = [[{ name: READ_RESOURCE, inputSchema: { type: 'object' } }]];
      server.become({ era, onRead: () => {}, pages });
      const listing = await create().list(aConnection({ url: server.url }), new AbortController().signal);
      expect(listing).toMatchObject({ tools: [], refused: [{ name: READ_RESOURCE }] });
    });
  });

  test(`${name}: a server of 2026-07-28 that asks for input it may not have has refused the read`, async () => {
    const server = await startRawServer({
      era: 'modern',
      onRead: ({ result }) => result({ resultType: 'input_required', requestState: 's' }),
    });
    const call = aCall({ definition: READ_RESOURCE_TOOL, arguments: { uri: URI }, noInput: 'nobody is asked' });
    const ending = await create().call(aConnection({ url: server.url }), call);
    expect(ending).toMatchObject({
      kind: 'refused',
      code: 'TOOL_REFUSED',
      message: expect.stringContaining('nobody is asked'),
    });
    await server.close();
  });
}
