/**
 * Starts servers of every kind for which a run may wait, and the configuration of a service that knows them.
 */
import type { ConfigInput } from '../../contracts/schemas/config.ts';
import { ADMINISTRATORS } from './catalogs.ts';
import { zoneKey } from './keys.ts';
import {
  acts,
  type ListingServer,
  type RawServer,
  startListingServer,
  startRawServer,
  succeedWith,
} from './mcp-raw-server.ts';
import { chatDialect } from './model-chat.ts';
import { type ModelProvider, startModelProvider } from './model-provider.ts';
import { type MrtrServer, startMrtrServer } from './mrtr-server.ts';
import { type RecordingServer, startRecordingServer } from './recording-server.ts';
import { startTaskServer, type TaskServer } from './task-server.ts';

export interface PointServers {
  readonly office: RecordingServer;
  /** Only this server has its tools, so a test can remove what is stored of them. */
  readonly books: RecordingServer;
  readonly desk: MrtrServer;
  readonly notes: RawServer;
  readonly closed: RawServer;
  readonly digs: TaskServer;
  readonly catalogued: ListingServer;
  readonly provider: ModelProvider;
  readonly zone: Awaited<ReturnType<typeof zoneKey>>;
  close(): Promise<void>;
}

const TOOL = { name: 'act', description: 'Acts.', inputSchema: { type: 'object' } };

export async function startPointServers(): Promise<PointServers> {
  const [office, books, desk, digs, catalogued, provider, zone] = await Promise.all([
    startRecordingServer(),
    startRecordingServer({
      tools: [{ name: 'post', description: 'Posts an entry.', inputSchema: { type: 'object' } }],
    }),
    startMrtrServer(),
    startTaskServer(),
    startListingServer(),
    startModelProvider(chatDialect.schema),
    zoneKey(),
  ]);
  const notes = await startRawServer({
    era: 'modern',
    tools: {
      fresh: (exchange) => exchange.status(401),
      lost: acts((exchange) => exchange.reset()),
      plain: succeedWith('done'),
    },
  });
  const closed = await startRawServer({
    era: 'modern',
    pages: [[TOOL]],
    intercept: (_, response) => response.writeHead(401).end() !== undefined,
  });
  // The task is polled once and then not for a while, so that the run is at rest.
  digs.become({ begins: { pollInterval: 120_000 }, get: () => ({ status: 'working', pollInterval: 120_000 }) });
  const all = { office, books, desk, notes, closed, digs, catalogued, provider };
  return {
    ...all,
    zone,
    close: async () => {
      await Promise.all(Object.values(all).map((server) => server.close()));
    },
  };
}

/** Tools have a queue of their own, whose workers live on while those of runs are lost. */
export function pointsConfig(servers: PointServers, taskQueue: string): ConfigInput {
  const onTools = { taskQueue: `${taskQueue}-tools` };
  const none = { credentials: { kind: 'none' as const } };
  const { office, books, desk, notes, closed, digs, catalogued, provider, zone } = servers;
  const calling = (tool: string, fields = {}): NonNullable<ConfigInput['models']>[string] => ({
    provider: 'scripted',
    script: { steps: [{ calls: [{ tool, arguments: fields }] }, { text: 'Done.' }] },
  });
  return {
    taskQueue,
    servers: {
      office: { url: office.url, ...none, ...onTools },
      books: { url: books.url, ...none, ...onTools },
      desk: { url: desk.url, ...none, ...onTools },
      notes: { url: notes.url, ...onTools },
      closed: { url: closed.url, ...onTools },
      digs: { url: digs.url, ...none, ...onTools, tasks: { seconds: 600 } },
      listed: { url: catalogued.url, ...none, ...onTools },
      till: { url: office.url, ...none, ...onTools },
    },
    policy: {
      approvers: { ids: ['bob'], may: ['edit'] },
      servers: {
        office: { tools: { slow: 'allow' } },
        desk: { default: 'allow' },
        notes: { default: 'allow' },
        digs: { default: 'allow' },
      },
    },
    catalog: {
      administrators: ADMINISTRATORS.map((each) => ({ ...each, tenant: taskQueue })),
      origins: [new URL(catalogued.url).origin],
      loosening: 'countersign',
    },
    grants: { keys: [{ kid: zone.kid, privateKeyFile: 'zone.pem' }] },
    models: {
      approval: calling('office/pay', { amount: 1 }),
      // More workflow tasks than a diagnosis examines one after the other (`workers/replay/diagnosis.ts`).
      long: {
        provider: 'scripted',
        script: {
          steps: [
            ...Array.from({ length: 6 }, (_, amount) => ({ calls: [{ tool: 'office/pay', arguments: { amount } }] })),
            { text: 'Done.' },
          ],
        },
      },
      edit: calling('books/post', { amount: 2 }),
      call: calling('office/slow', { purpose: taskQueue }),
      input: calling('desk/book', { n: 1 }),
      outcome: calling('notes/lost'),
      authorization: calling('notes/fresh'),
      list: calling('closed/act'),
      task: calling('digs/dig'),
      step: {
        provider: 'openai-compatible',
        model: chatDialect.model,
        baseUrl: provider.baseUrl,
        maxOutputTokens: 256,
        timeoutSeconds: 120,
      },
    },
    // The longest timeout that may be set, so that the following steps have time.
    worker: { stickyQueueTimeoutMs: 3_000, shutdownGraceSeconds: 1 },
  };
}
