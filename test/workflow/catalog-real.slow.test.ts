/** Catalogs of servers that others wrote: connect, list, toggle, run (S3.1–S3.5). */
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, jest, test } from '@jest/globals';
import { entryOf } from '../../domain/catalog/state.ts';
import { ADMINISTRATORS, allowed, changed, connected, refreshed } from '../support/scenes/catalogs.ts';
import { startEverythingServer, startFilesystemServer } from '../support/servers/real-servers.ts';
import { during } from '../support/world/during.ts';
import { factsOf } from '../support/world/run-record.ts';
import { decisionOn, openRequests, requestFor, useWorld } from '../support/world/world.ts';

jest.setTimeout(120_000);
const files = during(() => startFilesystemServer());
const everything = during(() => startEverythingServer());
const world = useWorld(() => ({
  config: {
    policy: { strategy: 'never' },
    catalog: { administrators: ADMINISTRATORS, origins: [files.url, everything.url].map((url) => new URL(url).origin) },
  },
}));

test('the filesystem server behind mcp-proxy: what is allowed runs, what is asked waits, what is disabled is not there', async () => {
  const catalog = world.countersign.catalog('files');
  const first = await connected(catalog, files.url);
  expect(first.entries.map(({ name }) => name)).toEqual(expect.arrayContaining(['read_text_file', 'write_file']));
  await allowed(catalog, 'list_allowed_directories');
  await changed(catalog, { tool: 'move_file', enabled: false });
  await world.restartWorkers();
  const write = (name: string) => ({
    tool: 'files/write_file',
    arguments: { path: join(files.folder, name), content: 'hello' },
  });
  const steps = [
    { calls: [{ tool: 'files/list_allowed_directories' }, write('a.txt'), { tool: 'files/move_file' }] },
    { text: 'done' },
  ];
  const run = await world.start(steps, { servers: [{ name: 'files' }] });
  const [request] = await openRequests(run);
  expect(request).toMatchObject({ tool: 'write_file', rules: ['catalog/files/tools/write_file'] });
  expect(await readdir(files.folder)).toEqual([]);
  if (request !== undefined) await run.decide(decisionOn(request, 'ann'));
  await run.result();
  expect(await readdir(files.folder)).toEqual(['a.txt']);
  expect(factsOf(await run.ledger(), 'outcome').map(({ callId, outcome }) => [callId, outcome])).toEqual(
    expect.arrayContaining([
      ['t1.c0', 'succeeded'],
      ['t1.c1', 'succeeded'],
      ['t1.c2', 'denied'],
    ]),
  );
  // Listed again it is the same: no drift is made up.
  const again = await refreshed(catalog);
  expect(again.entries.map(({ definition }) => definition)).toEqual(first.entries.map(({ definition }) => definition));
});

test('a tool that was disabled while its call waited is not called, whoever approved it', async () => {
  const catalog = world.countersign.catalog('everything');
  await connected(catalog, everything.url);
  await world.restartWorkers();
  const run = await world.start(
    [{ calls: [{ tool: 'everything/echo', arguments: { message: 'hi' } }] }, { text: 'done' }],
    { servers: [{ name: 'everything' }] },
  );
  const request = await requestFor(run, 't1.c0');
  await changed(catalog, { tool: 'echo', enabled: false });
  await world.restartWorkers();
  await run.decide(decisionOn(request, 'ann'));
  await run.result();
  expect(factsOf(await run.ledger(), 'outcome')).toMatchObject([{ outcome: 'denied', code: 'TOOL_DISABLED' }]);
});

test('the server that has one of everything, and another behind its name: the drift is shown, nothing runs unasked', async () => {
  const catalog = world.countersign.catalog('moving');
  await connected(catalog, everything.url);
  await allowed(catalog, 'echo');
  await world.restartWorkers();
  const steps = [{ calls: [{ tool: 'moving/echo', arguments: { message: 'hi' } }] }, { text: 'done' }];
  const first = await world.start(steps, { servers: [{ name: 'moving' }] });
  await first.result();
  expect(factsOf(await first.ledger(), 'outcome')).toMatchObject([{ outcome: 'succeeded' }]);
  // At another address: the same server for the eye, another one for the catalog.
  const moved = await connected(catalog, `${everything.url}?at=other`);
  expect(entryOf(moved, 'echo')?.acknowledged).toBeUndefined();
  await world.restartWorkers();
  const second = await world.start(steps, { servers: [{ name: 'moving' }] });
  const [request] = await openRequests(second);
  expect(request).toMatchObject({ tool: 'echo', rules: ['catalog/moving/tools/echo/drift'] });
  await second.stop({ by: 'ann', reason: 'seen' });
  await second.result();
});
