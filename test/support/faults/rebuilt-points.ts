/**
 * Starts servers of every kind for which a run may wait, the configuration of a service that knows them, and runs that
 * wait at each point. One file, because a point is its servers and its run.
 */
import { rename } from 'node:fs/promises';
import { join } from 'node:path';
import type { RunHandle } from '../../../client/index.ts';
import type { ConfigInput } from '../../../contracts/schemas/config.ts';
import type { WorkflowBundle } from '../../../workers/bundle.ts';
import { answered } from '../models/bench.ts';
import { chatDialect } from '../models/chat.ts';
import { type ModelProvider, startModelProvider } from '../models/provider.ts';
import { wantedFor } from '../scenes/authorizations.ts';
import { ADMINISTRATORS, ANN, BEN, connected } from '../scenes/catalogs.ts';
import { lostCall } from '../scenes/lost-answers.ts';
import { taskOf } from '../scenes/tasks.ts';
import { type MrtrServer, startMrtrServer } from '../servers/mrtr-server.ts';
import {
  acts,
  type ListingServer,
  type RawServer,
  startListingServer,
  startRawServer,
  succeedWith,
} from '../servers/raw-server.ts';
import { type RecordingServer, startRecordingServer } from '../servers/recording-server.ts';
import { startTaskServer, type TaskServer } from '../servers/task-server.ts';
import { zoneKey } from '../signing/keys.ts';
import { until } from '../until.ts';
import { executions, factsOf } from '../world/run-record.ts';
import { decisionOn, openRequests } from '../world/world.ts';
import type { FaultWorld } from './world.ts';

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

// Lists points at which a run or catalog waits. For each it has the way there, an event that no workflow task
// has handed on, and an answer that a person sends at once.

export interface Reached {
  readonly workflowId: string;
  readonly query: string;
  /** Makes the event that enters history while no worker takes tasks. */
  happens(): Promise<unknown>;
  /** Sends the message that follows right after the query, and waits for its end. */
  answered(): Promise<unknown>;
}

export type Point = (world: FaultWorld, servers: PointServers) => Promise<Reached>;

/** Sends a refused message, which the ledger records with its time: the simplest event that any run notes. */
async function unfit(world: FaultWorld, run: RunHandle): Promise<void> {
  const handle = world.client.workflow.getHandle(run.runId);
  await handle.signal('decide', {
    kind: 'approve',
    decisionId: `unfit-${run.runId}`,
    callId: 't9.c9',
    digest: '0'.repeat(64),
    runId: (await handle.describe()).runId,
    approver: { id: 'bob', groups: [] },
  });
}

/** Makes a point at a pause of any kind: something happens, and the initiator ends the run at once. */
function paused(world: FaultWorld, run: RunHandle, happens = () => unfit(world, run)): Reached {
  return {
    workflowId: run.runId,
    query: 'requests',
    happens,
    answered: async () => {
      await run.stop({ by: 'ann', reason: 'no longer wanted', inFlight: 'cancel' });
      await run.result();
    },
  };
}

async function started(
  world: FaultWorld,
  model: string,
  server: string,
  authorizations?: Record<string, string>,
): Promise<RunHandle> {
  return await world.start(
    model,
    { servers: [{ name: server }] },
    authorizations === undefined ? {} : { authorizations },
  );
}

