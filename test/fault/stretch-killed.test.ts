/**
 * A worker process is killed, frozen or told to end in the middle of a stretch (F1, F2, F5, docs/adr/0058). By the
 * servers' own logs no call ran more often than the ledger says it was sent, and by the model's own log no turn on
 * record was asked again.
 */
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { defaultPayloadConverter } from '@temporalio/common';
import { tsToMs } from '@temporalio/common/lib/time.js';
import type { RunHandle } from '../../client/index.ts';
import type { ConfigInput } from '../../contracts/schemas/config.ts';
import type { StretchRecord } from '../../contracts/wire/stretch.ts';
import { KILL_POINTS, type KillPoint, type KillServer, startKillServer } from '../support/faults/kill-points.ts';
import { executionsOf, expectSound, type SoundOptions } from '../support/faults/oracle.ts';
import { type Plan, startTurnProvider, type TurnProvider } from '../support/faults/turn-provider.ts';
import { type FaultRoute, type FaultWorld, startFaultRoute, startFaultWorld } from '../support/faults/world.ts';
import { type RecordingServer, startRecordingServer } from '../support/servers/recording-server.ts';
import type { Era, ExecutedCall } from '../support/servers/raw-server.ts';
import { until } from '../support/until.ts';
import { codeOf, factsOf, replayOwn, traceOf } from '../support/world/run-record.ts';
import { startWorkerProcess, type WorkerProcess } from '../support/world/worker-process.ts';
import { decisionOn, openRequests } from '../support/world/world.ts';

/** Longer than the heartbeat timeout of a stretch, on a busy machine. */
const RECOVERY_MS = 240_000;

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
 * A decision, two turns of a stretch, and a turn with a call that may run only once. The second turn of the stretch calls
 * beside the recording server the one that holds.
 */
const killedPlan = (tool: string): Plan => [
  ['shop/pay'],
  ['shop/lookup'],
  [tool, 'shop/lookup'],
  ['shop/lookup'],
  ['shop/odd', 'shop/lookup'],
];

const WAYS = ['finish', 'cancel', 'cancelled', 'interrupted'] as const;
const endName = (place: 'step' | 'call', way: (typeof WAYS)[number]): string => `${place}-${way}`;

