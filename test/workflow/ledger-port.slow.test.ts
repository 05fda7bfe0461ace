/** What a run or a catalog has recorded is kept beside Temporal before it continues as new or ends (INV-D3, F39). */
import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeAll, expect, test } from '@jest/globals';
import { defineSearchAttributeKey } from '@temporalio/common';
import { compactVerify, importJWK } from 'jose';
import { LEDGER_ROOT } from '../../activities/ledger/directory.ts';
import { HEAD_TYPE } from '../../contracts/crypto.ts';
import { LedgerHead } from '../../contracts/schemas/ledger.ts';
import { catalogId } from '../../domain/catalog/state.ts';
import { detailsOf, executions, refusalOf } from '../support/world/run-record.ts';
import { ADMINISTRATORS, connected } from '../support/scenes/catalogs.ts';
import { lostCall, resolutionOf } from '../support/scenes/lost-answers.ts';
import { startLedgerReceiver, WEBHOOK_SECRET } from '../support/servers/ledger-receiver.ts';
import { startRecordingServer } from '../support/servers/recording-server.ts';
import { headKey, writeHeadKey } from '../support/signing/keys.ts';
import { until } from '../support/until.ts';
import { during } from '../support/world/during.ts';
import { keptIn } from '../support/world/ledger-folder.ts';
import { resetRun } from '../support/world/reset.ts';
import { decideNext, decisionOn, openRequests, rolled, useEngine, useWorld } from '../support/world/world.ts';

const STATUS = defineSearchAttributeKey('CountersignStatus', 'KEYWORD');
const KEY = headKey();
const engine = useEngine();
const bank = during(() => startRecordingServer());
const receiver = during(startLedgerReceiver);
const world = useWorld(async () => ({
  engine,
  config: {
    catalog: { administrators: ADMINISTRATORS, origins: [new URL(bank.url).origin] },
    servers: { bank: { url: bank.url, credentials: { kind: 'none' } } },
    ledger: {
      sign: await writeHeadKey(engine.directory, KEY),
      directory: 'ledger',
      webhook: { url: receiver.url, secret: WEBHOOK_SECRET },
    },
  },
}));
afterEach(() => receiver.answer());
let root: string;
beforeAll(() => {
  root = join(engine.directory, 'ledger');
});

const PAY = { calls: [{ tool: 'bank/pay', arguments: { purpose: 'p' } }] };
const END = { text: 'done' };

async function firstRunIdOf(workflowId: string): Promise<string> {
  return (await executions(world, workflowId))[0]?.runId ?? '';
}

/** What Temporal says of a step of the run that fails. */
async function failingStep(workflowId: string): Promise<string> {
  return await until(
    async () => {
      const { pendingActivities } = (await world.client.workflow.getHandle(workflowId).describe()).raw;
      const step = pendingActivities?.find(({ activityType }) => activityType?.name === 'storeSegment');
      const { applicationFailureInfo, message } = step?.lastFailure ?? {};
      return applicationFailureInfo?.type === undefined ? undefined : `${applicationFailureInfo?.type} ${message}`;
    },
    { what: `a failing step of ${workflowId}` },
  );
}

test('every entry of a run over several executions is in both sinks once it has ended, under signed heads', async () => {
  const run = await world.start([PAY, PAY, END]);
  await openRequests(run);
  await rolled(world, run.runId);
  await decideNext(run, 'ann');
  await until(async () => (await run.state()).turn === 2, { what: 'the second turn' });
  await decideNext(run, 'ann');
  await run.result();
  const ledger = await run.ledger();
  const firstRunId = await firstRunIdOf(run.runId);
  const { entries, signedHeads, files } = await keptIn(root, firstRunId);
  expect(entries).toEqual(ledger);
  expect(files).toHaveLength(2);
  expect(receiver.entries(firstRunId)).toEqual(ledger);
  expect(receiver.signedHeads(firstRunId)).toEqual(signedHeads);
  const key = await importJWK(KEY.publicJwk, 'EdDSA');
  const heads = await Promise.all(
    signedHeads.map(async (signed) => {
      const { payload, protectedHeader } = await compactVerify(signed, key);
      expect(protectedHeader).toEqual({ alg: 'EdDSA', kid: 'worker-1', typ: HEAD_TYPE });
      return LedgerHead.parse(JSON.parse(new TextDecoder().decode(payload)));
    }),
  );
  const cut = heads[0]?.to ?? 0;
  expect(heads).toEqual([
    expect.objectContaining({
      firstRunId,
      from: 0,
      to: cut,
      previousHead: '0'.repeat(64),
      head: ledger[cut - 1]?.hash,
    }),
    expect.objectContaining({
      namespace: 'default',
      workflowId: run.runId,
      from: cut,
      to: ledger.length,
      previousHead: ledger[cut - 1]?.hash,
      head: ledger.at(-1)?.hash,
    }),
  ]);
});

