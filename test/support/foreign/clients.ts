/**
 * Calls tools through the gate by clients that no one here wrote, unmodified and with their own defaults. What the
 * guide shows for a client is what is run here.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Client as ModernClient, StreamableHTTPClientTransport as ModernHttp } from '@modelcontextprotocol/client';
import { StdioClientTransport as ModernStdio } from '@modelcontextprotocol/client/stdio';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ensureNpmFolder } from '../../../scripts/npm-folder.mjs';
import { ensureVenv } from '../../../scripts/python-venv.mjs';
import { blocksOf } from '../guide.ts';
import { programArgs } from '../program.ts';
import { CLIENT, type ForeignWorld, type Hold, HOLDS } from './world.ts';
import { secretOf } from '../scenes/gate-world.ts';

/** An install without a cache may take minutes. */
export const INSTALL_MS = 900_000;

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
export const PACKAGES = fileURLToPath(new URL('packages', import.meta.url));

/** Installs the npm packages of others that few tests need. @returns the folder that has `node_modules` */
export async function foreignPackages(): Promise<string> {
  return await ensureNpmFolder('foreign', PACKAGES);
}
const GUIDE = 'docs/guide/gate.md';
export const KEY = secretOf('ann/coder');

/** A call on its way. */
export interface Calling {
  /** Everything that the client says of the outcome, errors too; rejects if the client was ended. */
  readonly said: Promise<string>;
  /** Ends the client, and the server that it may have started, as a crash does. */
  leave(): Promise<void>;
}

/** A test tells its calls apart by their purpose. */
export type Arguments = Readonly<{ purpose: string }>;

export type ForeignClient = (scene: ForeignWorld, hold: Hold, tool: string, args: Arguments) => Calling;

