/** `countersign worker` with a configuration that cannot be used: one error, and nothing is started. */
import { once } from 'node:events';
import { readdir } from 'node:fs/promises';
import { createServer, type Server } from 'node:net';
import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { errorOf, runCommand } from '../../support/cli.ts';
import { useConfigFolders } from '../../support/config-folder.ts';

const { folder } = useConfigFolders();

/** Where Temporal would be. */
let listener: Server;
let address: string;
let connections: number;
beforeAll(async () => {
  listener = createServer((socket) => {
    connections += 1;
    socket.destroy();
  }).listen(0, '127.0.0.1');
  await once(listener, 'listening');
  const at = listener.address();
  if (at === null || typeof at === 'string') throw new Error('no port');
  address = `127.0.0.1:${at.port}`;
});
beforeEach(() => {
  connections = 0;
});
afterAll(() => void listener.close());

const MODEL = 'provider: openai, model: m';

test.each([
  ['an unknown field', 'servers: { notes: { url: "https://a.example.com/mcp", colour: red } }', 'servers.notes.colour'],
  ['a value out of range', `models: { main: { ${MODEL}, timeoutSeconds: 841 } }`, 'models.main.timeoutSeconds'],
  ['a missing variable', `models: { main: { ${MODEL}, apiKey: "\${NOT_SET}" } }`, 'models.main.apiKey'],
  ['no https', 'servers: { notes: { url: "http://a.example.com/mcp" } }', 'servers.notes.url'],
])('%s: one error with its path, exit code 2, and nobody is connected to', async (_what, yaml, path) => {
  const directory = await folder({ 'countersign.yaml': yaml });
  const machine = await runCommand(['worker', '--address', address, '--json'], { directory });
  expect(machine.exitCode).toBe(2);
  expect(errorOf(machine)).toMatchObject({
    code: 'CONFIG_INVALID',
    message: expect.stringContaining('configuration file countersign.yaml'),
    facts: { path },
  });
  const human = await runCommand(['worker', '--address', address], { directory });
  expect(human).toMatchObject({ exitCode: 2, out: '' });
  expect(human.err).toMatch(/^error CONFIG_INVALID: [^\n]+\n$/);
  expect(human.err).toContain(path);
  expect(connections).toBe(0);
  expect(await readdir(directory)).toEqual(['countersign.yaml']);
});

test.each([{}, { COUNTERSIGN_CONFIG: '' }])(
  'no configuration, with %j: it says where it looked and what to do, connects to nobody, and makes no store',
  async (env) => {
    const directory = await folder();
    const result = await runCommand(['worker', '--address', address, '--deadline', '1', '--json'], { directory, env });
    expect(result.exitCode).toBe(2);
    const { code, message } = errorOf(result);
    expect(code).toBe('CONFIG_INVALID');
    expect(message).toContain(`no countersign.yaml in ${directory}`);
    for (const way of ['--config FILE', 'COUNTERSIGN_CONFIG', 'countersign.example.yaml'])
      expect(message).toContain(way);
    expect(connections).toBe(0);
    expect(await readdir(directory)).toEqual([]);
  },
);

test('role tools with nothing to serve ends before it connects, after the warning that says why', async () => {
  const yaml = 'servers: { notes: { url: "https://a.example.com/mcp", credentials: { kind: none } } }';
  const directory = await folder({ 'countersign.yaml': yaml });
  const result = await runCommand(['worker', '--role', 'tools', '--address', address], { directory });
  expect(result).toMatchObject({ exitCode: 2, out: '' });
  expect(result.err).toMatch(
    /^warning: servers\.notes has no taskQueue of its own: [^\n]+\nerror CONFIG_INVALID: [^\n]+\n$/,
  );
  expect(connections).toBe(0);
});
