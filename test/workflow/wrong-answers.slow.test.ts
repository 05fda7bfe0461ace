/**
 * Answers of activities that cannot be read, or are none, by somebody who ends an activity in its worker's place: no
 * workflow task fails by one, and the run or catalog says why it does not go on (docs/adr/0046).
 */
import { beforeAll, expect, test } from '@jest/globals';
import type { Payload } from '@temporalio/common';
import type { RunHandle } from '../../client/index.ts';
import { defined } from '../../contracts/defined.ts';
import { ACTIVITIES, QUERIES } from '../../contracts/names.ts';
import type { ConfigInput } from '../../contracts/schemas/config.ts';
import type { LedgerPage } from '../../contracts/schemas/run-state.ts';
import type { BegunRun } from '../../contracts/wire/stretch.ts';
import { answersOf, Impostor, type TakenActivity, valueOf, workflowsOnly } from '../support/forgery/impostor.ts';
import { encoded, readable } from '../support/forgery/raw-messages.ts';
import { ADMINISTRATOR, ANN, connected } from '../support/scenes/catalogs.ts';
import { startRecordingServer } from '../support/servers/recording-server.ts';
import { codeOf, executions } from '../support/world/run-record.ts';
import { openRequests, startWorld, type World, useEngine } from '../support/world/world.ts';
import { beforehand, during } from '../support/world/during.ts';

const STEPS = [{ calls: [{ tool: 'bank/pay', arguments: { purpose: 'wrong' } }] }, { text: 'done' }];
const WRONG: readonly Payload[] = [
  encoded('json/plain', '{'),
  encoded('binary/encrypted', 'xyz'),
  {},
  readable(null),
  readable(7),
  readable([null]),
  readable({ kind: 'ended', parts: [null], calls: 7 }),
];
const { prepareRun, stretch, discoverTools, modelStep, callTool, storeSegment, reviewChange, discoverCatalog } =
  ACTIVITIES;

/** A world, the one who answers in it for its workers, and what its workers answered when nobody did. */
interface Scene {
  readonly world: World;
  readonly impostor: Impostor;
  readonly genuine: Map<string, Payload>;
}

const engine = useEngine();
const bank = during(() => startRecordingServer());
/** Each step and each call of its runs is an activity of its own. */
const steps = beforehand(
  () => sceneOf({ execution: { stretch: { turns: 0 } } }),
  ({ world }) => world.stop(),
);
/** Its runs go on in stretches. */
const stretches = beforehand(
  () => sceneOf({ taskQueue: 'stretches' }, steps.world),
  ({ world }) => world.stop(),
);

beforeAll(async () => {
  const shelf = steps.world.countersign.catalog('bank', 'shelf');
  await connected(shelf, bank.url);
  await learn(steps, shelf.workflowId, reviewChange, discoverCatalog);
  await learnFromRun(steps, prepareRun, discoverTools, modelStep, callTool, storeSegment);
  await learnFromRun(stretches, prepareRun, callTool, storeSegment, stretch);
});

async function sceneOf(over: ConfigInput, like?: World): Promise<Scene> {
  const world = await startWorld({
    engine,
    ...defined({ bundle: like?.bundle }),
    config: {
      policy: { servers: { bank: { default: 'allow' } } },
      servers: { bank: { url: bank.url, credentials: { kind: 'none' } } },
      // In a tenant of its own: no run here has a catalog.
      catalog: { administrators: [{ ...ADMINISTRATOR, tenant: 'shelf' }] },
      ...over,
    },
  });
  return { world, impostor: new Impostor(world), genuine: new Map() };
}

/** @param types activities that the workers must have done for this workflow */
async function learn({ world, genuine }: Scene, runId: string, ...types: readonly string[]): Promise<void> {
  for (const type of types) {
    const [answer] = await answersOf(world, { runId }, type);
    if (answer === undefined) throw new Error(`nobody answered ${type}`);
    genuine.set(type, answer);
  }
}

async function learnFromRun(scene: Scene, ...types: readonly string[]): Promise<void> {
  const run = await startRun(scene);
  await run.result();
  await learn(scene, run.runId, ...types);
}

/** A run that rolls once, and so stores a segment. */
async function startRun({ world }: Scene): Promise<RunHandle> {
  return await world.start(STEPS, { limits: { turnsPerExecution: 1 } });
}

/** Somebody else answers for all workers while `act` goes on. */
async function unattended({ world }: Scene, act: () => Promise<void>): Promise<void> {
  await world.workers.stop();
  const end = await workflowsOnly(world);
  try {
    await act();
  } finally {
    await end();
    await world.restartWorkers();
  }
}