/** Installs what has to be installed, once for each user. */
export async function foreignClients(): Promise<Readonly<Record<ForeignName, ForeignClient>>> {
  const packages = await foreignPackages();
  const sdk = await ensureVenv('python-sdk', join(PACKAGES, 'python-sdk.txt'));
  const langchain = await ensureVenv('python-langchain', join(PACKAGES, 'python-langchain.txt'));
  const inspector = join(packages, 'node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js');
  const [byUrl, byCommand] = [await settings('"url"'), await settings('"command"')];
  const inspect = (config: (scene: ForeignWorld, hold: Hold) => string): ForeignClient => {
    return (scene, hold, tool, args) => {
      const file = fileOf(scene, hold);
      const named = ['--method', 'tools/call', '--tool-name', `bank__${tool}`];
      const given = ['--tool-arg', `purpose=${args.purpose}`];
      const server = ['--config', file, '--server', 'countersign'];
      const started = writeFile(file, config(scene, hold)).then(() => [
        inspector,
        '--cli',
        ...server,
        ...named,
        ...given,
      ]);
      return running(process.execPath, started, { env: {} });
    };
  };
  const script = (command: string, start: readonly string[], input: string, cwd = ROOT): ForeignClient => {
    return ({ gateways }, hold, tool, args) =>
      running(command, Promise.resolve([...start, '-', `bank__${tool}`, JSON.stringify(args)]), {
        env: { COUNTERSIGN_URL: `${gateways[hold].url}/mcp`, COUNTERSIGN_KEY: KEY },
        input,
        cwd,
      });
  };
  const [bySdk, byLangchain] = [await program('python', 'from mcp '), await program('python', 'langchain_mcp')];
  return {
    'MCP Inspector, http': inspect(({ gateways }, hold) =>
      byUrl.replace(/https:[^"]*/, `${gateways[hold].url}/mcp`).replace('THE-KEY', KEY),
    ),
    'MCP Inspector, stdio': inspect((scene, hold) => {
      const [command = '', ...args] = gateCommand(scene, hold);
      return byCommand
        .replace('"countersign",', `${JSON.stringify(command)},`)
        .replace('["gate", "--as", "ann"]', JSON.stringify(args));
    }),
    'TypeScript SDK 1, http': inProcess(async ({ gateways }, hold) => {
      const client = new Client({ name: 'foreign', version: '1' });
      const requestInit = { headers: { authorization: `Bearer ${KEY}` } };
      const url = new URL(`${gateways[hold].url}/mcp`);
      // Sound: its transport declares optional fields otherwise than its own client wants them.
      const transport = new StreamableHTTPClientTransport(url, { requestInit }) as Parameters<Client['connect']>[0];
      await client.connect(transport);
      return { client, leave: async () => await client.close() };
    }),
    'TypeScript SDK 1, stdio': inProcess(async (scene, hold) => {
      const client = new Client({ name: 'foreign', version: '1' });
      const transport = new StdioClientTransport(stdioOf(scene, hold));
      await client.connect(transport);
      return { client, leave: async () => await killed(client, transport.pid) };
    }),
    'TypeScript client 2, http': inProcess(async ({ gateways }, hold) => {
      const client = new ModernClient({ name: 'foreign', version: '1' }, { versionNegotiation: { mode: 'auto' } });
      const url = new URL(`${gateways[hold].url}/mcp`);
      await client.connect(new ModernHttp(url, { authProvider: { token: async () => KEY } }));
      return { client, leave: async () => await client.close() };
    }),
    'TypeScript client 2, stdio': inProcess(async (scene, hold) => {
      const client = new ModernClient({ name: 'foreign', version: '1' }, { versionNegotiation: { mode: 'auto' } });
      const transport = new ModernStdio(stdioOf(scene, hold));
      await client.connect(transport);
      return { client, leave: async () => await killed(client, transport.pid) };
    }),
    'Python SDK': script(sdk, [], bySdk),
    'LangChain for Python': script(langchain, [], byLangchain),
    'LangChain for JavaScript': script(
      process.execPath,
      ['--input-type=module'],
      await program('js', '@langchain/mcp-adapters'),
      packages,
    ),
  };
}

export const NAMES = [
  'MCP Inspector, http',
  'MCP Inspector, stdio',
  'TypeScript SDK 1, http',
  'TypeScript SDK 1, stdio',
  'TypeScript client 2, http',
  'TypeScript client 2, stdio',
  'Python SDK',
  'LangChain for Python',
  'LangChain for JavaScript',
] as const;
export type ForeignName = (typeof NAMES)[number];

/** Returns the one program of the guide in this language that has these words. */
async function program(language: string, words: string): Promise<string> {
  const [found, ...more] = (await blocksOf(GUIDE, language)).filter(({ text }) => text.includes(words));
  if (found === undefined || more.length > 0) throw new Error(`the guide has no single ${language} with ${words}`);
  return found.text;
}

async function settings(words: string): Promise<string> {
  return await program('json', words);
}

function fileOf({ world }: ForeignWorld, hold: Hold): string {
  return join(world.engine.directory, `servers-${hold}-${process.pid}-${(files += 1)}.json`);
}
let files = 0;

/** Programs that start servers need not hand on their environment, so Temporal is named in the command. */
function gateCommand({ world }: ForeignWorld, hold: Hold): readonly string[] {
  const { address, namespace } = world.engine.server;
  const temporal = ['--address', address, '--namespace', namespace];
  const start = [process.execPath, ...programArgs('cli/main.ts'), 'gate', '--as', 'ann'];
  return [...start, '--client', CLIENT, '--hold', `${HOLDS[hold]}`, '--config', world.configFile, ...temporal];
}

export function stdioOf(scene: ForeignWorld, hold: Hold) {
  const [command = '', ...args] = gateCommand(scene, hold);
  return {
    command,
    args,
    cwd: ROOT,
    env: { PATH: process.env['PATH'] ?? '' },
    stderr: 'ignore' as const,
  };
}

interface Connected {
  readonly client: {
    callTool(call: { name: string; arguments: Arguments }): Promise<unknown>;
    close(): Promise<void>;
  };
  leave(): Promise<void>;
}

function inProcess(connect: (scene: ForeignWorld, hold: Hold) => Promise<Connected>): ForeignClient {
  return (scene, hold, tool, args) => {
    const connected = connect(scene, hold);
    const said = connected.then(async ({ client }) => {
      const result = await client.callTool({ name: `bank__${tool}`, arguments: args });
      await client.close();
      return JSON.stringify(result);
    });
    said.catch(() => undefined);
    return { said, leave: async () => await (await connected).leave() };
  };
}

/** The server of a client that crashes gets no word: it is killed with it. */
async function killed(client: { close(): Promise<void> }, pid: number | null): Promise<void> {
  if (pid !== null) process.kill(pid, 'SIGKILL');
  await client.close();
}

interface Run {
  readonly env: Readonly<Record<string, string>>;
  readonly input?: string;
  readonly cwd?: string;
}

export function running(command: string, args: Promise<readonly string[]>, { env, input, cwd = ROOT }: Run): Calling {
  const started = args.then((given) => {
    const child = spawn(command, given, {
      cwd,
      // A group of its own: what the client starts ends with it.
      detached: true,
      env: { PATH: process.env['PATH'] ?? '', HOME: process.env['HOME'] ?? '', ...env },
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    child.stdin.on('error', () => undefined).end(input ?? '');
    const words: string[] = [];
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding('utf8').on('data', (text: string) => words.push(text));
    const killWithParent = (): void => killGroup(child);
    process.once('exit', killWithParent);
    const ended = once(child, 'close').finally(() => process.off('exit', killWithParent));
    return { child, words, ended };
  });
  const said = started.then(async ({ child, words, ended }) => {
    await ended;
    if (child.signalCode !== null) throw new Error(`the client was ended by ${child.signalCode}`);
    return words.join('');
  });
  said.catch(() => undefined);
  return {
    said,
    leave: async () => {
      const { child, ended } = await started;
      killGroup(child);
      await ended;
    },
  };
}

function killGroup({ pid, exitCode, signalCode }: ChildProcess): void {
  try {
    if (pid !== undefined && exitCode === null && signalCode === null) process.kill(-pid, 'SIGKILL');
  } catch {
    // It has ended already.
  }
}
