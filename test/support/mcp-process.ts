/** MCP servers that no one here wrote, as processes on loopback: started, waited for, and ended with everything they started. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { fileURLToPath } from 'node:url';
import { until } from './until.ts';

export interface RunningMcpServer {
  readonly url: string;
  close(): Promise<void>;
}

const modules = fileURLToPath(new URL('../../node_modules/', import.meta.url));

/** @param path below node_modules */
export function moduleFile(path: string): string {
  return `${modules}${path}`;
}

export interface McpProcess {
  readonly args: (port: number) => readonly string[];
  readonly env?: (port: number) => Readonly<Record<string, string>>;
}

export async function startMcpProcess({ args, env }: McpProcess): Promise<RunningMcpServer> {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}/mcp`;
  const said: string[] = [];
  // A process group of its own, so that what it starts ends with it. No environment of ours: tools show theirs.
  const child = spawn(process.execPath, args(port), {
    detached: true,
    env: { PATH: process.env['PATH'] ?? '', ...env?.(port) },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk: Buffer) => said.push(chunk.toString('utf8')));
  const close = (): Promise<void> => end(child);
  try {
    await until(
      async () => {
        if (child.exitCode !== null) throw new Error(`it ended with ${child.exitCode}`);
        // Any answer will do, also a refusal.
        await (await fetch(url, { method: 'OPTIONS' })).text();
        return true;
      },
      { what: `an answer of ${url}` },
    );
  } catch (error) {
    await close();
    throw new Error(`the MCP server did not start: ${said.join('')}`, { cause: error });
  }
  return { url, close };
}

async function end(child: ChildProcess): Promise<void> {
  const { pid } = child;
  if (pid === undefined) return;
  const exited = child.exitCode === null && child.signalCode === null ? once(child, 'exit') : Promise.resolve();
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // The group has ended already.
  }
  await exited;
}

async function freePort(): Promise<number> {
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  if (address === null || typeof address === 'string') throw new Error('a TCP server has a port');
  return address.port;
}