/** The first activity of this type; whatever comes before is answered as a worker did. */
async function taken({ impostor, genuine }: Scene, workflowId: string, type: string): Promise<TakenActivity> {
  for (;;) {
    const task = await impostor.take();
    if (task.workflowId === workflowId && task.type === type) return task;
    await impostor.complete(task, genuine.get(task.type) ?? {});
  }
}

async function expectNoFailedTask({ world }: Scene, workflowId: string): Promise<void> {
  const events = (await executions(world, workflowId)).flatMap((execution) => execution.events);
  const failed = events.flatMap(({ workflowTaskFailedEventAttributes: task }) => (task?.failure ? [task.failure] : []));
  // Temporal itself fails a task that would end a run to which something has come meanwhile, and gives another.
  expect(failed.filter(({ serverFailureInfo }) => !serverFailureInfo)).toEqual([]);
}

/** Each run ends with INTERNAL once the first activity of this type has one of these answers. */
async function expectEnds(scene: Scene, type: string, answers: readonly Payload[]): Promise<void> {
  const runs: RunHandle[] = [];
  await unattended(scene, async () => {
    for (const wrong of answers) {
      const run = await startRun(scene);
      runs.push(run);
      await scene.impostor.complete(await taken(scene, run.runId, type), wrong);
    }
  });
  for (const run of runs) {
    expect(await codeOf(run.result())).toBe('INTERNAL');
    await expectNoFailedTask(scene, run.runId);
  }
}

test.each([prepareRun, discoverTools, modelStep, storeSegment])(
  'a run ends with INTERNAL where what comes for %s is no answer',
  async (type) => {
    await expectEnds(steps, type, WRONG);
  },
);

test.each([prepareRun, stretch])(
  'a run that goes on in stretches ends with INTERNAL where what comes for %s is no answer',
  async (type) => {
    await expectEnds(stretches, type, WRONG);
  },
);

/** What is no list of turns, and lists of what are no turns. */
const NO_TURNS: readonly unknown[] = [
  null,
  7,
  'turns',
  {},
  [null],
  [{}],
  [{ at: 1 }],
  [{ step: null, at: 1 }],
  [{ step: { parts: [], usage: { inputTokens: 0, outputTokens: 0 }, finish: 'stop' }, at: -1 }],
  [{ step: { parts: [], usage: { inputTokens: 0, outputTokens: 0 }, finish: 'stop' }, at: 8.64e15 + 1 }],
  [{ step: { parts: [], usage: { inputTokens: 0, outputTokens: 0 }, finish: 'stop' }, at: 1, calls: null }],
  [{ step: { parts: [], usage: { inputTokens: 0, outputTokens: 0 }, finish: 'stop' }, at: 1, calls: [null] }],
];

test('a run ends with INTERNAL where the turns of a stretch are none', async () => {
  const answers = NO_TURNS.map((turns) => readable({ turns }));
  await expectEnds(stretches, stretch, answers);
});

test('a run ends with INTERNAL where the lists or the turns of its first activity are none', async () => {
  const begun = valueOf<object>(stretches.genuine.get(prepareRun));
  expect(begun).toMatchObject({ found: [{ server: 'bank' }], turns: [{ step: {} }] });
  await expectEnds(stretches, prepareRun, [
    ...NO_TURNS.map((turns) => readable({ ...begun, turns })),
    ...[null, 7, {}, [null], [{ server: 'bank' }]].map((found) => readable({ ...begun, found })),
    ...[null, 7, { prepared: 1, listed: null }].map((times) => readable({ ...begun, times })),
  ]);
});

test('a run ends with INTERNAL where the failure of its first step is none, or has no code of ours', async () => {
  const begun = valueOf<BegunRun>(stretches.genuine.get(prepareRun));
  const { turns: _, ...rest } = begun;
  const none = [null, 7, {}, { code: 'MODEL_REJECTED', message: 'No.' }, { code: 'NONE', message: 'No.', facts: {} }];
  await expectEnds(
    stretches,
    prepareRun,
    none.map((failed) => readable({ ...rest, failed })),
  );
});

test('a run that was stopped before it heard that its model refuses is stopped, and does not fail', async () => {
  const { turns: _, ...rest } = valueOf<BegunRun>(stretches.genuine.get(prepareRun));
  await unattended(stretches, async () => {
    const run = await startRun(stretches);
    const task = await taken(stretches, run.runId, prepareRun);
    await run.stop({ by: 'ann', reason: 'Enough.' });
    const failed = { code: 'MODEL_REJECTED', message: 'No.', facts: {} };
    await stretches.impostor.complete(task, readable({ ...rest, failed }));
    expect(await run.result()).toMatchObject({ status: 'stopped' });
  });
});

