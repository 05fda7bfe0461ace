/**
 * A worker process is lost in the middle of calls at a server of the legacy era that keeps its events (F1, F2, F8;
 * mcp.md §2.5): another worker brings the answers, and by the server's own count each call ran once (INV-X1). What
 * stands in Temporal meanwhile says nothing to whoever reads it, and nothing else than what its own worker left is
 * believed (INV-S1).
 */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, jest, test } from '@jest/globals';
import { defaultPayloadConverter } from '@temporalio/common';
import type { RunHandle } from '../../client/index.ts';
import { compareWithHistory, readDeeds } from '../../client/ledger/history.ts';
import { CanaryScanner } from '../support/canary/scan.ts';
import { expectSound } from '../support/faults/oracle.ts';
import { startFaultWorld } from '../support/faults/world.ts';
import { lostCall } from '../support/scenes/lost-answers.ts';
import { startResumableServer } from '../support/servers/resumable-server.ts';
import { zoneKey } from '../support/signing/keys.ts';
import { until } from '../support/until.ts';
import { executions, factsOf, replayOwn, results } from '../support/world/run-record.ts';
import { decideNext } from '../support/world/world.ts';
import { during } from '../support/world/during.ts';

/** Longer than the heartbeat timeout of a call, on a busy machine. */
const RECOVERY_MS = 180_000;
jest.setTimeout(RECOVERY_MS);
const TOOLS_QUEUE = 'resumed-tools';

const server = during(() => startResumableServer());
const world = during(async () => {
  const zone = await zoneKey();
  const credentials = { kind: 'none' } as const;
  const stepsOf = (purpose: string, tool: string) => ({
    provider: 'scripted' as const,
    script: { steps: [{ calls: [{ tool, arguments: { purpose } }] }, { text: 'Done.' }] },
  });
  return await startFaultWorld({
    config: {
      servers: {
        once: { url: server.url, credentials },
        asked: { url: server.url, credentials },
        apart: { url: server.url, credentials, taskQueue: TOOLS_QUEUE },
      },
      grants: { keys: [{ kid: zone.kid, privateKeyFile: 'zone.pem' }] },
      policy: { approvers: { ids: ['bob'] }, servers: { once: { default: 'allow' }, apart: { default: 'allow' } } },
      worker: { shutdownGraceSeconds: 1 },
      models: Object.fromEntries([
        ...['early', 'late', 'stopped', 'gone'].map((name) => [name, stepsOf(name, 'once/slow')]),
        ['approved', stepsOf('approved', 'asked/slow')],
        ...['forged', 'foreign'].map((name) => [name, stepsOf(name, 'apart/slow')]),
      ]),
    },
    files: { 'zone.pem': zone.pem },
  });
});

const start = async (name: string): Promise<RunHandle> =>
  await world.start(name, { servers: [{ name: 'once' }, { name: 'asked' }] });

interface Beat {
  readonly phase?: string;
  readonly sentAt?: string;
  readonly resume?: { readonly ciphertext: string };
}

/** What Temporal was told last of the call that is under way. */
async function lastWord({ runId }: RunHandle): Promise<Beat | undefined> {
  const { raw } = await world.client.workflow.getHandle(runId).describe();
  const details = raw.pendingActivities?.find(
    ({ activityType }) => activityType?.name === 'callTool',
  )?.heartbeatDetails;
  const [payload] = details?.payloads ?? [];
  return payload && defaultPayloadConverter.fromPayload<Beat>(payload);
}

async function leftBehind(run: RunHandle): Promise<Beat> {
  return await until(
    async () => {
      const beat = await lastWord(run);
      return beat?.resume === undefined ? undefined : beat;
    },
    { what: `where the answer of ${run.runId} comes, in Temporal` },
  );
}

const gets = (): number => server.requests.filter(({ lastEventId }) => lastEventId !== undefined).length;

async function expectResumed(run: RunHandle, purpose: string): Promise<void> {
  expect(await run.result()).toMatchObject({ status: 'completed' });
  const ledger = await expectSound(run, server.calls);
  expect(server.executed.filter((each) => each === purpose)).toHaveLength(1);
  expect(factsOf(ledger, 'dispatched')).toMatchObject([{ attempt: 1 }]);
  expect(factsOf(ledger, 'resumed')).toMatchObject([{ attempt: 1 }]);
  expect(factsOf(ledger, 'outcome')).toMatchObject([{ outcome: 'succeeded' }]);
  // Nobody was asked what became of it.
  expect(factsOf(ledger, 'request.opened').filter(({ about }) => about !== undefined)).toEqual([]);
  expect((await results(world, run))[0]?.outcome).toMatchObject({
    kind: 'succeeded',
    result: { content: [{ text: `${purpose} is done in [redacted]` }] },
  });
}

test('kill -9: another worker brings the answers, whether they were there before it asked or came after', async () => {
  const worker = await world.startWorker();
  const names = ['early', 'late', 'approved'] as const;
  const runs = await Promise.all(names.map(start));
  const [early, late, approved] = runs;
  if (early === undefined || late === undefined || approved === undefined) throw new Error('three were started');
  await decideNext(approved, 'bob');
  await Promise.all(names.map(async (name) => await server.held(name)));
  await Promise.all(runs.map(leftBehind));
  const before = gets();
  await worker.kill();
  server.release('early');
  const next = await world.startWorker();
  await until(() => gets() >= before + 3, { what: 'they are asked for', withinMs: RECOVERY_MS });
  server.release('late');
  server.release('approved');
  await expectResumed(early, 'early');
  await expectResumed(late, 'late');
  await expectResumed(approved, 'approved');
  expect(server.cancelled).toEqual([]);
  await next.kill();
});

