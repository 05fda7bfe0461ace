/**
 * Trust mode `signed`, where a call outlives its worker: as a task of its server, or as an answer that another worker brings. What
 * was signed at the start and by the approver lets the call leave once, and is checked again before its server is spoken to (ADR 0039, 0041).
 */
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { Countersign, type RunHandle } from '../../client/index.ts';
import { compareWithHistory, readDeeds } from '../../client/ledger/history.ts';
import { startEngine, type TestEngine } from '../support/engine.ts';
import { keepZoneKey } from '../support/signing/keys.ts';
import { lostCall } from '../support/scenes/lost-answers.ts';
import { type ResumableServer, startResumableServer } from '../support/servers/resumable-server.ts';
import { factsOf, outcomes } from '../support/world/run-record.ts';
import { taskOf } from '../support/scenes/tasks.ts';
import { startTaskServer, type TaskServer } from '../support/servers/task-server.ts';
import { person, service, writeTrust } from '../support/signing/people.ts';
import { decisionOn, openRequests, startWorld, type World } from '../support/world/world.ts';

/** Workers are stopped and started, on a busy machine. */
const LONG_MS = 180_000;

const backend = service('backend', ['ops']);
const ann = person('ann-1', 'ann');
const initiator = { id: 'acme|ann' };
const END = { text: 'done' };

let engine: TestEngine;
let tasks: TaskServer;
let kept: ResumableServer;
let world: World;

beforeAll(async () => {
  engine = await startEngine();
  tasks = await startTaskServer();
  kept = await startResumableServer();
  const zone = await keepZoneKey(engine.directory);
  await writeTrust(join(engine.directory, 'trust.jwks'), backend, ann);
  const credentials = { kind: 'none' } as const;
  world = await startWorld({
    engine,
    client: { signer: backend.signer },
    config: {
      servers: {
        mine: { url: tasks.url, credentials, recheckSeconds: 0, tasks: { seconds: 600 } },
        kept: { url: kept.url, credentials },
      },
      policy: { approvers: { ids: ['acme|ann'] } },
      grants: zone.grants,
      trust: { mode: 'signed', jwks: 'trust.jwks' },
    },
  });
});
afterAll(async () => {
  await world?.stop();
  await Promise.all([tasks?.close(), kept?.close()]);
  await engine?.stop();
});

async function approved(tool: string, given: object): Promise<RunHandle> {
  const run = await world.start([{ calls: [{ tool, arguments: given }] }, END], { initiator });
  const [request] = await openRequests(run);
  if (request === undefined) throw new Error('there is no request');
  const { client, artifacts, config } = world;
  const asAnn = new Countersign({ client, artifacts, taskQueue: config.taskQueue, signer: ann.signer });
  await asAnn.run(run.runId).decide({ ...decisionOn(request, 'acme|ann'), approver: { id: 'acme|ann', groups: [] } });
  return run;
}

async function expectOnce(run: RunHandle): Promise<void> {
  expect(await run.result()).toMatchObject({ status: 'completed' });
  expect(await outcomes(run)).toEqual({ 't1.c0': 'succeeded' });
  const ledger = await run.ledger();
  expect(factsOf(ledger, 'dispatched')).toMatchObject([{ attempt: 1 }]);
  expect(compareWithHistory({ before: ledger, after: ledger }, await readDeeds(world.client, run.runId))).toEqual([]);
}

test(
  'INV-X1 INV-G1: a task that a signed decision let begin is asked about by the next worker, and begun once',
  async () => {
    let isDone = false;
    tasks.become({ get: () => ({ status: isDone ? 'completed' : 'working' }) });
    const before = tasks.calls.length;
    const run = await approved('mine/dig', { deep: 1 });
    await taskOf(run);
    await world.restartWorkers();
    const { polls } = await taskOf(run);
    await taskOf(run, (task) => task.polls > polls);
    isDone = true;
    await expectOnce(run);
    expect(tasks.calls).toHaveLength(before + 1);
    expect(factsOf(await run.ledger(), 'task.begun')).toHaveLength(1);
  },
  LONG_MS,
);

test(
  'INV-X1 INV-G1: the answer of a call that a signed decision let leave is brought by the next worker',
  async () => {
    const run = await approved('kept/slow', { purpose: 'brought' });
    await kept.held('brought');
    await kept.progress('brought', 1);
    await world.restartWorkers();
    kept.release('brought');
    await expectOnce(run);
    expect(kept.executed.filter((each) => each === 'brought')).toHaveLength(1);
    expect(factsOf(await run.ledger(), 'resumed')).toMatchObject([{ attempt: 1 }]);
  },
  LONG_MS,
);

test(
  'INV-G1: where the key of who agreed is trusted no more, the server is not asked, and a person is',
  async () => {
    const run = await approved('kept/slow', { purpose: 'untrusted' });
    await kept.held('untrusted');
    await kept.progress('untrusted', 1);
    await writeTrust(join(engine.directory, 'trust.jwks'), backend);
    const asked = () => kept.requests.filter(({ lastEventId }) => lastEventId !== undefined).length;
    const before = asked();
    await world.restartWorkers();
    expect((await lostCall(run, 't1.c0')).about).toMatchObject({ kind: 'outcome', attempt: 1 });
    expect(asked()).toBe(before);
    expect(kept.executed.filter((each) => each === 'untrusted')).toHaveLength(1);
    kept.release('untrusted');
    await run.stop({ by: 'acme|ann', reason: 'seen' });
    expect(await run.result()).toMatchObject({ status: 'stopped' });
  },
  LONG_MS,
);
