/**
 * Plays a namespace writer: a worker with workflows of its own, and the recorded inputs of a genuine run.
 */
import { fileURLToPath } from 'node:url';
import { ApplicationFailure } from '@temporalio/common';
import { ACTIVITIES } from '../../../contracts/names.ts';
import type { ApproverList, PolicyInput } from '../../../contracts/schemas/policy.ts';
import type { DispatchInput } from '../../../contracts/wire/tools.ts';
import { requestDigest } from '../../../domain/request/digest.ts';
import { digestIdOf } from '../../../domain/request/gathering.ts';
import { bundleWorkflows } from '../../../workers/bundle.ts';
import { createTracing } from '../../../workers/tracing.ts';
import { ADMINISTRATOR, connected } from '../scenes/catalogs.ts';
import { MESSAGE_SECRET, startMessageReceiver } from '../servers/message-receiver.ts';
import { type RecordingServer, startRecordingServer } from '../servers/recording-server.ts';
import { type ResumableServer, startResumableServer } from '../servers/resumable-server.ts';
import { startTaskServer } from '../servers/task-server.ts';
import { zoneKey } from '../signing/keys.ts';
import { type OwnWorker, startOwnWorker } from '../world/own-worker.ts';
import { scheduledInputs } from '../world/run-record.ts';
import { decisionOn, openRequests, requestAfter, rolled, startWorld, type World } from '../world/world.ts';

export interface Forger {
  readonly bank: RecordingServer;
  readonly world: World;
  /** Number of requests to any server. */
  contacts(): number;
  /** Inputs that a genuine run scheduled, by activity. */
  readonly genuine: ReadonlyMap<string, Readonly<Record<string, unknown>>>;
  /** The dispatch of a call that was countersigned and sent. */
  readonly approved: DispatchInput;
  /**
   * Schedules an activity of the real workers from a workflow of the forger. `$self` as `runId` becomes its Temporal
   * run id.
   */
  forge(
    type: 'agentRun' | 'somethingElse',
    activity: string,
    input: (workflowId: string) => object,
    workflowId?: string,
  ): Promise<unknown>;
  stop(): Promise<void>;
}

/**
 * @param over further rights of the people who are asked
 * @param rules of the organisation, before all others
 */
export async function startForger(
  over: Pick<ApproverList, 'may' | 'remember'> = {},
  rules: NonNullable<PolicyInput['rules']> = [],
): Promise<Forger> {
  const approvers = { ids: ['ann'], groups: [], ...over };
  const bank = await startRecordingServer();
  const tasks = await startTaskServer();
  const kept = await startResumableServer();
  const told = await startMessageReceiver();
  const credentials = { kind: 'none' } as const;
  const policy = {
    rules,
    approvers,
    notify: ['hook', 'rounds'].map((channel) => ({ channel, on: ['opened' as const] })),
    servers: {
      bank: { tools: { lookup: 'allow' as const, fail: 'deny' as const } },
      digs: { default: 'allow' as const },
      kept: { default: 'allow' as const },
    },
  };
  const servers = {
    bank: { url: bank.url, credentials },
    other: { url: bank.url, credentials },
    digs: { url: tasks.url, credentials, tasks: {} },
    kept: { url: kept.url, credentials },
  };
  // The catalog has a tenant of its own: no run here has a catalog.
  const catalog = { administrators: [{ ...ADMINISTRATOR, tenant: 'shelf' }] };
  const hook = { kind: 'webhook' as const, url: told.url, secret: MESSAGE_SECRET };
  const notify = { channels: { hook, rounds: { ...hook, digest: { seconds: 1 } } } };
  const beside = [bank, tasks, kept, told];
  const world = await startWorld({ zone: await zoneKey(), beside, config: { policy, servers, catalog, notify } });
  const genuine = new Map([...(await recordGenuine(world, bank.url)), ...(await recordOutlived(world, kept))]);
  // Sound: our own workflow recorded it.
  const approved = genuine.get(ACTIVITIES.callTool) as unknown as DispatchInput;
  const worker = await startForgedWorker(world.engine.server.address);
  let forgeries = 0;
  return {
    bank,
    contacts: () => bank.methods.length + tasks.asked.length + kept.requests.length,
    world,
    genuine,
    approved,
    forge: async (type, activity, input, workflowId = `forged-${(forgeries += 1)}`) => {
      const args = [world.config.taskQueue, activity, input(workflowId)];
      const ran: Promise<unknown> = world.client.workflow.execute(type, { workflowId, taskQueue: 'forged', args });
      return await ran.catch(lostIn);
    },
    stop: async () => {
      await worker.stop();
      await world.stop();
    },
  };
}

