/**
 * Answers of activities that cannot be read, or are none, by somebody who ends an activity in its worker's place: no workflow task fails
 * by one, and the run or catalog says why it does not go on (docs/adr/0046).
 */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Payload } from '@temporalio/common';
import type { RunHandle } from '../../client/index.ts';
import { ACTIVITIES } from '../../contracts/names.ts';
import { startEngine, type TestEngine } from '../support/engine.ts';
import { answersOf, Impostor, type TakenActivity, workflowsOnly } from '../support/forgery/impostor.ts';
import { encoded, readable } from '../support/forgery/raw-messages.ts';
import { ADMINISTRATOR, ANN, connected } from '../support/scenes/catalogs.ts';
import { type RecordingServer, startRecordingServer } from '../support/servers/recording-server.ts';
import { codeOf, executions } from '../support/world/run-record.ts';
import { openRequests, startWorld, type World } from '../support/world/world.ts';

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
const { prepareRun, discoverTools, modelStep, callTool, storeSegment, reviewChange, discoverCatalog } = ACTIVITIES;

let engine: TestEngine;
let bank: RecordingServer;
let world: World;
let impostor: Impostor;
const genuine = new Map<string, Payload>();

beforeAll(async () => {
  engine = await startEngine();
  bank = await startRecordingServer();
  world = await startWorld({
    engine,
    config: {
      policy: { servers: { bank: { default: 'allow' } } },
      servers: { bank: { url: bank.url, credentials: { kind: 'none' } } },
      // In a tenant of its own: no run here has a catalog.
      catalog: { administrators: [{ ...ADMINISTRATOR, tenant: 'shelf' }] },
    },
  });
  impostor = new Impostor(world);
  const run = await world.start(STEPS);
  await run.result();
  const shelf = world.countersign.catalog('bank', 'shelf');
  await connected(shelf, bank.url);
  for (const [runId, types] of [
    [run.runId, [prepareRun, discoverTools, modelStep, callTool, storeSegment]],
    [shelf.workflowId, [reviewChange, discoverCatalog]],
  ] as const)
    for (const type of types) genuine.set(type, (await answersOf(world, { runId }, type))[0] ?? {});
});
afterAll(async () => {
  await world.stop();
  await engine.stop();
  await bank.close();
});

/** Somebody else answers for all workers while `act` goes on. */
async function unattended(act: () => Promise<void>): Promise<void> {
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
async function taken(workflowId: string, type: string): Promise<TakenActivity> {
  for (;;) {
    const task = await impostor.take();
    if (task.workflowId === workflowId && task.type === type) return task;
    await impostor.complete(task, genuine.get(task.type) ?? {});
  }
}

async function expectNoFailedTask(workflowId: string): Promise<void> {
  const events = (await executions(world, workflowId)).flatMap((execution) => execution.events);
  expect(events.filter((event) => event.workflowTaskFailedEventAttributes)).toEqual([]);
}

test.each([prepareRun, discoverTools, modelStep, storeSegment])(
  'a run ends with INTERNAL where what comes for %s is no answer',
  async (type) => {
    const runs: RunHandle[] = [];
    await unattended(async () => {
      for (const wrong of WRONG) {
        const run = await world.start(STEPS);
        runs.push(run);
        await impostor.complete(await taken(run.runId, type), wrong);
      }
    });
    for (const run of runs) {
      expect(await codeOf(run.result())).toBe('INTERNAL');
      await expectNoFailedTask(run.runId);
    }
  },
);

test('a call for which no answer comes has an outcome that nobody knows', async () => {
  const runs: RunHandle[] = [];
  await unattended(async () => {
    for (const wrong of WRONG) {
      const run = await world.start(STEPS);
      runs.push(run);
      await impostor.complete(await taken(run.runId, callTool), wrong);
    }
  });
  for (const run of runs) {
    const [request] = await openRequests(run);
    expect(request?.about).toMatchObject({ kind: 'outcome' });
    await run.stop({ by: 'ann', reason: 'Enough.' });
    expect(await run.result()).toMatchObject({ status: 'stopped' });
    await expectNoFailedTask(run.runId);
  }
});

test('a catalog refuses the message, or its refresh fails, and it goes on', async () => {
  const shelf = world.countersign.catalog('bank', 'shelf');
  const before = (await shelf.snapshot()).entries;
  await unattended(async () => {
    for (const wrong of WRONG) {
      const asking = shelf.refresh({ by: ANN }).then(
        () => 'accepted',
        () => 'refused',
      );
      await impostor.complete(await taken(shelf.workflowId, reviewChange), wrong);
      expect(await asking).toBe('refused');
    }
    for (const wrong of WRONG) {
      const asking = shelf.refresh({ by: ANN });
      await impostor.complete(await taken(shelf.workflowId, discoverCatalog), wrong);
      const { refresh = 0 } = await asking;
      expect(await shelf.settled(refresh)).toMatchObject({ ok: false });
    }
  });
  expect((await shelf.snapshot()).entries).toEqual(before);
  expect(await shelf.refresh({ by: ANN })).toMatchObject({ status: 'applied' });
  await expectNoFailedTask(shelf.workflowId);
});