const PLANS: Readonly<Record<string, Plan>> = {
  ...Object.fromEntries(PLACES.map(({ name }) => [name, killedPlan(`${name}/act`)])),
  'first-step': killedPlan('shop/lookup'),
  unrecorded: killedPlan('shop/lookup'),
  between: killedPlan('shop/lookup'),
  ...Object.fromEntries(
    WAYS.flatMap((way) => [
      [endName('step', way), [['shop/lookup'], ['shop/lookup']]],
      [endName('call', way), [['shop/lookup'], ['shop/slow']]],
    ]),
  ),
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
let route: FaultRoute;
let frozen: WorkerProcess;
/** What the server of a run without a server of its own knew when its worker was killed. */
let leftUnrecorded: readonly ExecutedCall[];

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

/** What Temporal has on record of the stretch of a run. */
async function recordOf({ client }: FaultWorld, run: RunHandle): Promise<StretchRecord | undefined> {
  const { raw } = await client.workflow.getHandle(run.runId).describe();
  const [payload] = raw.pendingActivities?.[0]?.heartbeatDetails?.payloads ?? [];
  // Sound: the details of a stretch are its record.
  return payload && defaultPayloadConverter.fromPayload<StretchRecord>(payload);
}

/** Waits until Temporal has the result of this call on record. */
async function recorded(of: FaultWorld, run: RunHandle, callId: string): Promise<void> {
  await until(
    async () => {
      const calls = (await recordOf(of, run))?.turns.flatMap((turn) => turn.calls ?? []);
      return calls?.find((call) => call.callId === callId)?.result !== undefined;
    },
    { what: `the result of ${callId} of ${run.runId} on record`, withinMs: 60_000 },
  );
}

/** Waits until a worker has ended so many stretches of a run, by its own log. */
async function endedBy(worker: WorkerProcess, { runId }: RunHandle, count: number): Promise<void> {
  const isEnd = (line: string): boolean =>
    line.includes('"activityType":"stretch"') && line.includes(runId) && /"message":"Activity (?!started)/.test(line);
  await until(() => worker.output().split('\n').filter(isEnd).length >= count, {
    what: `the end of ${count} stretches of ${runId}`,
    withinMs: 60_000,
  });
}

/** Waits until a stretch has heard that it is no longer wanted: Temporal says so with each heartbeat. */
async function heardItsEnd(run: RunHandle): Promise<void> {
  let since: number | undefined;
  await until(
    async () => {
      const [pending] = (await world.client.workflow.getHandle(run.runId).describe()).raw.pendingActivities ?? [];
      // PENDING_ACTIVITY_STATE_CANCEL_REQUESTED (temporal.api.enums.v1)
      if (pending?.state !== 3) return undefined;
      const at = tsToMs(pending.lastHeartbeatTime);
      since ??= at;
      return at > since;
    },
    { what: `a heartbeat of ${run.runId} after its end was asked for` },
  );
}

/** Starts what is killed, and kills it once with each run at its place. */
async function killAll(): Promise<void> {
  const { address, namespace } = world.engine.server;
  // The way of this worker to Temporal, which can be cut while the worker goes on.
  route = await startFaultRoute(`http://${address}/`);
  const worker = await startWorkerProcess({
    configFile: world.configFile,
    bundleFile: join(world.engine.directory, 'bundle.json'),
    address: new URL(route.url).host,
    namespace,
  });
  const names = [...places.keys(), 'first-step', 'unrecorded', 'between'];
  for (const name of names) {
    const servers = [{ name: 'shop' }, ...(places.has(name) ? [{ name }] : [])];
    runs.set(name, await world.start(name, { servers }));
  }
  const asked = await Promise.all(
    names.map(async (name) => ({ run: partOf(runs, name), open: await openRequests(partOf(runs, name)) })),
  );
  for (const { server } of places.values()) server.arm();
  provider.hold('first-step', 2);
  for (const name of ['unrecorded', 'between']) provider.hold(name, 3);
  await Promise.all(asked.map(async ({ run, open: [request] }) => await run.decide(decisionOn(request, 'bob'))));
  await Promise.all([
    ...[...places.values()].map(async ({ server }) => await server.held(1)),
    ...[...places.keys()].map(async (name) => await recorded(world, partOf(runs, name), 't3.c1')),
    provider.held('first-step', 2),
    ...['unrecorded', 'between'].flatMap((name) => [
      provider.held(name, 3),
      recorded(world, partOf(runs, name), 't2.c0'),
    ]),
  ]);
  await route.cut();
  provider.release('unrecorded', 3);
  const answered = [...places].filter(([, { point }]) => point === 'answered, not completed');
  await Promise.all(answered.map(async ([, { server }]) => await server.answer()));
  // The first stretch of each ended where the person was asked.
  const unreported = ['unrecorded', ...answered.map(([name]) => name)];
  await Promise.all(unreported.map(async (name) => await endedBy(worker, partOf(runs, name), 2)));
  leftUnrecorded = [...shop.callsFor('unrecorded')];
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
    recorded(frozenWorld, call, 't2.c1'),
    frozenProvider.held('frozen-step', 2),
    recorded(frozenWorld, step, 't1.c0'),
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
  const client = { deadlineMs: 60_000 };
  const log = { level: 'debug' as const };
  world = await startFaultWorld({
    config: {
      taskQueue: 'killed',
      servers: { shop: shopConfig, ...holding },
      policy: policyOf([...places.keys()]),
      models: provider.models(),
      execution,
      log,
    },
    client,
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
    client,
  });
  await Promise.all([killAll(), freezeAll()]);
  await world.startWorker();
}, RECOVERY_MS);

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
    RECOVERY_MS,
  );

  test(
    'during its first model step: the step is asked for again',
    async () => {
      expect(await attemptsAt('first-step')).toEqual(ONCE);
      expect(provider.turns('first-step')).toEqual([1, 2, 2, 3, 4, 5, 6]);
    },
    RECOVERY_MS,
  );

  test(
    'before its calls are on record: nothing has left, and the step is asked for again',
    async () => {
      expect(leftUnrecorded.map(({ headers }) => headers['idempotency-key'])).toEqual(
        ['t1.c0', 't2.c0'].map((callId) => `${partOf(runs, 'unrecorded').runId}/${callId}`),
      );
      expect(await attemptsAt('unrecorded')).toEqual(ONCE);
      expect(provider.turns('unrecorded')).toEqual([1, 2, 3, 3, 4, 5, 6]);
    },
    RECOVERY_MS,
  );

  test(
    'between two turns: the first one counts, and is not asked for again',
    async () => {
      expect(await attemptsAt('between')).toEqual(ONCE);
      expect(provider.turns('between')).toEqual([1, 2, 3, 3, 4, 5, 6]);
      expect(executionsOf(shop.calls, partOf(runs, 'between'), 't2.c0')).toBe(1);
    },
    RECOVERY_MS,
  );
});

