/** The MCP adapter against servers that no one here wrote (side effects are looked at on disk, not believed). */
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { LEGACY_CALLS } from '../../activities/mcp/legacy-2025/legacy-calls.ts';
import { createMcpToolServer } from '../../activities/mcp/mcp-server.ts';
import type { ServerConnection, ToolCall, ToolServer } from '../../activities/mcp/port.ts';
import type { JsonObject } from '../../contracts/schemas/json.ts';
import type { ToolDefinition } from '../../contracts/schemas/tool.ts';
import { aCall, aConnection, aDefinition, observedArtifacts } from '../support/activities/tool-call.ts';
import { loopbackEgress } from '../support/egress.ts';
import {
  type FilesystemServer,
  type RunningMcpServer,
  startEverythingServer,
  startFilesystemServer,
} from '../support/servers/real-servers.ts';

class Tools {
  readonly #byName = new Map<string, ToolDefinition>();
  readonly #server: ToolServer;
  readonly #connection: ServerConnection;
  private constructor(server: ToolServer, connection: ServerConnection, tools: readonly ToolDefinition[]) {
    this.#server = server;
    this.#connection = connection;
    for (const tool of tools) this.#byName.set(tool.name, tool);
  }
  static async of(server: ToolServer, connection: ServerConnection): Promise<Tools> {
    const { tools } = await server.list(connection, new AbortController().signal);
    return new Tools(server, connection, tools);
  }
  definition(name: string): ToolDefinition {
    return this.#byName.get(name) ?? aDefinition({ name });
  }
  call(name: string, args: JsonObject, fields: Partial<ToolCall> = {}): ReturnType<ToolServer['call']> {
    return this.#server.call(
      this.#connection,
      aCall({ definition: this.definition(name), arguments: args, ...fields }),
    );
  }
}

describe.each(['2026-07-28', 'legacy', 'auto'] as const)(
  'the filesystem server behind mcp-proxy, protocol %s',
  (protocol) => {
    let files: FilesystemServer;
    let tools: Tools;
    beforeAll(async () => {
      files = await startFilesystemServer();
      tools = await Tools.of(
        createMcpToolServer({ legacy: LEGACY_CALLS, artifacts: observedArtifacts(), egress: loopbackEgress() }),
        aConnection({ url: files.url, protocol }),
      );
    });
    afterAll(async () => files.close());

    test('a file is written once, and read back', async () => {
      const path = join(files.folder, 'note.txt');
      expect(await tools.call('write_file', { path, content: 'räk "1"' })).toMatchObject({
        kind: 'executed',
        isError: false,
      });
      expect(await readFile(path, 'utf8')).toBe('räk "1"');
      expect(await tools.call('read_text_file', { path })).toMatchObject({
        kind: 'executed',
        isError: false,
        result: { content: [{ type: 'text', text: 'räk "1"' }], structured: { content: 'räk "1"' } },
      });
    });

    test('a tool that is not safe to repeat ran once: the file has moved', async () => {
      const [source, destination] = [join(files.folder, 'from.txt'), join(files.folder, 'to.txt')];
      await writeFile(source, 'x');
      expect(await tools.call('move_file', { source, destination })).toMatchObject({
        kind: 'executed',
        isError: false,
      });
      expect((await readdir(files.folder)).filter((name) => /^(?:from|to)/.test(name))).toEqual(['to.txt']);
    });

    test('what the server forbids is an error of the tool', async () => {
      const ending = await tools.call('write_file', { path: '/countersign-outside.txt', content: 'x' });
      expect(ending).toMatchObject({
        kind: 'executed',
        isError: true,
        result: { content: [{ text: expect.stringContaining('Access denied') }] },
      });
    });

    test('an image is kept as an artifact', async () => {
      const path = join(files.folder, 'dot.png');
      await writeFile(path, Buffer.from('iVBORw0KGgo=', 'base64'));
      expect(await tools.call('read_media_file', { path })).toMatchObject({
        result: { content: [{ type: 'image', mimeType: 'image/png', artifact: { bytes: 8 } }] },
      });
    });

    // The server sends it twice, as text and structured, and mcp-proxy ends a server whose line is longer than 10 MB.
    test('a file of 2 MB comes back as a preview', async () => {
      const path = join(files.folder, 'large.txt');
      await writeFile(path, 'line of text\n'.repeat(160_000));
      const ending = await tools.call('read_text_file', { path });
      expect(ending).toMatchObject({
        kind: 'executed',
        isError: false,
        result: { full: { contentType: 'application/json' } },
      });
      expect(Buffer.byteLength(JSON.stringify(ending))).toBeLessThan(70_000);
    });

    test('a tool that it does not have is refused as vanished', async () => {
      expect(await tools.call('no_such_tool', {})).toMatchObject({ kind: 'refused', code: 'TOOL_UNKNOWN' });
    });
  },
);

