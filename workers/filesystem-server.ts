/**
 * Starts a real MCP server that this project did not write, for trials: `@modelcontextprotocol/server-filesystem`
 * behind `mcp-proxy`, on one folder, on loopback.
 */
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { CountersignError } from '../contracts/errors.ts';
import { NotStarted, startChild } from './child-server.ts';
import { freePort } from './dev-server.ts';

const PROXY = 'mcp-proxy/dist/bin/mcp-proxy.mjs';
const SERVER = '@modelcontextprotocol/server-filesystem/dist/index.js';

export function filesystemServerUrl(port: number): string {
  return `http://127.0.0.1:${port}/mcp`;
}

export async function startFilesystemServer(folder: string, givenPort?: number) {
  const port = givenPort ?? (await freePort());
  const url = filesystemServerUrl(port);
  const listening = ['--port', String(port), '--host', '127.0.0.1', '--server', 'stream'];
  const args = [moduleFile(PROXY), ...listening, '--', process.execPath, moduleFile(SERVER), folder];
  const ask = async (): Promise<void> => {
    const { ok, status } = await fetch(`http://127.0.0.1:${port}/ping`);
    if (!ok) throw new Error(`it answers ${status}`);
  };
  try {
    // The proxy starts the server as a child, and both must end.
    const child = await startChild({ command: process.execPath, args, ownGroup: true, ask });
    return { ...child, url };
  } catch (error) {
    if (!(error instanceof NotStarted)) throw error;
    const message = `The demo MCP server did not start on ${url}. ${error.message}`.trim();
    throw new CountersignError('TOOL_UNAVAILABLE', message, {}, { cause: error });
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
