/**
 * A worker process is killed or frozen in the middle of a stretch (F1, F2, F5, docs/adr/0058). By the servers' own logs
 * no call ran more often than the ledger says it was sent. By the model's own log no turn on record was asked again.
 */
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import type { RunHandle } from '../../client/index.ts';
import type { ConfigInput } from '../../contracts/schemas/config.ts';
import { type GrpcRoute, startGrpcRoute } from '../support/faults/grpc-route.ts';
import { KILL_POINTS, type KillPoint, type KillServer, startKillServer } from '../support/faults/kill-points.ts';
import { executionsOf, expectSound, type SoundOptions } from '../support/faults/oracle.ts';
import { resultRecorded, stretchesEnded } from '../support/faults/stretches.ts';
import { type Plan, startTurnProvider, type TurnProvider } from '../support/faults/turn-provider.ts';
import { type FaultWorld, startFaultWorld } from '../support/faults/world.ts';
import { type RecordingServer, startRecordingServer } from '../support/servers/recording-server.ts';
import type { Era, ExecutedCall } from '../support/servers/raw-server.ts';
import { sharedBundle } from '../support/shared-bundle.ts';
import { until } from '../support/until.ts';
import { factsOf, replayOwn, traceOf } from '../support/world/run-record.ts';
import { startWorkerProcess, type WorkerProcess } from '../support/world/worker-process.ts';
import { decisionOn, openRequests } from '../support/world/world.ts';

/** Longer than the heartbeat timeout of a stretch, on a busy machine. */
jest.setTimeout(240_000);

/** Stretches end where the scene says, however slow the machine is. */
const execution: ConfigInput['execution'] = { stretch: { seconds: 300 } };
const REPEATABLE: SoundOptions = { repeatable: ['lookup', 'slow', 'act'] };

/** A server that holds a call at one step of its life. */
interface Place {
  readonly era: Era;
  readonly point: KillPoint;
  readonly server: KillServer;
}

const ERAS: readonly Era[] = ['modern', 'legacy'];
/** Names of the servers, and of the runs that are met there. */
const PLACES = ERAS.flatMap((era) => KILL_POINTS[era].map((point, index) => ({ name: `${era}${index}`, era, point })));
/** What the server did before the worker died. */
const hasActed = (point: KillPoint): boolean =>
  point === 'acted on, not answered' || point === 'answered, not completed';

/**
 * A decision, two turns of a stretch, and a turn with a call that may run only once. The second turn of the stretch
 * calls beside the recording server the one that holds.
 */
const killedPlan = (tool: string): Plan => [
  ['shop/pay'],
  ['shop/lookup'],
  [tool, 'shop/lookup'],
  ['shop/lookup'],
  ['shop/odd', 'shop/lookup'],
];

const PLANS: Readonly<Record<string, Plan>> = {
  ...Object.fromEntries(PLACES.map(({ name }) => [name, killedPlan(`${name}/act`)])),
  'first-step': killedPlan('shop/lookup'),
  unrecorded: killedPlan('shop/lookup'),
  untold: killedPlan('shop/lookup'),
  between: killedPlan('shop/lookup'),
};

const FROZEN: Readonly<Record<string, Plan>> = {
  'frozen-call': [['shop/lookup'], ['shop/slow', 'shop/lookup'], ['shop/lookup'], ['shop/odd']],
  'frozen-step': [['shop/lookup'], ['shop/lookup'], ['shop/lookup'], ['shop/odd']],
};

const places = new Map<string, Place>();
const runs = new Map<string, RunHandle>();
let shop: RecordingServer;
let provider: TurnProvider;
let frozenProvider: TurnProvider;
let world: FaultWorld;
let frozenWorld: FaultWorld;
let route: GrpcRoute;
let frozen: WorkerProcess;
/** By run: what the recording server had executed when the worker was killed. */
const executedBefore = new Map<string, readonly ExecutedCall[]>();

