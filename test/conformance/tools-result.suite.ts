/** What becomes of a result: kinds of content, size, secrets, storage that fails. */
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import type { ArtifactStore } from '../../activities/artifacts/port.ts';
import type { CallEnding, ServerConnection, ToolCall } from '../../activities/mcp/port.ts';
import { ToolResult } from '../../contracts/schemas/call.ts';
import { aCall, aConnection, observedArtifacts, type ToolServerHarness } from '../support/activities/tool-call.ts';
import { acts, type CallExchange, type RawServer, startRawServer } from '../support/servers/raw-server.ts';

type Executed = Extract<CallEnding, { kind: 'executed' }>;

const PNG = Buffer.from('iVBORw0KGgo=', 'base64');
const MIB = 1_048_576;

export function resultSuite({ name, create }: ToolServerHarness): void {
  describe.each(['modern', 'legacy'] as const)(`${name}: results of a %s server`, (era) => {
    let server: RawServer;
    beforeEach(async () => void (server = await startRawServer({ era })));
    afterEach(async () => server.close());

    const callThat = async (
      does: (exchange: CallExchange) => void,
      {
        artifacts,
        call,
        connection,
      }: { artifacts?: ArtifactStore; call?: Partial<ToolCall>; connection?: Partial<ServerConnection> } = {},
    ): Promise<Executed> => {
      server.become({
        era,
        onCall: acts((exchange) => does(exchange)),
      });
      const toolServer = create(artifacts === undefined ? {} : { artifacts });
      const ending = await toolServer.call(aConnection({ url: server.url, ...connection }), aCall(call));
      if (ending.kind !== 'executed')
        throw new Error(`${ending.kind}: ${ending.kind === 'input' ? 'asks' : ending.message}`);
      // Whatever came in, what is kept fits the contract.
      expect(ToolResult.parse(ending.result)).toEqual(ending.result);
      return ending;
    };

    test('the first answer counts, whatever else comes under its id', async () => {
      const { result } = await callThat(({ id, stream, response, answerWith }) => {
        const said = (message: string): string => `data: ${message}\n\n`;
        const error = JSON.stringify({ jsonrpc: '2.0', id, error: { code: -32_000, message: 'later' } });
        const [first, second] = ['first', 'second'].map((text) => answerWith({ content: [{ type: 'text', text }] }));
        stream(`${said(first ?? '')}${said(second ?? '')}${said(error)}`);
        response.end();
      });
      expect(result.content).toEqual([{ type: 'text', text: 'first' }]);
    });

    test('every kind of content is kept, and binary goes to the artifact store', async () => {
      const artifacts = observedArtifacts();
      const { result } = await callThat(
        ({ result: answer }) =>
          answer({
            content: [
              { type: 'text', text: 'hello', annotations: { audience: ['user'] } },
              { type: 'image', data: PNG.toString('base64'), mimeType: 'image/png' },
              { type: 'audio', data: 'AAAA', mimeType: 'audio/wav' },
              { type: 'resource_link', uri: 'file:///a', name: 'a', mimeType: 'text/plain', description: 'the file' },
              { type: 'resource', resource: { uri: 'file:///b', mimeType: 'text/plain', text: 'inside' } },
              { type: 'resource', resource: { uri: 'file:///c', mimeType: 'application/pdf', blob: 'JVBERg==' } },
            ],
            structuredContent: { n: 1, list: [true, null] },
          }),
        { artifacts },
      );
      expect(result.content).toMatchObject([
        { type: 'text', text: 'hello' },
        { type: 'image', mimeType: 'image/png', artifact: { bytes: PNG.length, contentType: 'image/png' } },
        { type: 'audio', mimeType: 'audio/wav', artifact: { bytes: 3 } },
        { type: 'resource_link', uri: 'file:///a', name: 'a', mimeType: 'text/plain', description: 'the file' },
        { type: 'resource', uri: 'file:///b', mimeType: 'text/plain', text: 'inside' },
        { type: 'resource', uri: 'file:///c', mimeType: 'application/pdf', artifact: { bytes: 4 } },
      ]);
      expect(result.structured).toEqual({ n: 1, list: [true, null] });
      expect(result.warnings).toBeUndefined();
      expect(artifacts.stored.map(({ bytes }) => Buffer.from(bytes).toString('latin1'))).toEqual([
        PNG.toString('latin1'),
        '\0\0\0',
        '%PDF',
      ]);
    });

    test('malformed content is dropped with a warning, the rest is kept', async () => {
      const odd = [
        null,
        7,
        { type: 'text' },
        { type: 'image', data: 1 },
        { type: 'resource', resource: { text: 'no uri' } },
        { type: 'resource', resource: 'x' },
      ];
      const { result } = await callThat(({ result: answer }) =>
        answer({ content: [...odd, { type: 'text', text: 'kept' }] }),
      );
      expect(result.content).toEqual([{ type: 'text', text: 'kept' }]);
      expect(result.warnings).toHaveLength(odd.length);
    });

    test('content that is no list is a warning, not a failure', async () => {
      const { result } = await callThat(({ result: answer }) => answer({ content: 'all fine' }));
      expect(result).toEqual({ content: [], warnings: [expect.stringContaining('no list of content')] });
    });

    test('warnings are bounded in number', async () => {
      const { result } = await callThat(({ result: answer }) =>
        answer({ content: Array.from({ length: 500 }, () => ({ type: 'x'.repeat(5_000) })) }),
      );
      expect(result.warnings).toHaveLength(21);
      expect(Math.max(...(result.warnings ?? []).map(({ length }) => length))).toBeLessThanOrEqual(300);
    });

    test('a result of 5 MiB becomes a preview within the limit and a whole in the artifact store (F12)', async () => {
      const artifacts = observedArtifacts();
      const text = 'räksmörgås "1"\n'.repeat((5 * MIB) / 18);
      const { result } = await callThat(({ result: answer }) => answer({ content: [{ type: 'text', text }] }), {
        artifacts,
        call: { resultBytes: 4_096 },
      });
      expect(Buffer.byteLength(JSON.stringify(result.content))).toBeLessThanOrEqual(4_096);
      const [first, note] = result.content;
      expect(first).toMatchObject({ type: 'text', text: expect.stringMatching(/^räksmörgås/) });
      expect(note).toMatchObject({ type: 'text', text: expect.stringMatching(/^\[Cut: \d+ of \d{7} bytes/) });
      expect(result.full).toMatchObject({ contentType: 'application/json' });
      expect(JSON.parse(Buffer.from(artifacts.stored[0]?.bytes ?? []).toString('utf8'))).toEqual({
        content: [{ type: 'text', text }],
      });
    });

    test('a large structured result alone is previewed as text', async () => {
      const { result } = await callThat(
        ({ result: answer }) => answer({ content: [], structuredContent: { rows: 'z'.repeat(2_000) } }),
        { call: { resultBytes: 512 } },
      );
      expect(result.content[0]).toMatchObject({ type: 'text', text: expect.stringMatching(/^\{"rows":"zzz/) });
    });

    test('a structured result that nests deeper than can be walked is dropped, the rest is kept (F11)', async () => {
      const depth = 200_000;
      const { result } = await callThat(({ json, id }) =>
        json(
          `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":{"resultType":"complete","content":[],"structuredContent":{"a":${'['.repeat(depth)}${']'.repeat(depth)}}}}`,
        ),
      );
      expect(result).toEqual({ content: [], warnings: [expect.stringContaining('nests deeper')] });
    });

    test('a store that fails loses the bytes, never the fact that the tool ran', async () => {
      const artifacts: ArtifactStore = {
        put: () => Promise.reject(new Error('disk full')),
        get: () => Promise.reject(new Error('disk full')),
      };
      const { result } = await callThat(
        ({ result: answer }) =>
          answer({
            content: [
              { type: 'image', data: PNG.toString('base64'), mimeType: 'image/png' },
              { type: 'text', text: 'w'.repeat(5_000) },
            ],
          }),
        { artifacts, call: { resultBytes: 1_000 } },
      );
      expect(result.full).toBeUndefined();
      expect(result.warnings).toHaveLength(2);
      expect(JSON.stringify(result)).not.toContain('disk full');
    });

    test('text is well-formed Unicode: lone surrogates are replaced', async () => {
      const { result } = await callThat(({ json, id }) =>
        json(
          `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":{"resultType":"complete","content":[{"type":"text","text":"a\\ud800b 😀"}],"structuredContent":{"k\\udfff":"\\ud800"}}}`,
        ),
      );
      expect(result).toMatchObject({
        content: [{ type: 'text', text: 'a\ufffdb 😀' }],
        structured: { 'k\ufffd': '\ufffd' },
      });
    });
  });
}

const EVENTS = 'text/event-stream';
/** Each is two values by their marks, and three bytes. */
const OBJECTS = `[${'{},'.repeat(260_000)}0]`;

export function oversizedSuite({ name, create }: ToolServerHarness): void {
  describe.each(['modern', 'legacy'] as const)(`${name}: oversized answers of a %s server`, (era) => {
    let server: RawServer;
    beforeEach(async () => void (server = await startRawServer({ era })));
    afterEach(async () => server.close());

    const endingOf = async (does: (exchange: CallExchange) => void): Promise<CallEnding> => {
      server.become({
        era,
        onCall: acts((exchange) => does(exchange)),
      });
      const ending = await create({}).call(aConnection({ url: server.url }), aCall());
      expect(server.executions()).toBe(1);
      return ending;
    };

    const UNTOLD = {
      kind: 'unknown',
      code: 'OUTCOME_UNKNOWN',
      message: expect.stringContaining('the answer is larger than'),
    };
    const UNKNOWN = {
      kind: 'unknown',
      code: 'OUTCOME_UNKNOWN',
      message: expect.stringContaining('in its stream is larger than'),
    };
    const objectsFor = (id: unknown): string =>
      `{"jsonrpc":"2.0","id":${String(id)},"result":{"content":[],"structuredContent":{"x":${OBJECTS}}}}`;

    test('INV-X2: a result of more bytes than are read is no success', async () => {
      const ending = await endingOf(({ response, id }) =>
        pour(response, 'application/json', `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":{"x":"`),
      );
      expect(ending).toMatchObject(UNTOLD);
    });

    test.each<[string, (id: string) => string]>([
      ['an error', (id) => `{"jsonrpc":"2.0","id":${id},"error":{"code":-32602,"message":"no","data":${OBJECTS}}}`],
      ['a result', objectsFor],
      ['a question', (id) => objectsFor(id).replace('"content"', '"resultType":"input_required","content"')],
      ['a body that breaks off', (id) => objectsFor(id).slice(0, -1)],
      ['no JSON', () => ' '.repeat(33 * MIB)],
    ])('INV-X2: of more than is read, %s is no success, and nobody knows what it was', async (_, body) => {
      const ending = await endingOf(({ json, id }) => json(body(JSON.stringify(id))));
      expect(ending).toMatchObject(UNTOLD);
      expect(ending).not.toHaveProperty('fault');
    });

    test('what a text holds is not counted: a table of two million commas is kept', async () => {
      const text = '"a",[b],{c},\\\n'.repeat(600_000);
      const ending = await endingOf(({ result }) => result({ content: [{ type: 'text', text }] }));
      expect(ending).toMatchObject({ kind: 'executed', result: { full: { contentType: 'application/json' } } });
      expect(ending).not.toHaveProperty('result.warnings');
    });

    test.each<[string, (exchange: CallExchange) => void]>([
      [
        'a result of more bytes',
        ({ response, id }) =>
          pour(response, EVENTS, `data: {"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":{"x":"`),
      ],
      [
        'a notification of more bytes',
        ({ response }) =>
          pour(response, EVENTS, 'data: {"jsonrpc":"2.0","method":"notifications/message","params":{"data":"'),
      ],
      ['a result of more values', ({ stream, id }) => stream(`data: ${objectsFor(id)}\n\n`)],
    ])('%s than are read, in a stream, does not say that the tool has run: nobody saw what it was', async (_, does) => {
      const ending = await endingOf(does);
      expect(ending).toMatchObject(UNKNOWN);
      expect(ending).not.toHaveProperty('fault');
    });

    test('progress of more bytes than a result may have is no result that is too large', async () => {
      const ending = await endingOf(({ response, answerWith }) => {
        response.writeHead(200, { 'content-type': EVENTS });
        const comment = `: ${'x'.repeat(MIB)}\n\n`;
        for (let sent = 0; sent < 33; sent += 1) response.write(comment);
        response.end(`data: ${answerWith({ content: [{ type: 'text', text: 'at last' }] })}\n\n`);
      });
      expect(ending).toMatchObject({ result: { content: [{ type: 'text', text: 'at last' }] } });
    });
  });
}

/** More than 32 MiB, as fast as it is read. */
function pour(response: CallExchange['response'], contentType: string, head: string): void {
  response.writeHead(200, { 'content-type': contentType });
  response.write(head);
  const block = Buffer.alloc(MIB, 'x');
  let left = 34;
  const more = (): void => {
    while (left > 0) {
      left -= 1;
      if (!response.write(block)) return void response.once('drain', more);
    }
    response.end('"}}');
  };
  more();
}