export const POINTS: Readonly<Record<string, Point>> = {
  'approval asked, and given by signal': async (world) => {
    const run = await started(world, 'approval', 'office');
    const [request] = await openRequests(run);
    const handle = world.client.workflow.getHandle(run.runId);
    return {
      workflowId: run.runId,
      query: 'state',
      happens: () => handle.signal('decide', decisionOn(request, 'bob')),
      answered: async () => {
        await run.advance();
        await run.result();
      },
    };
  },
  'approval asked': async (world) => {
    const run = await started(world, 'approval', 'office');
    const [request] = await openRequests(run);
    return {
      ...paused(world, run),
      answered: async () => {
        await run.decide(decisionOn(request, 'bob'));
        await run.result();
      },
    };
  },
  'the first of many approvals asked': async (world) => {
    const run = await started(world, 'long', 'office');
    await openRequests(run);
    return {
      ...paused(world, run),
      answered: async () => {
        for (let turn = 1; turn <= 6; turn += 1) {
          const request = await until(
            async () =>
              (await run.requests()).find(({ callId, status }) => status === 'open' && callId === `t${turn}.c0`),
            { what: `the request of turn ${turn}` },
          );
          await run.decide(decisionOn(request, 'bob'));
        }
        await run.result();
      },
    };
  },
  'a run that is to continue as new': async (world) => {
    const run = await started(world, 'approval', 'office');
    const [request] = await openRequests(run);
    return {
      ...paused(world, run, async () => world.client.workflow.getHandle(run.runId).signal('nudge')),
      answered: async () => {
        await handedOver(world, run.runId);
        await run.decide(decisionOn(request, 'bob'));
        await run.result();
      },
    };
  },
  'a call in flight': async (world, { office }) => {
    const run = await started(world, 'call', 'office');
    await office.held(world.config.taskQueue);
    return { ...paused(world, run, async () => office.release(world.config.taskQueue)), query: 'ledger' };
  },
  'a model step in flight': async (world, { provider }) => {
    provider.enqueue(answered([], 'hang'));
    const run = await started(world, 'step', 'office');
    await provider.hanging();
    return paused(world, run);
  },
  'a lost answer asked about': async (world) => {
    const run = await started(world, 'outcome', 'notes', { notes: 'stale' });
    await lostCall(run);
    return paused(world, run);
  },
  'input asked by a server': async (world) => {
    const run = await started(world, 'input', 'desk');
    await openRequests(run);
    return paused(world, run);
  },
  'another authorization asked': async (world) => {
    const run = await started(world, 'authorization', 'notes', { notes: 'stale' });
    await wantedFor(run);
    return paused(world, run);
  },
  'a list that waits for a grant': async (world) => {
    const run = await started(world, 'list', 'closed');
    await wantedFor(run, 't0.c0');
    return paused(world, run);
  },
  'a task of a server': async (world) => {
    const run = await started(world, 'task', 'digs');
    await taskOf(run, () => true);
    return { ...paused(world, run), query: 'transcript' };
  },
  'a catalog being refreshed': async (world, { catalogued }) => {
    catalogued.lists(['one', 'two'], 'before');
    const catalog = world.countersign.catalog('listed', world.config.taskQueue);
    const { policyVersion } = await connected(catalog, catalogued.url);
    catalogued.lists(['one', 'three'], 'after', true);
    const { refresh = 0 } = await catalog.refresh({ by: ANN });
    await catalogued.held();
    return {
      workflowId: catalog.workflowId,
      query: 'snapshot',
      happens: async () => catalogued.release(),
      answered: async () => {
        await catalog.setToolPolicies({
          by: ANN,
          expectedVersion: policyVersion,
          changes: [{ tool: 'one', denied: true }],
        });
        await catalog.settled(refresh);
      },
    };
  },
  'a catalog with a pending loosening': async (world, { office }) => {
    const catalog = world.countersign.catalog('till', world.config.taskQueue);
    const { policyVersion } = await connected(catalog, office.url);
    await catalog.setToolPolicies({
      by: ANN,
      expectedVersion: policyVersion,
      changes: [{ tool: 'pay', requiresApproval: false }],
    });
    const [pending] = (await catalog.snapshot()).pending;
    if (pending === undefined) throw new Error('nothing waits');
    const { changeId, digest } = pending;
    return {
      workflowId: catalog.workflowId,
      query: 'snapshot',
      happens: async () => world.client.workflow.getHandle(catalog.workflowId).signal('nudge'),
      answered: async () => {
        await catalog.decide({ by: BEN, changeId, digest, verdict: 'approve' });
        await handedOver(world, catalog.workflowId);
      },
    };
  },
};

/** Waits until the run has continued as new. */
export async function handedOver(world: FaultWorld, workflowId: string): Promise<void> {
  await until(async () => (await executions(world, workflowId)).length > 1, {
    what: `another execution of ${workflowId}`,
  });
}

/**
 * Makes an edit that is being judged: what its judge needs is away, and the workers that had read it are gone.
 * @returns sends the edit; call it once the other parts are ready, since judging does not last for ever
 */
export async function editBeingJudged(
  world: FaultWorld,
  restart: () => Promise<void>,
): Promise<() => Promise<Reached>> {
  const run = await started(world, 'edit', 'books');
  const [request] = await openRequests(run);
  const [found] = factsOf(await run.ledger(), 'tools.discovered');
  if (request === undefined || found === undefined) throw new Error('there is no request');
  const { toolsHash: hash } = found;
  const folder = join(world.engine.directory, world.config.artifacts.directory);
  const stored = join(folder, hash.slice(0, 2), hash.slice(2, 4), hash);
  await restart();
  return async () => {
    await rename(stored, `${stored}.away`);
    const decision = { ...decisionOn(request, 'bob'), kind: 'approve' as const, arguments: { amount: 3 } };
    // The edit is answered only when it is judged, or when the run has ended.
    const edited = run.decide(decision).catch((error: unknown) => error);
    const handle = world.client.workflow.getHandle(run.runId);
    await until(
      async () => {
        const { pendingActivities } = (await handle.describe()).raw;
        return pendingActivities?.some(({ activityType }) => activityType?.name === 'judge') === true;
      },
      { what: 'an edit being judged' },
    );
    const reached = paused(world, run);
    return {
      ...reached,
      answered: async () => {
        await rename(`${stored}.away`, stored);
        await reached.answered();
        await edited;
      },
    };
  };
}

// Makes workflow bundles with another guard of queries (docs/adr/0044), so that tests of the guard can be
// seen to fail.

const KNOWN = "const DIRECT = 'legacy_query';";
const DIRECT_ONLY = "if (activation.kind !== 'direct') return false;";

export function withoutGuard({ code, buildId }: WorkflowBundle): WorkflowBundle {
  const without = code.replace(KNOWN, "const DIRECT = 'no query';");
  if (without === code) throw new Error('the bundle holds no guard that could be taken out');
  return { code: without, buildId: `${buildId}-bare` };
}

/** Makes a bundle whose guard also refuses doubtful workflow tasks, to show what the guard's first rule is worth. */
export function refusingTasks({ code, buildId }: WorkflowBundle): WorkflowBundle {
  const without = code.replace(DIRECT_ONLY, '');
  if (without === code) throw new Error('the bundle holds no guard that spares workflow tasks');
  return { code: without, buildId: `${buildId}-strict` };
}
