/** Starts the reference server, which has one of everything: legacy era, stateful, on the v1 SDK. */
import { moduleFile, type RunningMcpServer, startMcpProcess } from './mcp-process.ts';

export function startEverythingServer(): Promise<RunningMcpServer> {
  return startMcpProcess({
    args: () => [moduleFile('@modelcontextprotocol/server-everything/dist/index.js'), 'streamableHttp'],
    env: (port) => ({ PORT: `${port}` }),
  });
}
