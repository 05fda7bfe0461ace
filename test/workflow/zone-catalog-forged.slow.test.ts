/** Catalogs in trust mode `signed` against somebody who answers in the place of our workers (docs/adr/0047). */
import { fileURLToPath } from 'node:url';
import { beforeAll, expect, test } from '@jest/globals';
import type { Payload } from '@temporalio/common';
import { NativeConnection, Worker } from '@temporalio/worker';
import { codedFailureIn } from '../../contracts/failure.ts';
import { ACTIVITIES } from '../../contracts/names.ts';
import type { CatalogDiscovery } from '../../contracts/wire/catalog.ts';
import type { CatalogCarry } from '../../domain/catalog/carry.ts';
import { bundleWorkflows } from '../../workers/bundle.ts';
import { createTracing } from '../../workers/tracing.ts';
import { startWorkers } from '../../workers/worker.ts';
import {
  answersOf,
  copyOf,
  Impostor,
  payloadOf,
  type TakenActivity,
  valueOf,
  workflowsOnly,
} from '../support/forgery/impostor.ts';
import { ANN, ann, startSignedCatalog, tighten } from '../support/scenes/signed-catalog.ts';
import { person } from '../support/signing/people.ts';
import { until } from '../support/until.ts';
import { executions, replayOwn } from '../support/world/run-record.ts';
import { during } from '../support/world/during.ts';

let impostor: Impostor;

/** Nobody trusts it. */
const stranger = person('stranger', 'ann', ['admins']);

const catalog = during(() => startSignedCatalog('tools'));
beforeAll(async () => {
  impostor = new Impostor(catalog.world);
});

async function unattended<T>(act: () => Promise<T>): Promise<T> {
  await catalog.world.workers.stop();
  const end = await workflowsOnly(catalog.world);
  try {
    return await act();
  } finally {
    await end();
    await catalog.world.restartWorkers();
  }
}

async function taken(type: string): Promise<TakenActivity> {
  const task = await impostor.take();
  expect(task.type).toBe(type);
  return task;
}

test('a review and keys by somebody else are not believed', async () => {
  const before = await catalog.handle.snapshot();
  const own = { kid: 'stranger', x: stranger.entry.x, iss: 'acme', sub: 'ann', groups: ['admins'] };
  const answered = await unattended(async () => {
    const honest = catalog.sent('setToolPolicies', await catalog.signedBy(ann, tighten(before.policyVersion)));
    const administrators = [{ ids: [ANN.id], groups: [], may: ['connect', 'loosen', 'tighten'] as const }];
    const trust = { keys: [own], maxAgeSeconds: 900 };
    const review = { rules: { administrators, newTools: 'ask', loosening: 'allow' }, objections: [], trust };
    await impostor.answer(await taken(ACTIVITIES.reviewChange), review);
    const refused = await honest;
    const theirs = await catalog.sent(
      'setToolPolicies',
      await catalog.signedBy(stranger, tighten(before.policyVersion)),
    );
    return { refused, theirs };
  });
  expect(answered).toEqual({ refused: 'ANSWER_UNPROVEN', theirs: 'TRUST_KEY_UNKNOWN' });
  expect(await catalog.version()).toBe(before.policyVersion);
});

test('a catalog that begins with keys of somebody else does not begin', async () => {
  const own = { kid: 'stranger', x: stranger.entry.x, iss: 'acme', sub: 'ann', groups: ['admins'] };
  await unattended(async () => {
    const fresh = catalog.through(ann, 'fresh');
    const connecting = fresh.connect({ by: ANN, url: catalog.bank.url }).catch((error: unknown) => error);
    for (let tries = 0; tries < 3; tries += 1)
      await impostor.answer(await taken(ACTIVITIES.readTrust), { keys: [own], maxAgeSeconds: 900 });
    expect(codedFailureIn(await connecting)?.code).toBe('TRUST_UNAVAILABLE');
    const said = await catalog.world.client.workflow.getHandle(fresh.workflowId).query<object>('snapshot');
    expect(said).not.toHaveProperty('signing');
  });
});

test('a list of tools by somebody else is asked for again, in whatever form it comes, and never stands', async () => {
  const { world, engine, handle } = catalog;
  const { entries } = await handle.snapshot();
  const [genuine = {}] = await answersOf(world, { runId: handle.workflowId }, ACTIVITIES.discoverCatalog);
  const theirs = payloadOf({ ...valueOf<CatalogDiscovery>(genuine), tools: [{ name: 'pay', hash: '0'.repeat(64) }] });
  await world.workers.stop();
  const { address, namespace } = engine.server;
  const loaded = { config: world.config, baseDirectory: engine.directory, path: undefined };
  const runs = await startWorkers({ loaded, connectionOptions: { address }, namespace, role: 'runs' });
  const { refresh = 0 } = await handle.refresh({ by: ANN });
  // Its own; with the proof of an earlier one; and the earlier one as it was.
  for (const forged of [theirs, { ...theirs, metadata: { ...genuine.metadata } }, genuine]) {
    const task = await impostor.take('tools');
    expect(task.type).toBe(ACTIVITIES.discoverCatalog);
    await impostor.complete(task, forged);
  }
  expect(await handle.settled(refresh)).toMatchObject({ ok: false, code: 'ANSWER_UNPROVEN' });
  expect((await handle.snapshot()).entries).toEqual(entries);
  await runs.stop();
  await world.restartWorkers();
});

test('a carry of somebody else, and a genuine one of another execution, end what was begun with them', async () => {
  const { client, config } = catalog.world;
  const { workflowId } = catalog.handle;
  const before = (await catalog.handle.snapshot()).signing?.runId;
  await client.workflow.getHandle(workflowId).signal('nudge');
  await until(async () => (await catalog.handle.snapshot()).signing?.runId !== before, {
    what: 'the next execution',
  });
  const started = (await executions(catalog.world, workflowId)).at(-1)?.events[0]
    ?.workflowExecutionStartedEventAttributes;
  const [identity, carry] = started?.input?.payloads ?? [];
  if (identity === undefined || carry === undefined) throw new Error('nothing was carried');
  expect(valueOf(identity)).toMatchObject({ signed: true });
  await replayOwn(catalog.world, workflowId);
  const state = valueOf<CatalogCarry>(carry);
  await client.workflow.getHandle(workflowId).terminate();

  const connection = await NativeConnection.connect({ address: catalog.engine.server.address });
  const { code } = await bundleWorkflows(
    fileURLToPath(new URL('../support/forgery/forged-workflows.ts', import.meta.url)),
  );
  const plugins = [createTracing('off')];
  const worker = await Worker.create({ connection, taskQueue: 'forged', workflowBundle: { code }, plugins });
  const goesOn = async (given: Payload): Promise<string | undefined> => {
    const args = [config.taskQueue, 'toolCatalog', [identity, given].map(copyOf)];
    const handle = await client.workflow.start('goesOn', { workflowId, taskQueue: 'forged', args });
    return await handle.result().then(
      () => 'completed',
      (error: unknown) => codedFailureIn(error)?.code,
    );
  };
  await worker.runUntil(async () => {
    const forged = payloadOf({ ...state, catalog: { ...state.catalog, entries: [] } } satisfies CatalogCarry);
    for (const given of [forged, { ...forged, metadata: { ...carry.metadata } }, carry])
      expect(await goesOn(given)).toBe('ANSWER_UNPROVEN');
  });
  await connection.close();
});