const partOf = <T>(parts: ReadonlyMap<string, T>, name: string): T => {
  const part = parts.get(name);
  if (part === undefined) throw new Error(`there is no ${name}`);
  return part;
};

const policyOf = (names: readonly string[]): ConfigInput['policy'] => ({
  unknownOutcomes: 'record',
  approvers: { ids: ['bob'] },
  servers: {
    shop: { tools: { lookup: 'allow', slow: 'allow', odd: 'allow' } },
    ...Object.fromEntries(names.map((name) => [name, { tools: { act: 'allow' as const } }])),
  },
});

/** Starts what is killed, and kills it once with each run at its place. */
async function killAll(): Promise<void> {
  const { address, namespace } = world.engine.server;
  route = await startGrpcRoute(address);
  const worker = await startWorkerProcess({
    configFile: world.configFile,
    bundleFile: join(world.engine.directory, 'bundle.json'),
    address: route.address,
    namespace,
  });
  const thinking = ['unrecorded', 'untold', 'between'];
  const names = [...places.keys(), 'first-step', ...thinking];
  for (const name of names) {
    const servers = [{ name: 'shop' }, ...(places.has(name) ? [{ name }] : [])];
    runs.set(name, await world.start(name, { servers }));
  }
  const asked = await Promise.all(
    names.map(async (name) => ({ run: partOf(runs, name), open: await openRequests(partOf(runs, name)) })),
  );
  for (const { server } of places.values()) server.arm();
  provider.hold('first-step', 2);
  for (const name of thinking) provider.hold(name, 3);
  await Promise.all(asked.map(async ({ run, open: [request] }) => await run.decide(decisionOn(request, 'bob'))));
  await Promise.all([
    ...[...places.values()].map(async ({ server }) => await server.held(1)),
    ...[...places.keys()].map(async (name) => await resultRecorded(world.client, partOf(runs, name), 't3.c1')),
    provider.held('first-step', 2),
    ...thinking.flatMap((name) => [provider.held(name, 3), resultRecorded(world.client, partOf(runs, name), 't2.c0')]),
  ]);
  // What workers say at the end of a stretch does not reach Temporal.
  route.lose('RespondActivityTaskCompleted', 'call');
  // The first stretch of each ended where the person was asked.
  const secondEnded = async (name: string) => await stretchesEnded(worker, partOf(runs, name), 2);
  route.lose('RecordActivityTaskHeartbeat', 'answer');
  provider.release('untold', 3);
  await secondEnded('untold');
  route.lose('RecordActivityTaskHeartbeat', 'call');
  provider.release('unrecorded', 3);
  const answered = [...places].filter(([, { point }]) => point === 'answered, not completed');
  await Promise.all(answered.map(async ([, { server }]) => await server.answer()));
  await Promise.all(['unrecorded', ...answered.map(([name]) => name)].map(secondEnded));
  for (const name of ['unrecorded', 'untold']) executedBefore.set(name, [...shop.callsFor(name)]);
  await worker.kill();
  for (const { server } of places.values()) server.disarm();
  for (const [name, turn] of [
    ['first-step', 2],
    ['between', 3],
  ] as const)
    provider.release(name, turn);
}

/** Starts what is frozen, and starts another worker beside it. */
async function freezeAll(): Promise<void> {
  frozen = await frozenWorld.startWorker();
  frozenProvider.hold('frozen-step', 2);
  for (const name of Object.keys(FROZEN)) runs.set(name, await frozenWorld.start(name));
  const [call, step] = [partOf(runs, 'frozen-call'), partOf(runs, 'frozen-step')];
  await Promise.all([
    shop.held('frozen-call'),
    resultRecorded(frozenWorld.client, call, 't2.c1'),
    frozenProvider.held('frozen-step', 2),
    resultRecorded(frozenWorld.client, step, 't1.c0'),
  ]);
  frozen.freeze();
  await frozenWorld.startWorker();
}

