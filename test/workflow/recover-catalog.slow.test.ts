/** A catalog whose history no worker can replay is read from it, and has the way out of a run; what an operator has to say again is told (INV-D3). */
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { assertIntact, type CatalogHandle } from '../../client/index.ts';
import { entryOf } from '../../domain/catalog/state.ts';
import { bundleWorkflows } from '../../workers/bundle.ts';
import { replayHistories } from '../../workers/replay/replay.ts';
import { ADMINISTRATORS, changed, connected } from '../support/scenes/catalogs.ts';
import { type CommandResult, documentOf, runCommand } from '../support/cli.ts';
import { startEngine, type TestEngine } from '../support/engine.ts';
import { type RecordingServer, startRecordingServer } from '../support/servers/recording-server.ts';
import { refusalOf } from '../support/world/run-record.ts';
import { until } from '../support/until.ts';
import { startWorld, type World } from '../support/world/world.ts';

let engine: TestEngine;
let bank: RecordingServer;
let world: World;
let catalog: CatalogHandle;

beforeAll(async () => {
  engine = await startEngine();
  bank = await startRecordingServer();
  const config = { catalog: { administrators: ADMINISTRATORS, origins: [new URL(bank.url).origin] } };
  const bundle = await bundleWorkflows(undefined, [
    fileURLToPath(new URL('../support/forgery/straying-interceptors.ts', import.meta.url)),
  ]);
  const strayed = await startWorld({ engine, bundle, config });
  const first = strayed.countersign.catalog('bank');
  await connected(first, bank.url);
  // Each on the version that the one before it made.
  await changed(first, { tool: 'pay', denied: true });
  await changed(first, { tool: 'lookup', enabled: false });
  await strayed.workers.stop();
  world = await startWorld({ engine, config });
  catalog = world.countersign.catalog('bank');
  await world.client.workflow.getHandle(catalog.workflowId).signal('nudge');
  await until(
    async () => {
      const { events } = await world.client.workflow.getHandle(catalog.workflowId).fetchHistory();
      return events?.some(({ workflowTaskFailedEventAttributes: failed }) => failed) ? true : undefined;
    },
    { what: 'a workflow task that fails' },
  );
}, 120_000);
afterAll(async () => {
  await world.workers.stop();
  await bank.close();
  await engine.stop();
});

async function cli(...args: readonly string[]): Promise<CommandResult> {
  const { address, namespace } = engine.server;
  return await runCommand([...args, '--address', address, '--namespace', namespace], { directory: engine.directory });
}

test('CATALOG_UNAVAILABLE names the way out', async () => {
  const told = await until(
    async () => {
      const refusal = await refusalOf(world.hurried(3_000).catalog('bank').snapshot());
      return refusal.code === 'CATALOG_UNAVAILABLE' ? refusal : undefined;
    },
    { withinMs: 60_000 },
  );
  expect(told.message).toContain('countersign recover catalog/default/bank');
});

test('catalog show, ledger and verify-ledger read what can be read, and say up to where', async () => {
  const shown = await cli('catalog', 'show', 'bank');
  expect(shown).toMatchObject({ exitCode: 0, err: '' });
  for (const part of [
    'stuck  catalog/default/bank',
    'TMPRL1100',
    'what came after could not be read',
    'bank  connected',
  ])
    expect(shown.out).toContain(part);
  expect(documentOf(await cli('catalog', 'show', 'bank', '--json'))).toMatchObject({
    policyVersion: 1,
    stuck: { failing: { message: expect.stringContaining('Nondeterminism') }, readTo: expect.any(Number) },
  });
  expect((await cli('ledger', catalog.workflowId)).out).toContain('catalog.refreshed');
  expect((await cli('verify-ledger', catalog.workflowId)).out).toContain('catalog/default/bank: 2 entries');
});

test('recover shows what is undone, and what becomes of it; alone it does nothing', async () => {
  const shown = await cli('recover', catalog.workflowId);
  expect(shown).toMatchObject({ exitCode: 0, err: '' });
  for (const part of [
    'setToolPolicies on pay by ann',
    'setToolPolicies on lookup by ann',
    'is sent to the catalog again',
    'make again what the catalog lacks',
    'Nothing was done.',
  ])
    expect(shown.out).toContain(part);
  expect(shown.out).not.toMatch(/^Run|say, stop/m);
  expect(await cli('recover', catalog.workflowId, '--yes')).toMatchObject({ exitCode: 7 });
});

test('goes on from the last sound task; a change that was made on another one has to be made again', async () => {
  const done = await cli('recover', catalog.workflowId, '--yes', '--anyway');
  expect(done).toMatchObject({ exitCode: 0, out: expect.stringContaining('countersign catalog list bank') });
  const after = await until(async () => {
    const snapshot = await catalog.snapshot().catch(() => undefined);
    return snapshot?.policyVersion === 2 ? snapshot : undefined;
  });
  expect(['pay', 'lookup'].map((tool) => entryOf(after, tool)?.setting)).toMatchObject([
    { denied: true },
    { enabled: true },
  ]);
  const again = await changed(catalog, { tool: 'lookup', enabled: false });
  expect(entryOf(again, 'lookup')?.setting).toMatchObject({ enabled: false });
  assertIntact(await catalog.ledger(), catalog.workflowId);
  let replayed = 0;
  for await (const execution of world.client.workflow.list({ query: `WorkflowId = '${catalog.workflowId}'` })) {
    const { runId, workflowId, status } = execution;
    if (status.name === 'TERMINATED') continue;
    const history = await world.client.workflow.getHandle(workflowId, runId).fetchHistory();
    const recorded = [{ kind: 'history', name: runId, workflowId, history }] as const;
    for await (const { error } of replayHistories(recorded, world)) expect(error).toBeUndefined();
    replayed += 1;
  }
  expect(replayed).toBeGreaterThan(0);
});
