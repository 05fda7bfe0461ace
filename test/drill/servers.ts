/**
 * Starts the servers of a drill: one for each way in which a call may wait, and what their workers must know of them.
 * Two of them nobody here wrote: the filesystem server behind mcp-proxy, and the server of the SDK that asks before it
 * works.
 *
 * 1. A server's own log is the truth about what was executed. Each call of a drill names its run in `purpose`, or in
 *    what it changes.
 */
import { generateKeyPairSync } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ConfigInput } from '../../contracts/schemas/config.ts';
import { hostingModel, type HostingProvider, startHostingProvider } from '../support/models/hosting-provider.ts';
import { end, question } from '../support/servers/asking-server.ts';
import { listenOnLoopback } from '../support/servers/loopback-server.ts';
import { type MrtrServer, startMrtrServer } from '../support/servers/mrtr-server.ts';
import { acts, createRawHandler, type ExecutedCall, startRawServer } from '../support/servers/raw-server.ts';
import { type FilesystemServer, startFilesystemServer } from '../support/servers/real-servers.ts';
import { type RecordingServer, startRecordingServer, TOOLS } from '../support/servers/recording-server.ts';
import { startTaskServer } from '../support/servers/task-server.ts';

/** The model whose provider calls the servers itself. */
export const HOSTED_MODEL = 'gpt';
/** Grants of a run: one that the server no longer accepts, and one that it accepts. */
export const STALE = 'grant-of-last-year';
export const FRESH = 'grant-of-today';
/** Who starts all runs, and may give their grants. */
export const INITIATOR = { id: 'ben', tenant: 'office' };

export interface Servers {
  readonly bank: RecordingServer;
  /** One call at a time. */
  readonly lane: RecordingServer;
  readonly files: FilesystemServer;
  readonly desk: MrtrServer;
  readonly provider: HostingProvider;
  /** Lets the task of this purpose end. */
  finish(purpose: string): void;
  /** Brings the server back that is away at first. */
  comeBack(): void;
  /** Calls that servers have executed with this purpose. */
  calls(purpose: string): readonly Pick<ExecutedCall, 'tool' | 'arguments'>[];
  /** What a worker must know of all this. */
  readonly config: ConfigInput;
  /** Environment of workers. */
  readonly env: Readonly<Record<string, string>>;
  close(): Promise<void>;
}

/** @param folder of the configuration */
export async function startServers(folder: string): Promise<Servers> {
  const bank = await startRecordingServer();
  const lane = await startRecordingServer();
  const files = await startFilesystemServer();
  const desk = await startMrtrServer();
  const provider = await startHostingProvider();
  // The provider's client takes no list with a tool whose hints are of the wrong type.
  const far = await startRecordingServer({ tools: TOOLS.filter(({ name }) => name !== 'odd') });
  const held = await startHeldServer();
  const odd = await startRawServer({ era: 'modern', tools: { lose: acts(({ reset }) => reset()) } });
  const lent = await startRawServer({
    era: 'modern',
    tools: {
      open: (exchange) =>
        exchange.request.headers.authorization === `Bearer ${FRESH}`
          ? acts(() => exchange.text('done'))(exchange)
          : exchange.status(401),
    },
  });
  const finished = new Set<string>();
  const tasks = await startTaskServer({
    begins: { pollInterval: 1_000 },
    get: ({ argument }) => ({ status: finished.has(String(argument['purpose'])) ? 'completed' : 'working' }),
  });
  const away = await startAwayServer();
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  writeFileSync(join(folder, 'zone.pem'), privateKey.export({ type: 'pkcs8', format: 'pem' }));

  const at = (url: string) => ({ url, credentials: { kind: 'none' as const } });
  const own = [bank, lane, far, held, odd, lent, away];
  return {
    bank,
    lane,
    files,
    desk,
    provider,
    finish: (purpose) => void finished.add(purpose),
    comeBack: away.comeBack,
    calls: (purpose) => [
      ...own.flatMap(({ calls }) => calls.filter((call) => call.arguments['purpose'] === purpose)),
      ...tasks.tasks
        .filter(({ argument }) => argument['purpose'] === purpose)
        // Sound: it came as JSON.
        .map(({ argument }) => ({ tool: 'dig', arguments: argument as ExecutedCall['arguments'] })),
      ...desk.executed
        .filter((done) => done.startsWith(`booked for ${purpose},`))
        .map(() => ({ tool: 'book', arguments: {} })),
      ...Array.from({ length: editsOf(files, purpose) }, () => ({ tool: 'edit_file', arguments: {} })),
    ],
    config: {
      grants: { keys: [{ kid: 'drill', privateKeyFile: 'zone.pem' }] },
      egress: { allowLoopback: true },
      servers: {
        bank: at(bank.url),
        lane: { ...at(lane.url), limits: { concurrency: 1 } },
        files: at(files.url),
        desk: at(desk.url),
        far: { ...at(far.url), execute: 'hosted' },
        held: { ...at(held.url), elicitation: { holdSeconds: 3_600 } },
        odd: at(odd.url),
        lent: { url: lent.url, credentials: { kind: 'given' } },
        tasks: { ...at(tasks.url), tasks: { seconds: 3_600 } },
        away: at(away.url),
      },
      vault: { kind: 'environment', variables: { [STALE]: 'DRILL_STALE', [FRESH]: 'DRILL_FRESH' } },
      models: {
        [HOSTED_MODEL]: hostingModel(provider),
      },
    },
    env: { DRILL_STALE: entryOf(STALE, lent.url), DRILL_FRESH: entryOf(FRESH, lent.url) },
    close: async () => {
      await Promise.all(
        [bank, lane, files, desk, provider, far, held, odd, lent, tasks, away].map((each) => each.close()),
      );
    },
  };
}

/** The text of a file that no call has edited. Each edit adds a plus. */
export const UNEDITED = 'begun';

export function fileOf({ folder }: FilesystemServer, purpose: string): string {
  return join(folder, `${purpose}.txt`);
}

function editsOf(files: FilesystemServer, purpose: string): number {
  try {
    return readFileSync(fileOf(files, purpose), 'utf8').split('+').length - 1;
  } catch {
    // A run of another kind has no file.
    return 0;
  }
}

function entryOf(token: string, server: string): string {
  const bound = { tenant: INITIATOR.tenant, initiators: [INITIATOR.id], server };
  return JSON.stringify({ secret: { kind: 'token', token }, bound, storedAt: '2026-01-01T00:00:00.000Z' });
}

/** A server of MCP 2025-11-25 that asks on the connection of the call, and works only once it has its answer. */
async function startHeldServer() {
  let asked = 0;
  const server = await startRawServer({
    era: 'legacy',
    sessions: true,
    pages: [[{ name: 'sign', description: 'Signs.', inputSchema: { type: 'object' } }]],
    onCall: (exchange) => {
      const id = `ask-${(asked += 1)}`;
      exchange.stream(question(id));
      void server.sees(({ answer }) => answer?.id === id).then(({ answer }) => end(exchange, answer?.result));
    },
  });
  return server;
}

/** A server whose connections break until it comes back. */
async function startAwayServer() {
  const handler = createRawHandler({ era: 'modern', tools: { lookup: acts(({ text }) => text('found')) } });
  let isAway = true;
  const { origin, close } = await listenOnLoopback((request, response) => {
    if (isAway) request.socket.destroy();
    else handler.listener(request, response);
  });
  const comeBack = (): void => {
    isAway = false;
  };
  return { url: `${origin}/mcp`, calls: handler.calls, comeBack, close };
}