/** Starts a worker whose workflows are not ours, on the task queue `forged`. */
export async function startForgedWorker(address: string): Promise<OwnWorker> {
  const { code } = await bundleWorkflows(fileURLToPath(new URL('forged-workflows.ts', import.meta.url)));
  const plugins = [createTracing('off')];
  return await startOwnWorker(address, { taskQueue: 'forged', workflowBundle: { code }, plugins });
}

async function recordGenuine(world: World, url: string): Promise<Forger['genuine']> {
  const shelf = world.countersign.catalog('bank', 'shelf');
  await connected(shelf, url);
  const run = await world.start([
    { calls: [{ tool: 'bank/pay', arguments: { purpose: 'genuine', amount: 1 } }] },
    { text: 'done' },
  ]);
  const [request] = await openRequests(run);
  await run.decide(decisionOn(request, 'ann'));
  await run.result();
  const recorded = await scheduledInputs(world, run.runId);
  const ofCatalog = await scheduledInputs(world, shelf.workflowId);
  const digestId = digestIdOf({ tenant: 'default', channel: 'rounds', to: { ids: ['ann'], groups: [] } });
  await world.client.workflow.getHandle(digestId).result();
  const ofDigest = await scheduledInputs(world, digestId);
  // Sound: our own workflow recorded it.
  const { toolset, run: identity, name } = recorded.get(ACTIVITIES.callTool) as unknown as DispatchInput;
  const call = { callId: 't1.c0', providerCallId: 'p', name, arguments: {} };
  return new Map<string, Readonly<Record<string, unknown>>>([
    [ACTIVITIES.judge, { run: identity, toolset, runPolicy: undefined, calls: [call] }],
    // The activity takes the name of a tenant, and answers nothing in trust mode `temporal`.
    [ACTIVITIES.readTrust, {}],
    ...ofCatalog,
    ...ofDigest,
    ...(await recordSteps(world)),
    ...recorded,
  ]);
}

/** Records the inputs of a run whose steps are activities of their own, and which continues as new. */
async function recordSteps(world: World): Promise<Forger['genuine']> {
  const { stretch } = world.config.execution;
  const { turns } = stretch;
  stretch.turns = 0;
  try {
    const pay = { tool: 'bank/pay', arguments: { purpose: 'stepped', amount: 1 } };
    const run = await world.start([{ calls: [pay] }, { text: 'done' }]);
    const [request] = await openRequests(run);
    await rolled(world, run.runId);
    await run.decide(decisionOn(await requestAfter(run, request), 'ann'));
    await run.result();
    return await scheduledInputs(world, run.runId);
  } finally {
    stretch.turns = turns;
  }
}

/** Records the inputs of runs whose calls outlive the worker that sent them. */
async function recordOutlived(world: World, kept: ResumableServer): Promise<Forger['genuine']> {
  const ofOne = async (tool: string, given: object) =>
    await world.start([{ calls: [{ tool, arguments: given }] }, { text: 'done' }], {
      servers: [{ name: 'digs' }, { name: 'kept' }],
    });
  const digging = await ofOne('digs/dig', { deep: 1 });
  await digging.result();
  const waiting = await ofOne('kept/slow', { purpose: 'brought' });
  await kept.held('brought');
  await kept.progress('brought', 1);
  await world.restartWorkers();
  kept.release('brought');
  await waiting.result();
  const polls = await scheduledInputs(world, digging.runId);
  const resumptions = await scheduledInputs(world, waiting.runId);
  return new Map(
    [...polls, ...resumptions].filter(([name]) => name === ACTIVITIES.pollTask || name === ACTIVITIES.resumeCall),
  );
}

/** Makes a dispatch from a forged run in which everything fits everything else, so that it would pass. */
export function consistent(
  approved: DispatchInput,
  workflowId: string,
  over: Partial<DispatchInput> = {},
): DispatchInput {
  const input: DispatchInput = {
    ...approved,
    run: { ...approved.run, workflowId },
    runId: '$self',
    decidedIn: ['forged-run'],
    arguments: { purpose: 'forged' },
    ...over,
  };
  const { proof, run, callId, target } = input;
  if (proof.kind !== 'decision') return input;
  const digest = requestDigest({
    namespace: run.namespace,
    tenant: run.initiator.tenant,
    workflowId,
    callId,
    runId: 'forged-run',
    generation: proof.generation,
    target,
    arguments: input.arguments,
    approvers: proof.approvers,
  });
  return { ...input, proof: { ...proof, decision: { ...proof.decision, callId, digest, runId: 'forged-run' } } };
}

/** What an activity knows of a call that may have run is the detail of its failure. */
function lostIn(error: unknown): unknown {
  for (let at = error; at instanceof Error; at = at.cause)
    if (at instanceof ApplicationFailure && at.type === 'OUTCOME_UNKNOWN') return at.details?.[0];
  throw error;
}
