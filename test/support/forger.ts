/** Somebody with write access to the namespace: a worker with workflows of its own, and the recorded inputs of a genuine run. */
import { fileURLToPath } from 'node:url';
import { NativeConnection, Worker } from '@temporalio/worker';
import type { DispatchInput } from '../../contracts/activities.ts';
import type { ApproverList } from '../../contracts/schemas/policy.ts';
import { ACTIVITIES } from '../../contracts/names.ts';
import { bundleWorkflows } from '../../workers/bundle.ts';
import { createTracing } from '../../workers/tracing.ts';
import { ADMINISTRATOR, connected } from './catalogs.ts';
import { type RecordingServer, startRecordingServer } from './recording-server.ts';
import { scheduledInputs } from './run-record.ts';
import { decisionOn, openRequests, startWorld, type World } from './world.ts';

export interface Forger {
  readonly bank: RecordingServer;
  readonly world: World;
  /** What a genuine run scheduled, by activity. */
  readonly genuine: ReadonlyMap<string, Readonly<Record<string, unknown>>>;
  /** The dispatch of a call that was countersigned, and made. */
  readonly approved: DispatchInput;
  /** Schedules an activity of the real workers from a workflow of the forger's. `$self` as `runId` becomes its Temporal run. */
  forge(type: 'agentRun' | 'somethingElse', activity: string, input: (workflowId: string) => object): Promise<unknown>;
  stop(): Promise<void>;
}

/** @param over what those who are asked may do besides */
export async function startForger(over: Pick<ApproverList, 'may' | 'remember'> = {}): Promise<Forger> {
  const approvers = { ids: ['ann'], groups: [], ...over };
  const bank = await startRecordingServer();
  const credentials = { kind: 'none' } as const;
  const policy = { approvers, servers: { bank: { tools: { lookup: 'allow' as const, fail: 'deny' as const } } } };
  const servers = { bank: { url: bank.url, credentials }, other: { url: bank.url, credentials } };
  // In a tenant of its own: no run here has a catalog.
  const catalog = { administrators: [{ ...ADMINISTRATOR, tenant: 'shelf' }] };
  const world = await startWorld({ config: { policy, servers, catalog } });
  const genuine = await recordGenuine(world, bank.url);
  // Sound: recorded by our own workflow.
  const approved = genuine.get(ACTIVITIES.callTool) as unknown as DispatchInput;

  const connection = await NativeConnection.connect({ address: world.engine.server.address });
  const { code } = await bundleWorkflows(fileURLToPath(new URL('forged-workflows.ts', import.meta.url)));
  const plugins = [createTracing('off')];
  const worker = await Worker.create({ connection, taskQueue: 'forged', workflowBundle: { code }, plugins });
  const running = worker.run();
  let forgeries = 0;
  return {
    bank,
    world,
    genuine,
    approved,
    forge: async (type, activity, input) => {
      const workflowId = `forged-${(forgeries += 1)}`;
      const args = [world.config.taskQueue, activity, input(workflowId)];
      const answer: unknown = await world.client.workflow.execute(type, { workflowId, taskQueue: 'forged', args });
      return answer;
    },
    stop: async () => {
      worker.shutdown();
      await running;
      await connection.close();
      await world.stop();
      await bank.close();
    },
  };
}

async function recordGenuine(world: World, url: string): Promise<Forger['genuine']> {
  const shelf = world.countersign.catalog('bank', 'shelf');
  await connected(shelf, url);
  const run = await world.start([
    { calls: [{ tool: 'bank/pay', arguments: { purpose: 'genuine', amount: 1 } }] },
    { text: 'done' },
  ]);
  const [request] = await openRequests(run);
  if (request === undefined) throw new Error('no request');
  await run.decide(decisionOn(request, 'ann'));
  await run.result();
  const recorded = await scheduledInputs(world, run.runId);
  const ofCatalog = await scheduledInputs(world, shelf.workflowId);
  // Sound: recorded by our own workflow.
  const { toolset, run: identity, name } = recorded.get(ACTIVITIES.callTool) as unknown as DispatchInput;
  const call = { callId: 't1.c0', providerCallId: 'p', name, arguments: {} };
  return new Map<string, Readonly<Record<string, unknown>>>([
    [ACTIVITIES.judge, { run: identity, toolset, runPolicy: undefined, calls: [call] }],
    // Takes the name of a tenant, and answers nothing in trust mode `temporal`.
    [ACTIVITIES.readTrust, {}],
    ...ofCatalog,
    ...recorded,
  ]);
}