test('SIGTERM: a call that outlasts the grace time is handed on, and the server hears of no cancellation', async () => {
  const worker = await world.startWorker();
  const run = await start('stopped');
  await server.held('stopped');
  await leftBehind(run);
  const before = gets();
  worker.terminate();
  expect(await worker.ended).toBe(0);
  const next = await world.startWorker();
  await until(() => gets() > before, { what: 'it is asked for' });
  server.release('stopped');
  await expectResumed(run, 'stopped');
  expect(server.cancelled).toEqual([]);
  await next.kill();
});

test('kill -9, and the server has forgotten the session: somebody is asked, and is told why', async () => {
  const worker = await world.startWorker();
  const run = await start('gone');
  await server.held('gone');
  await leftBehind(run);
  await worker.kill();
  server.forget();
  const next = await world.startWorker();
  const { about } = await lostCall(run, 't1.c0', 1, RECOVERY_MS);
  expect(about).toMatchObject({ kind: 'outcome', attempt: 1, message: expect.stringContaining('HTTP 404') });
  expect(server.executed.filter((each) => each === 'gone')).toHaveLength(1);
  await run.stop({ by: 'ann', reason: 'Enough.' });
  await run.result();
  await next.kill();
});

test('what a worker of the queue says that had not sent the call is not believed: somebody is asked, and the server is not', async () => {
  const worker = await world.startWorker({ role: 'runs' });
  const tools = await world.startWorker({ role: 'tools' });
  const servers = [{ name: 'apart' }];
  const runs = await Promise.all(['forged', 'foreign'].map(async (name) => await world.start(name, { servers })));
  await Promise.all(['forged', 'foreign'].map(async (name) => await server.held(name)));
  const [forged, foreign] = runs;
  if (forged === undefined || foreign === undefined) throw new Error('two were started');
  const [one, two] = await Promise.all([leftBehind(forged), leftBehind(foreign)]);
  await tools.kill();
  const before = gets();
  // With the namespace alone, heartbeats of running activities can be overwritten: one gets what is sealed for the
  // other.
  await overwrite(forged, { ...one, resume: { ...one.resume, ciphertext: 'AAAA' } });
  await overwrite(foreign, { ...two, resume: one.resume });
  const next = await world.startWorker({ role: 'tools' });
  for (const run of [forged, foreign]) {
    const { about } = await lostCall(run, 't1.c0', 1, RECOVERY_MS);
    expect(about).toMatchObject({ message: expect.stringContaining('does not open for this call') });
  }
  expect(gets()).toBe(before);
  expect(server.executed.filter((each) => each === 'forged' || each === 'foreign')).toHaveLength(2);
  for (const run of runs) {
    await run.stop({ by: 'ann', reason: 'Enough.' });
    await run.result();
  }
  await Promise.all([worker.kill(), next.kill()]);
});

/** As anybody can who may write to the namespace. */
async function overwrite({ runId: workflowId }: RunHandle, details: object): Promise<void> {
  const { client } = world;
  const { raw } = await client.workflow.getHandle(workflowId).describe();
  const activityId = raw.pendingActivities?.find(({ activityType }) => activityType?.name === 'callTool')?.activityId;
  await client.workflowService.recordActivityTaskHeartbeatById({
    namespace: client.options.namespace,
    workflowId,
    runId: raw.workflowExecutionInfo?.execution?.runId ?? '',
    activityId: activityId ?? '',
    details: { payloads: [defaultPayloadConverter.toPayload(details)] },
  });
}

test('neither sessions nor events stand anywhere in clear; what is sealed does (INV-S1)', async () => {
  const { sessions, events } = server.secrets;
  const scanner = new CanaryScanner([
    ...sessions.map((value, at) => ({ name: `session ${at}`, value })),
    ...events.map((value, at) => ({ name: `event ${at}`, value })),
  ]);
  const texts: [string, Buffer][] = [];
  for (const runId of world.runs)
    for (const { history } of await executions(world, runId)) texts.push([runId, Buffer.from(JSON.stringify(history))]);
  const folder = world.engine.directory;
  for (const name of await readdir(folder))
    if (name.startsWith('temporal.db')) texts.push([name, await readFile(join(folder, name))]);
  const found = texts.flatMap(([place, bytes]) => scanner.scan(place, bytes));
  expect(found).toEqual([]);
  // Controls: the scanner finds what is there, and Temporal has what is sealed.
  expect(scanner.scan('control', `x ${sessions[0]} x`)).not.toEqual([]);
  const sealed = new CanaryScanner([{ name: 'what is sealed', value: '"resume":{"protected"' }]);
  const kept = texts.flatMap(([place, bytes]) => (sealed.scan(place, bytes).length > 0 ? [place] : []));
  expect(kept).toEqual(expect.arrayContaining([...world.runs]));
  expect(kept.some((place) => place.startsWith('temporal.db'))).toBe(true);
});

test('what was left behind replays, and the ledger stands in its history', async () => {
  await replayOwn(world);
  await world.startWorker();
  for (const runId of world.runs) {
    const ledger = await world.countersign.run(runId).ledger();
    expect(compareWithHistory({ before: ledger, after: ledger }, await readDeeds(world.client, runId))).toEqual([]);
  }
});