test('a message that came while the model refused makes another request: the model is asked', async () => {
  const { turns: _, ...rest } = valueOf<BegunRun>(stretches.genuine.get(prepareRun));
  let run: RunHandle | undefined;
  await unattended(stretches, async () => {
    run = await startRun(stretches);
    const task = await taken(stretches, run.runId, prepareRun);
    await run.say({ messageId: 'm1', text: 'Quickly, please.', from: 'ann' });
    const failed = { code: 'MODEL_REJECTED', message: 'No.', facts: {} };
    await stretches.impostor.complete(task, readable({ ...rest, failed }));
  });
  expect(await run?.result()).toMatchObject({ status: 'completed' });
});

test('a run ends with INTERNAL where turns contradict each other, or a call is said to have left that was not to leave', async () => {
  const begun = valueOf<BegunRun>(stretches.genuine.get(prepareRun));
  const [turn] = begun.turns ?? [];
  if (turn === undefined) throw new Error('a turn');
  const left = { callId: 't1.c0', digest: 'none', sentAt: turn.at };
  const { judged: _, ...unjudged } = turn.step;
  const { parts } = turn.step;
  const twice = { ...turn.step, parts: [...parts, ...parts] };
  const turns: readonly (readonly object[])[] = [
    [turn, turn],
    [{ ...turn, step: twice }],
    [{ ...turn, calls: [] }],
    [{ ...turn, calls: [{ ...left, callId: 't9.c9' }] }],
    [{ ...turn, calls: [left, left] }],
    [{ ...turn, step: { ...turn.step, judged: { policyVersion: 'none', judgements: [] } }, calls: [left] }],
    [{ ...turn, step: { ...unjudged, parts: [] }, calls: [left] }],
  ];
  await expectEnds(
    stretches,
    prepareRun,
    turns.map((wrong) => readable({ ...begun, turns: wrong })),
  );
});

test('a worker whose clock is years behind puts nothing before what stands in the ledger, also in an execution that has not recorded anything', async () => {
  const { world, impostor } = stretches;
  const ended: string[] = [];
  await unattended(stretches, async () => {
    const run = await startRun(stretches);
    const second = await taken(stretches, run.runId, stretch);
    const step = {
      parts: [{ type: 'text', text: 'done' }],
      usage: { inputTokens: 0, outputTokens: 0 },
      finish: 'stop',
    };
    await impostor.complete(second, readable({ turns: [{ step, at: 1 }] }));
    // The segment that it stores at its end.
    await impostor.complete(await taken(stretches, run.runId, storeSegment), stretches.genuine.get(storeSegment) ?? {});
    expect(await run.result()).toMatchObject({ status: 'completed' });
    ended.push(run.runId);
  });
  const handle = world.client.workflow.getHandle(ended[0] ?? '');
  const { startTime } = await handle.describe();
  const { entries } = await handle.query<LedgerPage, [number, number]>(QUERIES.ledger, 0, 100);
  const times = entries.map(({ at }) => Date.parse(at));
  expect(times.length).toBeGreaterThan(1);
  expect(times[0]).toBeGreaterThanOrEqual(startTime.getTime());
  expect(times).toEqual(times.toSorted((one, other) => one - other));
});

test('a call for which no answer comes has an outcome that nobody knows', async () => {
  const runs: RunHandle[] = [];
  await unattended(steps, async () => {
    for (const wrong of WRONG) {
      const run = await startRun(steps);
      runs.push(run);
      await steps.impostor.complete(await taken(steps, run.runId, callTool), wrong);
    }
  });
  for (const run of runs) {
    const [request] = await openRequests(run);
    expect(request?.about).toMatchObject({ kind: 'outcome' });
    await run.stop({ by: 'ann', reason: 'Enough.' });
    expect(await run.result()).toMatchObject({ status: 'stopped' });
    await expectNoFailedTask(steps, run.runId);
  }
});

test('a catalog refuses the message, or its refresh fails, and it goes on', async () => {
  const shelf = steps.world.countersign.catalog('bank', 'shelf');
  const before = (await shelf.snapshot()).entries;
  await unattended(steps, async () => {
    for (const wrong of WRONG) {
      const asking = shelf.refresh({ by: ANN }).then(
        () => 'accepted',
        () => 'refused',
      );
      await steps.impostor.complete(await taken(steps, shelf.workflowId, reviewChange), wrong);
      expect(await asking).toBe('refused');
    }
    for (const wrong of WRONG) {
      const asking = shelf.refresh({ by: ANN });
      await steps.impostor.complete(await taken(steps, shelf.workflowId, discoverCatalog), wrong);
      const { refresh = 0 } = await asking;
      expect(await shelf.settled(refresh)).toMatchObject({ ok: false });
    }
  });
  expect((await shelf.snapshot()).entries).toEqual(before);
  expect(await shelf.refresh({ by: ANN })).toMatchObject({ status: 'applied' });
  await expectNoFailedTask(steps, shelf.workflowId);
});