test.each([
  [
    'a receiver is away',
    async () => {
      receiver.answer((_, response) => response.writeHead(503).end());
      return async () => receiver.answer();
    },
  ],
  [
    'the directory is not mounted',
    async () => {
      await rename(root, `${root}-away`);
      await mkdir(root);
      return async () => {
        await rm(root, { recursive: true });
        await rename(`${root}-away`, root);
      };
    },
  ],
])('where %s, a run waits visibly with its requests open, and loses nothing', async (_, takeAway) => {
  const bringBack = await takeAway();
  const run = await world.start([PAY, END]);
  await openRequests(run);
  await world.client.workflow.getHandle(run.runId).signal('nudge');
  expect(await failingStep(run.runId)).toContain('LEDGER_UNAVAILABLE');
  // Decided while it waits.
  await decideNext(run, 'ann');
  expect((await run.state()).status).not.toBe('completed');
  await bringBack();
  await run.result();
  expect((await keptIn(root, await firstRunIdOf(run.runId))).entries).toEqual(await run.ledger());
});

test('what ends while a receiver is away is not shown as over before it is stored', async () => {
  receiver.answer((_, response) => response.writeHead(503).end());
  const run = await world.start([END]);
  expect(await failingStep(run.runId)).toContain('LEDGER_UNAVAILABLE');
  expect(await run.state()).toMatchObject({ status: 'storing', endsAs: 'completed' });
  expect(await run.advance()).toMatchObject({ status: 'storing' });
  const handle = world.client.workflow.getHandle(run.runId);
  const shown = async () => (await handle.describe()).typedSearchAttributes.get(STATUS);
  expect(await shown()).toBe('running');
  expect(await detailsOf(world, run.runId)).toContain('ends completed, once transcript and ledger are stored');
  receiver.answer();
  await run.result();
  expect(await run.state()).toMatchObject({ status: 'completed' });
  await until(async () => (await shown()) === 'completed', { what: 'the end in the list' });
});

test('S2.3: in a run that was stopped a call that waited is no unknown call, while it is stored and afterwards', async () => {
  receiver.answer((_, response) => response.writeHead(503).end());
  const run = await world.start([PAY, END]);
  const [request] = await openRequests(run);
  await run.stop({ by: 'ann', reason: 'enough' });
  expect(await failingStep(run.runId)).toContain('LEDGER_UNAVAILABLE');
  expect(await run.state()).toMatchObject({ status: 'storing', endsAs: 'stopped', because: 'enough' });
  expect(await refusalOf(run.decide(decisionOn(request, 'ann')))).toMatchObject({
    code: 'REQUEST_NOT_OPEN',
    facts: { callId: 't1.c0' },
  });
  receiver.answer();
  await run.result();
  expect(await refusalOf(run.decide(decisionOn(request, 'ann')))).toMatchObject({ code: 'RUN_CLOSED' });
});

test('F39: what was changed in the directory is not written over: the run waits and says so', async () => {
  const run = await world.start([PAY, END]);
  await openRequests(run);
  await rolled(world, run.runId);
  const { files } = await keptIn(root, await firstRunIdOf(run.runId));
  const file = join(root, files[0] ?? '');
  const whole = await readFile(file, 'utf8');
  await writeFile(file, whole.replace('"kind":"run.started"', '"kind":"said"'));
  await decideNext(run, 'ann');
  expect(await failingStep(run.runId)).toContain('LEDGER_CONFLICT');
  await writeFile(file, whole);
  await run.result();
  expect((await keptIn(root, await firstRunIdOf(run.runId))).entries).toEqual(await run.ledger());
});

test('a sink that misses what was recorded before it is given it from the artifact store', async () => {
  const run = await world.start([PAY, END]);
  await openRequests(run);
  await rolled(world, run.runId);
  await rolled(world, run.runId);
  const firstRunId = await firstRunIdOf(run.runId);
  for (const file of (await keptIn(root, firstRunId)).files) await rm(join(root, file));
  await decideNext(run, 'ann');
  await run.result();
  expect((await keptIn(root, firstRunId)).entries).toEqual(await run.ledger());
});

test('INV-G2, F38: a run that was reset after its end is kept beside what it had recorded before', async () => {
  const run = await world.start([PAY, END]);
  await decideNext(run, 'ann');
  await run.result();
  const before = await run.ledger();
  const [execution] = await executions(world, run.runId);
  const { runId = '' } = execution ?? {};
  await resetRun(world.client, { workflowId: run.runId, runId }, 'first');
  await decideNext(run, 'ann');
  // It was sent before the reset.
  await run.resolveOutcome(resolutionOf(await lostCall(run), 'ann', { kind: 'retry' }));
  await run.result();
  const after = await run.ledger();
  const { entries, files } = await keptIn(root, runId);
  expect(files).toHaveLength(2);
  expect(new Set(entries)).toEqual(new Set([...before, ...after]));
  expect(after.at(-1)?.hash).not.toBe(before.at(-1)?.hash);
});

test('a catalog that continues as new is kept in the same way', async () => {
  const catalog = world.countersign.catalog('bank');
  await connected(catalog, bank.url);
  const workflowId = catalogId({ tenant: 'default', server: 'bank' });
  const handle = world.client.workflow.getHandle(workflowId);
  const { runId } = await handle.describe();
  await handle.signal('nudge');
  await until(async () => (await handle.describe()).runId !== runId, {
    what: 'another execution',
  });
  const { entries } = await keptIn(root, runId);
  expect(entries).toEqual((await catalog.ledger()).slice(0, entries.length));
  expect(entries.at(-1)?.fact).toMatchObject({ kind: 'catalog.rolled' });
});

test('the marker of the directory is made where it is beside the configuration', async () => {
  expect((await keptIn(root, '~')).files.length).toBeGreaterThan(0);
  expect(await readdir(root)).toContain(LEDGER_ROOT.marker);
});