test(
  'a worker that stood still past the heartbeat timeout comes back to its stretch, and sends nothing more (F5)',
  async () => {
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
    await Promise.all([call, step].map(async (run) => await endedBy(frozen, run, 1)));
    frozen.terminate();
    expect(await frozen.ended).toBe(0);
    expect([shop.callsFor('frozen-call').length, shop.callsFor('frozen-step').length]).toEqual(before);
    expect(await Promise.all([call, step].map(async ({ runId }) => await traceOf(frozenWorld, runId)))).toEqual(traces);
    const ledger = await expectSound(call, shop.calls, REPEATABLE);
    expect(factsOf(ledger, 'dispatched', 't2.c0').map(({ attempt }) => attempt)).toEqual([1, 2]);
    expect(factsOf(ledger, 'dispatched')).toHaveLength(6);
    expect(executionsOf(shop.calls, call, 't2.c0')).toBe(2);
    expect(factsOf(await expectSound(step, shop.calls, REPEATABLE), 'dispatched')).toHaveLength(4);
  },
  RECOVERY_MS,
);

describe('a stretch that is no longer wanted', () => {
  /** Ends the run, or interrupts it. */
  async function end(run: RunHandle, way: (typeof WAYS)[number]): Promise<void> {
    if (way === 'cancelled') await run.cancel();
    else if (way === 'interrupted')
      await run.say({ messageId: 'm1', from: 'ann', text: 'Stop that.', interrupt: true });
    else await run.stop({ by: 'ann', reason: 'enough', inFlight: way });
  }

  /** Waits for the end, and checks that it is the one that was asked for. */
  async function expectEnd(run: RunHandle, way: (typeof WAYS)[number]): Promise<void> {
    if (way === 'cancelled') expect(await codeOf(run.result())).toBe('RUN_CANCELLED');
    else expect(await run.result()).toMatchObject({ status: way === 'interrupted' ? 'completed' : 'stopped' });
  }

  test.each(WAYS)(
    'during a model step (%s): the step is given up, and what was done before it is in the ledger',
    async (way) => {
      const name = endName('step', way);
      provider.hold(name, 2);
      const run = await world.start(name, { servers: [{ name: 'shop' }] });
      const { left } = await provider.held(name, 2);
      await end(run, way);
      await left;
      provider.release(name, 2);
      await expectEnd(run, way);
      const ledger = await expectSound(run, shop.calls, REPEATABLE);
      const isOver = way !== 'interrupted';
      expect(factsOf(ledger, 'dispatched').map(({ callId }) => callId)).toEqual([
        't1.c0',
        ...(isOver ? [] : ['t2.c0']),
      ]);
      expect(provider.turns(name)).toEqual(isOver ? [1, 2] : [1, 2, 2, 3]);
      if (!isOver) expect(provider.texts(name)).toContainEqual(expect.stringContaining('Stop that.'));
    },
    RECOVERY_MS,
  );

  test.each(WAYS)(
    'while a call is held (%s): the call ends as the sender said, and every call that left is in the ledger',
    async (way) => {
      const name = endName('call', way);
      const run = await world.start(name, { servers: [{ name: 'shop' }] });
      await shop.held(name);
      await end(run, way);
      const isGivenUp = way === 'cancel' || way === 'cancelled';
      if (isGivenUp) await until(() => shop.abandoned(name) === 1, { what: 'the call that is given up' });
      else await heardItsEnd(run);
      shop.release(name);
      await expectEnd(run, way);
      const ledger = await expectSound(run, shop.calls, REPEATABLE);
      expect(factsOf(ledger, 'dispatched').map(({ callId }) => callId)).toEqual(['t1.c0', 't2.c0']);
      expect(factsOf(ledger, 'outcome').map(({ outcome }) => outcome)).toEqual([
        'succeeded',
        isGivenUp ? 'unknown' : 'succeeded',
      ]);
      expect(executionsOf(shop.calls, run, 't2.c0')).toBe(1);
      expect(provider.turns(name)).toEqual(way === 'interrupted' ? [1, 2, 3] : [1, 2]);
    },
    RECOVERY_MS,
  );
});

test('what was left behind replays', async () => {
  await replayOwn(world);
  await replayOwn(frozenWorld);
});