beforeAll(async () => {
  for (const { name, era, point } of PLACES)
    places.set(name, { era, point, server: await startKillServer(era, point) });
  shop = await startRecordingServer();
  [provider, frozenProvider] = [await startTurnProvider(PLANS), await startTurnProvider(FROZEN)];
  const credentials = { kind: 'none' as const };
  const shopConfig = { url: shop.url, credentials, repeatable: ['lookup', 'slow'] };
  const holding: ConfigInput['servers'] = Object.fromEntries(
    [...places].map(
      ([
        name,
        {
          point,
          server: { url },
        },
      ]) => [
        name,
        { url, credentials, repeatable: ['act'], recheckSeconds: point === 'before the session' ? 0 : 3_600 },
      ],
    ),
  );
  const log = { level: 'debug' as const };
  world = await startFaultWorld({
    // Temporal hears of no heartbeat for as long as it takes to reach every place. With a short timeout it would give
    // the stretches to another attempt meanwhile.
    bundle: await sharedBundle(),
    config: {
      taskQueue: 'killed',
      servers: { shop: shopConfig, ...holding },
      policy: policyOf([...places.keys()]),
      models: provider.models(),
      execution,
      log,
    },
  });
  const { engine, bundle } = world;
  frozenWorld = await startFaultWorld({
    engine,
    bundle,
    config: {
      taskQueue: 'frozen',
      servers: { shop: shopConfig },
      policy: policyOf([]),
      models: frozenProvider.models(),
      execution,
      log,
    },
  });
  await Promise.all([killAll(), freezeAll()]);
  await world.startWorker();
});

afterAll(async () => {
  await frozenWorld?.stop();
  await world?.stop();
  await Promise.all([
    route?.close(),
    shop?.close(),
    provider?.close(),
    frozenProvider?.close(),
    ...[...places.values()].map(async ({ server }) => await server.close()),
  ]);
});