describe('server-everything (legacy era, stateful, v1 SDK)', () => {
  let everything: RunningMcpServer;
  let tools: Tools;
  const artifacts = observedArtifacts();
  beforeAll(async () => {
    everything = await startEverythingServer();
    tools = await Tools.of(
      createMcpToolServer({ legacy: LEGACY_CALLS, artifacts, egress: loopbackEgress() }),
      aConnection({ url: everything.url }),
    );
  });
  afterAll(async () => everything.close());

  test.each([
    ['text comes back', 'echo', { message: 'hello' }, [{ type: 'text', text: 'Echo: hello' }]],
    [
      'an image comes back',
      'get-tiny-image',
      {},
      [
        { type: 'text' },
        { type: 'image', mimeType: 'image/png', artifact: { contentType: 'image/png' } },
        { type: 'text' },
      ],
    ],
    [
      'resource links come back',
      'get-resource-links',
      { count: 2 },
      [{ type: 'text' }, { type: 'resource_link', uri: 'demo://resource/dynamic/blob/1' }, { type: 'resource_link' }],
    ],
    [
      'an embedded text resource comes back',
      'get-resource-reference',
      { resourceType: 'Text', resourceId: 1 },
      [{ type: 'text' }, { type: 'resource', text: expect.stringContaining('plaintext') }, { type: 'text' }],
    ],
    [
      'an embedded binary resource comes back',
      'get-resource-reference',
      { resourceType: 'Blob', resourceId: 1 },
      [{ type: 'text' }, { type: 'resource', artifact: { bytes: expect.any(Number) } }, { type: 'text' }],
    ],
  ] as const)('%s', async (_, name, args, content) => {
    expect(await tools.call(name, args)).toMatchObject({ kind: 'executed', isError: false, result: { content } });
  });

  test('structured content comes back and fits the output schema', async () => {
    const ending = await tools.call('get-structured-content', { location: 'New York' });
    expect(ending).toMatchObject({
      kind: 'executed',
      result: { structured: { temperature: expect.any(Number), conditions: expect.any(String) } },
    });
    expect(ending).not.toHaveProperty('result.warnings');
  });

  test('a long operation reports progress to its end', async () => {
    const call = aCall();
    const ending = await tools.call(
      'trigger-long-running-operation',
      { duration: 0.2, steps: 2 },
      { heartbeat: call.heartbeat },
    );
    expect(ending).toMatchObject({ kind: 'executed', isError: false });
    expect(call.beats.flatMap(({ progress }) => (progress === undefined ? [] : [progress]))).toEqual([1, 2]);
  });

  test('a long operation that is cancelled at its first progress is of unknown outcome (F37)', async () => {
    const cancel = new AbortController();
    const ending = await tools.call(
      'trigger-long-running-operation',
      { duration: 3_600, steps: 36_000 },
      {
        signal: cancel.signal,
        heartbeat: ({ progress }) => {
          if (progress !== undefined) cancel.abort();
        },
      },
    );
    expect(ending).toMatchObject({ kind: 'unknown', code: 'OUTCOME_UNKNOWN' });
  });

  test('a tool that can only be a task is listed as one, since the server takes tasks', async () => {
    const { refused, tools: listed } = await createMcpToolServer({
      legacy: LEGACY_CALLS,
      artifacts,
      egress: loopbackEgress(),
    }).list(aConnection({ url: everything.url }), new AbortController().signal);
    expect(refused).toEqual([]);
    expect(listed.filter(({ taskSupport }) => taskSupport !== undefined)).toMatchObject([
      { name: 'simulate-research-query', taskSupport: 'required' },
    ]);
  });

  test('a tool that it does not have is refused as vanished, though the v1 SDK says so in a result', async () => {
    expect(await tools.call('gone', {})).toMatchObject({ kind: 'refused', code: 'TOOL_UNKNOWN' });
  });
});
