/** How a catalog ends, and how it does not. */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { CatalogHandle } from '../../client/index.ts';
import { entryOf } from '../../domain/catalog/state.ts';
import { ADMINISTRATORS, allowed, ANN, changed, connected } from '../support/scenes/catalogs.ts';
import { type RecordingServer, startRecordingServer } from '../support/servers/recording-server.ts';
import { codeOf } from '../support/world/run-record.ts';
import { startWorld, type World } from '../support/world/world.ts';

let world: World;
let tracker: RecordingServer;
let catalogs = 0;

beforeAll(async () => {
  tracker = await startRecordingServer();
  const origins = [new URL(tracker.url).origin];
  world = await startWorld({ config: { catalog: { administrators: ADMINISTRATORS, origins } } });
});
afterAll(async () => {
  await world.stop();
  await tracker.close();
});

function fresh(): CatalogHandle {
  return world.countersign.catalog(`tracker-${(catalogs += 1)}`);
}

test('a request to cancel it changes nothing', async () => {
  const catalog = fresh();
  await connected(catalog, tracker.url);
  await world.client.workflow.getHandle(catalog.workflowId).cancel();
  const after = await changed(catalog, { tool: 'pay', enabled: false });
  expect(after).toMatchObject({ status: 'connected', policyVersion: 2 });
});

test('where it was terminated, connecting does not quietly begin without what was set (INV-G4)', async () => {
  const catalog = fresh();
  await connected(catalog, tracker.url);
  await changed(catalog, { tool: 'pay', enabled: false });
  await world.client.workflow.getHandle(catalog.workflowId).terminate('by mistake');
  const message = { by: ANN, url: tracker.url };
  expect(await codeOf(catalog.connect(message))).toBe('CATALOG_VERSION_CONFLICT');
  expect(entryOf(await catalog.snapshot(), 'pay')?.setting.enabled).toBe(false);
  expect(await catalog.connect(message, { anew: true })).toMatchObject({ status: 'applied', policyVersion: 1 });
});

test('one that nobody ever connected may be connected later, by who may', async () => {
  const catalog = fresh();
  expect(await codeOf(catalog.connect({ by: { id: 'eve' }, url: tracker.url }))).toBe('CATALOG_FORBIDDEN');
  expect(await connected(catalog, tracker.url)).toMatchObject({ status: 'connected' });
});

test('another address is another server: nothing is acknowledged there, and nothing can be before it has been listed', async () => {
  const catalog = fresh();
  await connected(catalog, tracker.url);
  const before = await allowed(catalog, 'pay');
  await connected(catalog, `${tracker.url}?at=other`);
  const entry = entryOf(await catalog.snapshot(), 'pay');
  expect(entry?.definition).toEqual(entryOf(before, 'pay')?.definition);
  expect(entry?.acknowledged).toBeUndefined();
});
