/** `countersign dev` before anything is started: ports, model, folder. */
import { once } from 'node:events';
import { copyFile, readdir, readFile, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:net';
import { join, resolve } from 'node:path';
import { afterEach, expect, test } from '@jest/globals';
import { startDevCodec } from '../../../../cli/dev/gateway.ts';
import { demoModel, prepareFolder, writeConfig } from '../../../../cli/dev/folder.ts';
import { choosePort, Stack } from '../../../../cli/dev/stack.ts';
import { Config } from '../../../../contracts/schemas/config.ts';
import { loadConfig } from '../../../../workers/config/load.ts';
import { findTemporalCli } from '../../../../workers/dev-server.ts';
import { errorOf, runCommand } from '../../../support/cli.ts';
import { useConfigFolders } from '../../../support/config-folder.ts';

const { folder } = useConfigFolders();
let taken: Server | undefined;
afterEach(() => void taken?.close());

async function takePort(): Promise<number> {
  taken = createServer().listen(0, '127.0.0.1');
  await once(taken, 'listening');
  const address = taken.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  return address.port;
}

test('a busy port: the error names the port and the option, exit code 6, and nothing is started', async () => {
  const port = await takePort();
  const directory = await folder();
  const result = await runCommand(['dev', '--json', '--port', '0', '--ui-port', '0', '--files-port', `${port}`], {
    directory,
    env: { TEMPORAL_CLI_PATH: process.execPath },
  });
  expect(result.exitCode).toBe(6);
  expect(errorOf(result)).toMatchObject({ code: 'ENGINE_UNAVAILABLE', facts: { port, option: '--files-port' } });
  expect(await readdir(directory)).toEqual([]);
});

test('port 0 is any that is free', async () => {
  expect(await choosePort(0, '--port', 'Temporal')).toBeGreaterThan(0);
});

test('the Temporal CLI is the one that is named, else one on PATH, else the error says what to do', async () => {
  const bin = await folder({ temporal: '' });
  expect(findTemporalCli({ TEMPORAL_CLI_PATH: process.execPath, PATH: bin })).toBe(process.execPath);
  expect(findTemporalCli({ PATH: `${await folder()}:${bin}` })).toBe(join(bin, 'temporal'));
  expect(() => findTemporalCli({ TEMPORAL_CLI_PATH: '/nope', PATH: bin })).toThrow(/TEMPORAL_CLI_PATH names \/nope/);
  expect(() => findTemporalCli({})).toThrow(/docs\.temporal\.io\/cli/);
});

test('a copy of its configuration in the folder above names the same artifact store', async () => {
  const above = await folder();
  const made = await prepareFolder(join(above, '.countersign'));
  await writeConfig(made, demoModel({}), 'http://127.0.0.1:8234/mcp');
  const copy = join(above, 'countersign.yaml');
  await copyFile(made.config, copy);
  const stores = [made.config, copy].map(async (path) => {
    const { config, baseDirectory } = await loadConfig(path, {});
    return resolve(baseDirectory, config.artifacts.directory);
  });
  expect(await Promise.all(stores)).toEqual([made.artifacts, made.artifacts]);
});

test.each([
  ['a script, where no provider is offered', {}, 'scripted', 'scripted'],
  ['Anthropic', { ANTHROPIC_API_KEY: 'k' }, 'anthropic', 'claude'],
  ['OpenAI', { OPENAI_API_KEY: 'k' }, 'openai', 'gpt'],
  [
    'a compatible server before either',
    { OPENAI_BASE_URL: 'http://127.0.0.1:1/v1', ANTHROPIC_API_KEY: 'k', COUNTERSIGN_DEMO_MODEL: 'own-1' },
    'openai-compatible',
    'own-1',
  ],
  [
    'the named model of a provider',
    { ANTHROPIC_API_KEY: 'k', COUNTERSIGN_DEMO_MODEL: 'claude-x' },
    'anthropic',
    'claude-x',
  ],
])('the model is %s', (_what, env, provider, said) => {
  const { config, label } = demoModel(env);
  expect(config.provider).toBe(provider);
  expect(label).toContain(said);
});

test('a compatible server needs the name of its model', () => {
  expect(() => demoModel({ OPENAI_BASE_URL: 'http://127.0.0.1:1/v1' })).toThrow(/COUNTERSIGN_DEMO_MODEL/);
});

test('the configuration it writes loads, holds no key, and asks for everything that is not read-only (S2.1)', async () => {
  const directory = await folder();
  const made = await prepareFolder(directory);
  await writeConfig(made, demoModel({ ANTHROPIC_API_KEY: 'canary' }), 'http://127.0.0.1:8234/mcp');
  expect(await readFile(made.config, 'utf8')).not.toContain('canary');
  const { config } = await loadConfig(made.config, { ANTHROPIC_API_KEY: 'canary' }, directory);
  expect(config.policy).toMatchObject({ strategy: 'annotations', approvers: { ids: ['ann'] } });
  expect(config.models['demo']).toMatchObject({ provider: 'anthropic', apiKey: 'canary' });
});

test('sample files are put into a new folder only: what somebody made of them stays', async () => {
  const directory = await folder();
  const { files } = await prepareFolder(directory);
  expect(await readdir(files)).toEqual(['monday.txt', 'tuesday.txt']);
  await writeFile(join(files, 'monday.txt'), 'mine');
  await prepareFolder(directory);
  expect(await readFile(join(files, 'monday.txt'), 'utf8')).toBe('mine');
});

test('what was started is stopped in the opposite order, also where one part does not stop well', async () => {
  const stack = new Stack(new AbortController().signal);
  const stopped: string[] = [];
  for (const name of ['one', 'two', 'three']) {
    const stop = async (): Promise<void> => {
      stopped.push(name);
      if (name === 'two') throw new Error('it hangs');
      await Promise.resolve();
    };
    await stack.start(name, async () => await Promise.resolve({ stop }));
  }
  expect(await stack.stop()).toEqual(['two: it hangs']);
  expect(stopped).toEqual(['three', 'two', 'one']);
  expect(stack.isEmpty).toBe(true);
});

test('whoever asks to end while a part starts has it stopped, and nothing more is started', async () => {
  const asked = new AbortController();
  const stack = new Stack(asked.signal);
  const make = async () => {
    asked.abort();
    return await Promise.resolve({ stop: async () => await Promise.resolve() });
  };
  await expect(stack.start('one', make)).rejects.toBe(asked.signal.reason);
  expect(stack.isEmpty).toBe(false);
});

test('where runs are encrypted, a codec server on this machine answers the pages of this Temporal UI; else there is none', async () => {
  const said: string[] = [];
  const start = async (keys: readonly { readonly id: string; readonly key: string }[]) =>
    await startDevCodec(
      { config: Config.parse({ encryption: { keys: [...keys] } }) },
      { namespace: 'default', uiPort: 8233 },
      { err: (text) => void said.push(text) },
    );
  expect(await start([])).toBeUndefined();
  const codec = await start([{ id: 'k1', key: Buffer.alloc(32, 1).toString('base64') }]);
  try {
    expect(codec?.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
    const answers = ['http://127.0.0.1:8233', 'http://localhost:8233', 'http://localhost:9999'].map(async (origin) => {
      const headers = { 'content-type': 'application/json', 'x-namespace': 'default', origin };
      const { headers: told } = await fetch(`${codec?.url}/decode`, {
        method: 'POST',
        headers,
        body: '{"payloads":[]}',
      });
      return told.get('access-control-allow-origin');
    });
    expect(await Promise.all(answers)).toEqual(['http://127.0.0.1:8233', 'http://localhost:8233', null]);
    expect(said).toEqual([]);
  } finally {
    await codec?.stop();
  }
});
