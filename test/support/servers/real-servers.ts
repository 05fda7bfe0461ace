/**
 * Starts servers that no one here wrote as processes on loopback, MCP servers above all, waits for them, and ends them
 * with everything they started.
 *
 * 1. A server that a test leaves behind is killed with the test's own process.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, realpath, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { defined } from '../../../contracts/defined.ts';
import { freePort } from '../../../workers/dev-server.ts';
import { Hopeless, until } from '../until.ts';

export interface RunningMcpServer {
  readonly url: string;
  close(): Promise<void>;
}

const modules = fileURLToPath(new URL('../../../node_modules/', import.meta.url));

/** @param path path below node_modules */
export function moduleFile(path: string): string {
  return `${modules}${path}`;
}

export interface ServerProcess {
  /** Default: this Node. */
  readonly command?: string;
  /** Absent: one that is free. */
  readonly port?: number;
  readonly args: (port: number) => readonly string[];
  readonly env?: (port: number) => Readonly<Record<string, string>>;
  /** Where it answers once it is up. */
  readonly path: string;
  readonly withinMs?: number;
}

export async function startMcpProcess(server: Omit<ServerProcess, 'path'>): Promise<RunningMcpServer> {
  return await startProcess({ ...server, path: '/mcp' });
}

/** Starts a server, and waits until it answers at its path. */
export async function startProcess({
  command = process.execPath,
  port: stated,
  args,
  env,
  path,
  withinMs,
}: ServerProcess): Promise<RunningMcpServer> {
  const port = stated ?? (await freePort());
  const url = `http://127.0.0.1:${port}${path}`;
  const said: string[] = [];
  // A process group of its own lets everything the server starts end with it. The environment is empty, since some
  // tools show theirs.
  const child = spawn(command, args(port), {
    detached: true,
    env: { PATH: process.env['PATH'] ?? '', ...env?.(port) },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk: Buffer) => said.push(chunk.toString('utf8')));
  const killWithParent = (): void => killGroup(child);
  process.once('exit', killWithParent);
  const close = async (): Promise<void> => {
    await end(child);
    process.off('exit', killWithParent);
  };
  try {
    await until(
      async () => {
        if (child.exitCode !== null || child.signalCode !== null)
          throw new Hopeless(`it ended with ${child.exitCode ?? child.signalCode}`);
        // Any answer shows that the server is up, even a refusal.
        await (await fetch(url, { method: 'OPTIONS' })).text();
        return true;
      },
      { what: `an answer of ${url}`, ...defined({ withinMs }) },
    );
  } catch (error) {
    await close();
    throw new Error(`the server did not start: ${said.join('')}`, { cause: error });
  }
  return { url, close };
}

async function end(child: ChildProcess): Promise<void> {
  if (child.pid === undefined) return;
  const exited = child.exitCode === null && child.signalCode === null ? once(child, 'exit') : Promise.resolve();
  killGroup(child);
  await exited;
}

function killGroup({ pid }: ChildProcess): void {
  try {
    if (pid !== undefined) process.kill(-pid, 'SIGKILL');
  } catch {
    // The group has ended already.
  }
}

/**
 * Starts the reference server, which has one of everything: legacy era, stateful, on the v1 SDK.
 * @param folder with the `node_modules` of another release; absent: our own
 * @param port absent: one that is free
 */
export function startEverythingServer(folder?: string, port?: number): Promise<RunningMcpServer> {
  const path = '@modelcontextprotocol/server-everything/dist/index.js';
  const file = folder === undefined ? moduleFile(path) : join(folder, 'node_modules', path);
  return startMcpProcess({
    ...defined({ port }),
    args: () => [file, 'streamableHttp'],
    env: (chosen) => ({ PORT: `${chosen}` }),
  });
}

export interface FilesystemServer extends RunningMcpServer {
  /** The folder that the server may change; removed at the end. */
  readonly folder: string;
}

/** Starts the filesystem server behind mcp-proxy: both protocol eras on one URL, with side effects that tests see on disk. */
export async function startFilesystemServer(): Promise<FilesystemServer> {
  // The path is resolved, because the server compares real paths.
  const folder = await realpath(await mkdtemp(join(tmpdir(), 'countersign-files-')));
  const proxy = moduleFile('mcp-proxy/dist/bin/mcp-proxy.mjs');
  const files = moduleFile('@modelcontextprotocol/server-filesystem/dist/index.js');
  const server = await startMcpProcess({
    args: (port) => [
      proxy,
      '--port',
      `${port}`,
      '--host',
      '127.0.0.1',
      '--server',
      'stream',
      '--',
      process.execPath,
      files,
      folder,
    ],
  });
  return {
    ...server,
    folder,
    close: async () => {
      await server.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}
