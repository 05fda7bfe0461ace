/**
 * Starts the filesystem server behind mcp-proxy: both protocol eras on one URL, with side effects that tests
 * see on disk.
 */
import { mkdtemp, realpath, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { moduleFile, type RunningMcpServer, startMcpProcess } from './mcp-process.ts';

export interface FilesystemServer extends RunningMcpServer {
  /** The folder that the server may change; removed at the end. */
  readonly folder: string;
}

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
