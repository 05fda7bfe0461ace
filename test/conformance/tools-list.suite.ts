/** Discovery: every page is walked, and what cannot be offered is refused by name with the reason (S1.7). */
import type { ServerResponse } from 'node:http';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import type { ServerConnection, ToolListing } from '../../activities/mcp/port.ts';
import { CountersignError } from '../../contracts/errors.ts';
import { aConnection, type ToolServerHarness } from '../support/activities/tool-call.ts';
import { withCode } from '../support/refusal.ts';
import { type RawServer, type RawServerScript, startRawServer } from '../support/servers/raw-server.ts';

const aTool = (fields: object = {}): object => ({ name: 'plain', inputSchema: { type: 'object' }, ...fields });
const never = (): AbortSignal => new AbortController().signal;

export function listSuite({ name, create }: ToolServerHarness): void {
  describe.each(['modern', 'legacy'] as const)(`${name}: tools of a %s server`, (era) => {
    let server: RawServer;
    beforeEach(async () => void (server = await startRawServer({ era })));
    afterEach(async () => server.close());

    const listOf = (
      script: Partial<RawServerScript>,
      connection: Partial<ServerConnection> = {},
    ): Promise<ToolListing> => {
      server.become({ era, ...script });
      return create().list(aConnection({ url: server.url, ...connection }), never());
    };
    const failureOf = async (script: Partial<RawServerScript>): Promise<CountersignError> => {
      const thrown: unknown = await listOf(script).catch((error: unknown) => error);
      if (thrown instanceof CountersignError) return thrown;
      throw new Error('a CountersignError was expected', { cause: thrown });
    };
    /** Answers the first requests of these methods in the server's place. */
    const instead = (
      methods: readonly string[],
      answer: (response: ServerResponse, id: unknown) => void,
    ): Partial<RawServerScript> => ({
      intercept: (_, response, method = '', id) => methods.includes(method) && (answer(response, id), true),
    });
    const LIST = ['tools/list'];
    const JSON_TYPE = { 'content-type': 'application/json' };
    const answering = (status: number, headers: Readonly<Record<string, string>> = {}): Partial<RawServerScript> =>
      instead(LIST, (response) => response.writeHead(status, headers).end('sorry'));
    /** As text: what no JSON value of ours can say. */
    const listing = (tools: string, more = ''): Partial<RawServerScript> =>
      instead(LIST, (response, id) => {
        const fields = '"resultType":"complete","ttlMs":0,"cacheScope":"private"';
        const result = `{${fields},"tools":[${tools}]${more}}`;
        response.writeHead(200, JSON_TYPE).end(`{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":${result}}`);
      });

    test('every page is walked, in order', async () => {
      const { tools, refused } = await listOf({
        pages: [[aTool({ name: 'a' }), aTool({ name: 'b' })], [], [aTool({ name: 'c' })]],
      });
      expect(tools.map((tool) => tool.name)).toEqual(['a', 'b', 'c']);
      expect(refused).toEqual([]);
    });

    test('a definition keeps what a person or a model reads, and annotations of any type', async () => {
      const sent = {
        name: 'a.b/c__d-E',
        title: 'Title',
        description: 'Does it.',
        inputSchema: { type: 'object', properties: { a: { type: 'string' } } },
        outputSchema: { type: 'object' },
        annotations: { readOnlyHint: 'yes', destructiveHint: 1, custom: { x: [null] } },
      };
      const { tools } = await listOf({
        pages: [[{ ...sent, _meta: { a: 1 }, icons: [], execution: { taskSupport: 'optional' } }]],
      });
      expect(tools).toEqual([sent]);
    });

    test.each([
      ['has no name', { name: '' }, 'no name'],
      ['has a name that is no string', { name: 7 }, 'no name'],
      ['has a name of 129 characters', { name: 'n'.repeat(129) }, 'longer than 128'],
      ['has a space in its name', { name: 'delete file' }, 'characters other than'],
      ['has a name beyond ASCII', { name: 'läsa' }, 'characters other than'],
      ['takes no object', { inputSchema: { type: 'string' } }, 'inputSchema'],
      ['has no inputSchema', { inputSchema: undefined }, 'inputSchema'],
      ['has an outputSchema that is no object', { outputSchema: true }, 'outputSchema'],
      ['has annotations that are no object', { annotations: 'safe' }, 'annotations'],
      ['has a title that is no string', { title: 1 }, 'title'],
      ['has a description that is no string', { description: ['x'] }, 'description'],
      ['has a definition above 64 KiB', { description: 'd'.repeat(70_000) }, 'more than 65536'],
      ['can only be called as a task', { execution: { taskSupport: 'required' } }, 'as a task'],
      [
        'declares an illegal x-mcp-header',
        { inputSchema: { type: 'object', properties: { a: { type: 'array', 'x-mcp-header': 'A' } } } },
        'x-mcp-header',
      ],
    ])('a tool that %s is refused by name, and the others are offered', async (_, fields, reason) => {
      const { tools, refused } = await listOf({
        pages: [[aTool({ name: 'before' }), aTool(fields), aTool({ name: 'after' })]],
      });
      expect(tools.map((tool) => tool.name)).toEqual(['before', 'after']);
      expect(refused).toEqual([{ name: expect.any(String), reason: expect.stringContaining(reason) }]);
      expect(refused[0]?.name.length).toBeLessThan(140);
    });

    test('what is no object at all is refused too', async () => {
      expect(await listOf({ pages: [[null, 'tool', [aTool()]]] })).toMatchObject({
        tools: [],
        refused: [{ name: '' }, { name: '' }, { name: '' }],
      });
    });

    test('a name that is listed twice, even across pages, offers none of the two', async () => {
      const { tools, refused } = await listOf({
        pages: [[aTool({ name: 'twin' }), aTool({ name: 'single' })], [aTool({ name: 'twin', description: 'other' })]],
      });
      expect(tools.map((tool) => tool.name)).toEqual(['single']);
      expect(refused).toEqual([{ name: 'twin', reason: expect.stringContaining('more than once') }]);
    });

    test('a name of 128 legal characters is offered', async () => {
      const longest = `${'aZ09_.-/'.repeat(16)}`;
      expect((await listOf({ pages: [[aTool({ name: longest })]] })).tools).toMatchObject([{ name: longest }]);
    });

    test('a long description is cut with a mark', async () => {
      const { tools } = await listOf({ pages: [[aTool({ description: 'd'.repeat(20_000) })]] });
      expect(tools[0]?.description).toMatch(/^d{16384} \[…\]$/);
    });

    const before = JSON.stringify(aTool({ name: 'before' }));
    const after = JSON.stringify(aTool({ name: 'after' }));

    test.each([
      ['nests 100 levels', `{"type":"object","not":${'{"not":'.repeat(100)}{}${'}'.repeat(100)}}`, 'nests'],
      ['nests 5,000 levels', `{"type":"object","not":${'['.repeat(5_000)}${']'.repeat(5_000)}}`, 'nests'],
      ['has a number that no JSON can keep', '{"type":"object","properties":{"n":{"maximum":1e999}}}', '1e999'],
      ['has one below zero', '{"type":"object","minimum":-1e999}', '1e999'],
    ])('INV-G4: a tool whose schema %s is refused by name, and hides no other', async (_, inputSchema, reason) => {
      const odd = `{"name":"odd","inputSchema":${inputSchema}}`;
      const { tools, refused } = await listOf(listing(`${before},${odd},${after}`));
      expect(tools.map((tool) => tool.name)).toEqual(['before', 'after']);
      expect(refused).toEqual([{ name: 'odd', reason: expect.stringContaining(reason) }]);
    });

    test('a number in what is not kept of a tool is no reason to refuse it', async () => {
      const tool = '{"name":"fine","inputSchema":{"type":"object"},"_meta":{"n":1e999}}';
      expect(await listOf(listing(tool))).toEqual({ tools: [aTool({ name: 'fine' })], refused: [] });
    });

    test.each([
      ['more entries than a stack holds', `${'0,'.repeat(200_000)}0`, '1000 tools'],
      ['more values than are read', `${'{},'.repeat(260_000)}0`, 'could not be listed'],
    ])('a page of %s fails the discovery, with its code', async (_, tools, reason) => {
      const { code, message } = await failureOf(listing(tools));
      expect(code).toBe('DISCOVERY_FAILED');
      expect(message).toContain(reason);
    });

    test('a server without tools has an empty list', async () => {
      const modern = { resultType: 'complete', supportedVersions: ['2026-07-28'], ttlMs: 0, cacheScope: 'private' };
      const legacy = { protocolVersion: '2025-11-25', serverInfo: { name: 'raw', version: '1' } };
      const result = { ...(era === 'modern' ? modern : legacy), capabilities: {} };
      const empty = await listOf(
        instead([era === 'modern' ? 'server/discover' : 'initialize'], (response, id) =>
          response.writeHead(200, JSON_TYPE).end(JSON.stringify({ jsonrpc: '2.0', id, result })),
        ),
      );
      expect(empty).toEqual({ tools: [], refused: [] });
    });

    test('the list is read with the token and headers that calls are made with (S1.7)', async () => {
      await listOf({}, { accessToken: 'token-1234', headers: { 'x-tenant': 'acme' } });
      const { headers } = await server.sees(({ rpcMethod }) => rpcMethod === 'tools/list');
      expect(headers).toMatchObject({ authorization: 'Bearer token-1234', 'x-tenant': 'acme' });
    });

    test.each([
      [401, {}, 'TOOL_UNAUTHORIZED'],
      [403, {}, 'TOOL_FORBIDDEN'],
      [404, {}, 'DISCOVERY_FAILED'],
      [429, { 'retry-after': '5' }, 'DISCOVERY_FAILED'],
      [500, {}, 'DISCOVERY_FAILED'],
    ] as const)('HTTP %i fails discovery: %j, %s', async (status, headers, code) => {
      expect((await failureOf(answering(status, headers))).code).toBe(code);
    });

    test('a missing scope is named', async () => {
      const { code, facts } = await failureOf(
        answering(403, { 'www-authenticate': 'Bearer error="insufficient_scope", scope="tools:read"' }),
      );
      expect({ code, facts }).toEqual({ code: 'TOOL_INSUFFICIENT_SCOPE', facts: { requiredScope: 'tools:read' } });
    });

    test('a Retry-After goes with the failure', async () => {
      expect((await failureOf(answering(503, { 'retry-after': '5' }))).facts).toEqual({ retryAfterMs: 5_000 });
    });

    test.each([
      ['1,001 tools', [Array.from({ length: 1_001 }, (_, n) => aTool({ name: `t${n}` }))], '1000 tools'],
      ['65 pages', Array.from({ length: 65 }, () => []), '64 pages'],
    ])('%s are too many', async (_, pages, reason) => {
      const { code, message } = await failureOf({ pages });
      expect(code).toBe('DISCOVERY_FAILED');
      expect(message).toContain(reason);
    });

    test('1,000 tools on 64 pages are not', async () => {
      const pages = Array.from({ length: 64 }, (_, page) =>
        Array.from({ length: page < 40 ? 25 : 0 }, (__, n) => aTool({ name: `t${page}.${n}` })),
      );
      expect((await listOf({ pages })).tools).toHaveLength(1_000);
    });

    test('a cursor that comes again ends the walk with a failure', async () => {
      const { message } = await failureOf(listing(JSON.stringify(aTool()), ',"nextCursor":"x"'));
      expect(message).toContain('does not end');
    });

    test('an empty cursor is the end', async () => {
      const { tools } = await listOf(listing(JSON.stringify(aTool()), ',"nextCursor":""'));
      expect(tools).toHaveLength(1);
    });

    test('INV-D2: definitions of 4 MiB together are listed, and more are refused with what to do', async () => {
      const tools = (count: number) =>
        Array.from({ length: count }, (_, index) =>
          aTool({ name: `t${index}`, annotations: { x: 'x'.repeat(50_000) } }),
        );
      expect((await listOf({ pages: [tools(40), tools(80).slice(40)] })).tools).toHaveLength(80);
      const { code, message } = await failureOf({ pages: [tools(50), tools(90).slice(50)] });
      expect(code).toBe('DISCOVERY_FAILED');
      expect(message).toMatch(/4194304 .* Offer fewer tools/);
    });

    test('INV-D2: what a server lists is read up to 32 MiB, kept or not', async () => {
      const huge = (called: string) => [aTool({ name: called, description: 'd'.repeat(12_000_000) })];
      const { message } = await failureOf({ pages: [huge('a'), huge('b'), huge('c'), [aTool()]] });
      expect(message).toContain('33554432');
    });

    test('a stream that dies is a failure, not a wait', async () => {
      const { code } = await failureOf(
        instead(LIST, (response) => response.writeHead(200, { 'content-type': 'text/event-stream' }).end(': bye\n\n')),
      );
      expect(code).toBe('DISCOVERY_FAILED');
    });

    test('a cancelled discovery ends', async () => {
      const cancel = new AbortController();
      server.become({ era, ...instead(LIST, () => cancel.abort()) });
      await expect(create().list(aConnection({ url: server.url }), cancel.signal)).rejects.toMatchObject({
        code: 'DISCOVERY_FAILED',
      });
    });

    test('a server that is down fails discovery, and the failure names the server', async () => {
      await server.close();
      const thrown = create().list(aConnection({ url: server.url }), never());
      await expect(thrown).rejects.toMatchObject(withCode('DISCOVERY_FAILED', '"files"'));
      server = await startRawServer({ era });
    });
  });
}