describe('a stretch that its worker does not live to end', () => {
  /** Checks what holds wherever the worker was killed, and returns the attempts of each call, from the ledger. */
  async function attemptsAt(name: string): Promise<Readonly<Record<string, readonly number[]>>> {
    const run = partOf(runs, name);
    expect(await run.result()).toMatchObject({ status: 'completed', output: 'Done.', turns: 6, calls: 7 });
    const ledger = await expectSound(run, [...shop.calls, ...(places.get(name)?.server.calls ?? [])], REPEATABLE);
    expect(factsOf(ledger, 'decision.accepted')).toHaveLength(1);
    // These may run only once, before the stretch and after it.
    for (const callId of ['t1.c0', 't5.c0']) expect(executionsOf(shop.calls, run, callId)).toBe(1);
    const attempts: Record<string, number[]> = {};
    for (const { callId, attempt } of factsOf(ledger, 'dispatched')) (attempts[callId] ??= []).push(attempt);
    return attempts;
  }

  const ONCE = { 't1.c0': [1], 't2.c0': [1], 't3.c0': [1], 't3.c1': [1], 't4.c0': [1], 't5.c0': [1], 't5.c1': [1] };

  test.each(PLACES)(
    'with a call of its second turn $point ($era): that call is sent again and no other, and the model is not asked again',
    async ({ name, point }) => {
      const run = partOf(runs, name);
      expect(await attemptsAt(name)).toEqual({ ...ONCE, 't3.c0': [1, 2] });
      const { calls } = partOf(places, name).server;
      expect(executionsOf(calls, run, 't3.c0')).toBe(hasActed(point) ? 2 : 1);
      for (const callId of ['t2.c0', 't3.c1', 't4.c0']) expect(executionsOf(shop.calls, run, callId)).toBe(1);
      // A worker that has the answer goes on with the model, and cannot put on record what it says.
      const again = point === 'answered, not completed' ? [4] : [];
      expect(provider.turns(name)).toEqual([1, 2, 3, 4, ...again, 5, 6]);
    },
  );

  test('during its first model step: the step is asked for again', async () => {
    expect(await attemptsAt('first-step')).toEqual(ONCE);
    expect(provider.turns('first-step')).toEqual([1, 2, 2, 3, 4, 5, 6]);
  });

  /** Checks that the calls of the turn that was asked for last had not left when the worker was killed. */
  function expectNothingLeft(name: string): void {
    const executed = partOf(executedBefore, name);
    expect(executed).toHaveLength(2);
    for (const callId of ['t1.c0', 't2.c0']) expect(executionsOf(executed, partOf(runs, name), callId)).toBe(1);
  }

  test('before its calls are on record: nothing has left, and the step is asked for again', async () => {
    expectNothingLeft('unrecorded');
    expect(await attemptsAt('unrecorded')).toEqual(ONCE);
    expect(provider.turns('unrecorded')).toEqual([1, 2, 3, 3, 4, 5, 6]);
  });

  test('its calls on record, which nobody has told it: nothing has left, and the run sends what may have', async () => {
    const run = partOf(runs, 'untold');
    expectNothingLeft('untold');
    expect(await attemptsAt('untold')).toEqual({ ...ONCE, 't3.c0': [1, 2], 't3.c1': [1, 2] });
    for (const callId of ['t3.c0', 't3.c1']) expect(executionsOf(shop.calls, run, callId)).toBe(1);
    expect(provider.turns('untold')).toEqual([1, 2, 3, 4, 5, 6]);
  });

  test('between two turns: the first one counts, and is not asked for again', async () => {
    expect(await attemptsAt('between')).toEqual(ONCE);
    expect(provider.turns('between')).toEqual([1, 2, 3, 3, 4, 5, 6]);
    expect(executionsOf(shop.calls, partOf(runs, 'between'), 't2.c0')).toBe(1);
  });
});

test('a worker that stood still past the heartbeat timeout comes back to its stretch, and sends nothing more (F5)', async () => {
  const [call, step] = [partOf(runs, 'frozen-call'), partOf(runs, 'frozen-step')];
  // The other worker sends the call again, and asks for the step again.
  await until(() => shop.callsFor('frozen-call', 'slow').length === 2, { what: 'another worker', withinMs: 120_000 });
  shop.release('frozen-call');
  await frozenProvider.held('frozen-step', 2, 2);
  frozenProvider.release('frozen-step', 2);
  for (const run of [call, step]) expect(await run.result()).toMatchObject({ status: 'completed', output: 'Done.' });
  const before = [shop.callsFor('frozen-call').length, shop.callsFor('frozen-step').length];
  const traces = await Promise.all([call, step].map(async ({ runId }) => await traceOf(frozenWorld, runId)));

  frozen.thaw();
  await Promise.all([call, step].map(async (run) => await stretchesEnded(frozen, run, 1)));
  frozen.terminate();
  expect(await frozen.ended).toBe(0);
  expect([shop.callsFor('frozen-call').length, shop.callsFor('frozen-step').length]).toEqual(before);
  expect(await Promise.all([call, step].map(async ({ runId }) => await traceOf(frozenWorld, runId)))).toEqual(traces);
  const ledger = await expectSound(call, shop.calls, REPEATABLE);
  expect(factsOf(ledger, 'dispatched', 't2.c0').map(({ attempt }) => attempt)).toEqual([1, 2]);
  expect(factsOf(ledger, 'dispatched')).toHaveLength(6);
  expect(executionsOf(shop.calls, call, 't2.c0')).toBe(2);
  expect(factsOf(await expectSound(step, shop.calls, REPEATABLE), 'dispatched')).toHaveLength(4);
});

test('what was left behind replays', async () => {
  await replayOwn(world);
  await replayOwn(frozenWorld);
});
