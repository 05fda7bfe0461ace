/**
 * A service whose Temporal has its UI on, and runs that wait in it.
 *
 * 1. Workers and client have names of their own: the pictures in the guide show neither a process id nor a host.
 * 2. Arguments name files relative to the server's folder: no picture shows where it lies.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from '@temporalio/client';
import { Countersign, type RunHandle } from '../../client/index.ts';
import type { JsonObject } from '../../contracts/schemas/json.ts';
import type { ApprovalRequest } from '../../contracts/schemas/request.ts';
import { createDataConverter } from '../../workers/codec.ts';
import { startFilesystemServer } from '../../workers/filesystem-server.ts';
import { startWorkers } from '../../workers/worker.ts';
import { startEngine } from '../support/engine.ts';
import { type RecordingServer, startRecordingServer } from '../support/servers/recording-server.ts';
import { openRequests, startWorld } from '../support/world/world.ts';

/** Text of a tool server that would be a heading, a link, an image, a script and a line read backwards. */
export const HOSTILE = {
  markdown: '# Approved **by all** [click](https://evil.example/)',
  html: '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>',
  reversed: 'pay \u{202e}001 to eve',
} as const;

export interface WaitingRun {
  readonly handle: RunHandle;
  /** What waits in it. */
  readonly request: ApprovalRequest;
  /** Its page in Temporal UI. */
  readonly url: string;
}

export interface UiWorld {
  /** Temporal UI, at the namespace of the runs. */
  readonly url: string;
  readonly hostile: RecordingServer;
  /** Reads one file at once, asks before it writes another. */
  startWriter(runId: string): Promise<WaitingRun>;
  /** Takes its turns in one stretch, to its end: two reads at once, a list, a read of a file that is not there. */
  startReader(runId: string): Promise<Pick<WaitingRun, 'handle' | 'url'>>;
  /** Asks for a payment, with these arguments. */
  startPayer(runId: string, args: JsonObject): Promise<WaitingRun>;
  stop(): Promise<void>;
}

export async function startUiWorld(): Promise<UiWorld> {
  const folder = await mkdtemp(join(tmpdir(), 'files-'));
  await writeFile(join(folder, 'notes.txt'), 'Sales rose by four percent.\n');
  const files = await startFilesystemServer(folder);
  const hostile = await startRecordingServer({
    tools: [{ name: 'pay', description: Object.values(HOSTILE).join('\n'), inputSchema: { type: 'object' } }],
  });
  const engine = await startEngine({ ui: true });
  const world = await startWorld({
    engine,
    config: {
      servers: {
        files: { url: files.url, credentials: { kind: 'none' }, repeatable: ['read_text_file', 'list_directory'] },
        bank: { url: hostile.url, credentials: { kind: 'none' } },
      },
      policy: {
        servers: {
          files: {
            tools: {
              read_text_file: 'allow',
              list_directory: 'allow',
              write_file: { action: 'ask', approvers: { ids: ['ben'], groups: ['finance'] } },
            },
          },
        },
      },
    },
  });
  const { config, bundle, artifacts } = world;
  const { address, namespace } = engine.server;
  await world.workers.stop();
  world.workers = await startWorkers({
    loaded: { config, baseDirectory: engine.directory, path: undefined },
    connectionOptions: { address },
    namespace,
    bundle,
    identity: 'worker-1',
  });
  const client = new Client({
    connection: world.client.connection,
    namespace,
    identity: 'backend',
    dataConverter: createDataConverter(config),
  });
  const countersign = new Countersign({ client, artifacts });
  // Sound: the engine was started with its UI.
  const url = `${engine.server.uiUrl as string}/namespaces/${namespace}/workflows`;

  const start = async (runId: string, spec: ReturnType<typeof world.spec>): Promise<WaitingRun> => {
    const handle = await countersign.startRun({ taskQueue: config.taskQueue, runId, spec });
    const [request] = await openRequests(handle);
    return { handle, request, url: `${url}/${runId}/${request.runId}` };
  };

  return {
    url,
    hostile,
    startWriter: async (runId) => {
      const calls = [
        { tool: 'files/read_text_file', arguments: { path: 'notes.txt' } },
        { tool: 'files/write_file', arguments: { path: 'report.txt', content: 'Sales rose by four percent.' } },
      ];
      const spec = world.spec([{ calls }, { text: 'The report is written.' }], {
        input: 'Write the weekly report.',
        servers: [{ name: 'files' }],
      });
      return await start(runId, spec);
    },
    startReader: async (runId) => {
      const read = (path: string) => ({ tool: 'files/read_text_file', arguments: { path } });
      const list = { tool: 'files/list_directory', arguments: { path: '.' } };
      const steps = [
        { calls: [read('notes.txt'), read('notes.txt')] },
        { calls: [list] },
        { calls: [read('gone.txt')] },
        { text: 'Sales rose.' },
      ];
      const spec = world.spec(steps, { input: 'How are sales?', servers: [{ name: 'files' }] });
      const handle = await countersign.startRun({ taskQueue: config.taskQueue, runId, spec });
      await handle.result();
      const { runId: execution } = await world.client.workflow.getHandle(runId).describe();
      return { handle, url: `${url}/${runId}/${execution}` };
    },
    startPayer: async (runId, args) =>
      await start(
        runId,
        world.spec([{ calls: [{ tool: 'bank/pay', arguments: args }] }, { text: 'Paid.' }], {
          servers: [{ name: 'bank' }],
        }),
      ),
    stop: async () => {
      await world.stop();
      await engine.stop();
      await files.stop();
      await hostile.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}
