/**
 * Starts a real MCP server that this project did not write, for trials:
 * `@modelcontextprotocol/server-filesystem` behind `mcp-proxy`, on one folder, on loopback.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { CountersignError } from '../contracts/errors.ts';
import { freePort } from './dev-server.ts';

export interface FilesystemServer {
  readonly url: string;
  readonly pid: number;
  /** Settles when the process is gone, whoever ended it. */
  readonly exited: Promise<void>;
  stop(): Promise<void>;
}

const PROXY = 'mcp-proxy/dist/bin/mcp-proxy.mjs';
const SERVER = '@modelcontextprotocol/server-filesystem/dist/index.js';

export function filesystemServerUrl(port: number): string {
  return `http://127.0.0.1:${port}/mcp`;
}

export async function startFilesystemServer(folder: string, givenPort?: number): Promise<FilesystemServer> {
  const port = givenPort ?? (await freePort());
  const url = filesystemServerUrl(port);
  const listening = ['--port', String(port), '--host', '127.0.0.1', '--server', 'stream'];
  const args = [moduleFile(PROXY), ...listening, '--', process.execPath, moduleFile(SERVER), folder];
  // The proxy gets a process group of its own: it starts the server as a child, and both must end.
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'ignore', 'pipe'], detached: true });
  let errors = '';
  child.stderr.on('data', (chunk: Buffer) => {
    errors = (errors + chunk.toString()).slice(-2_000);
  });
  const exited = new Promise<void>((resolve) => void child.once('exit', () => resolve()));
  const stopWithParent = (): void => killGroup(child, 'SIGKILL');
  process.once('exit', stopWithParent);
  try {
    await answering(child, `http://127.0.0.1:${port}/ping`);
  } catch (error) {
    killGroup(child, 'SIGKILL');
    const message = `The demo MCP server did not start on ${url}. ${errors}`.trim();
    throw new CountersignError('TOOL_UNAVAILABLE', message, {}, { cause: error });
  }
  return {
    url,
    // Sound: a process that answered has a pid.
    pid: child.pid as number,
    exited,
    stop: async () => {
      process.off('exit', stopWithParent);
      if (child.exitCode !== null || child.signalCode !== null) return;
      killGroup(child, 'SIGTERM');
      const hard = setTimeout(() => killGroup(child, 'SIGKILL'), 5_000);
      await exited;
      clearTimeout(hard);
    },
  };
}

async function answering(child: ChildProcess, url: string): Promise<void> {
  const end = Date.now() + 20_000;
  for (;;) {
    if (child.exitCode !== null) throw new Error(`it exited with ${child.exitCode}`);
    try {
      if ((await fetch(url)).ok) return;
    } catch (error) {
      if (Date.now() > end) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

function killGroup(child: ChildProcess, signal: NodeJS.Signals): void {
  try {
    if (child.pid !== undefined) process.kill(-child.pid, signal);
  } catch {
    // The process is gone already.
  }
}

/**
 * Finds a file of an installed package, from here upward as Node does: the packages export none of these.
 * @throws CountersignError `TOOL_UNAVAILABLE` if it is not there, as in a package that brings no parts for trials
 */
function moduleFile(path: string): string {
  const folders = createRequire(import.meta.url).resolve.paths(path) ?? [];
  const found = folders.map((folder) => join(folder, path)).find((file) => existsSync(file));
  if (found !== undefined) return found;
  const message =
    'The demo MCP server is not installed. Run: npm install --save-dev mcp-proxy @modelcontextprotocol/server-filesystem';
  throw new CountersignError('TOOL_UNAVAILABLE', message);
}
