/** A sweep of the artifact directory under runs and catalogs that need it: nothing of theirs goes (INV-D3). */
import { readdir, readFile, rm, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { msToTs } from '@temporalio/common/lib/time.js';
import { StoreNamespace } from '../../contracts/schemas/stores.ts';
import type { ArtifactRef } from '../../contracts/schemas/json.ts';
import { documentOf, errorOf, runCommand } from '../support/cli.ts';
import { type CliWorld, END, pay, startCliWorld } from '../support/scenes/cli-world.ts';
import { factsOf, transcript } from '../support/world/run-record.ts';
import { until } from '../support/until.ts';
import { decisionOn, requestFor } from '../support/world/world.ts';

let service: CliWorld;
beforeAll(async () => {
  service = await startCliWorld();
});
afterAll(async () => service.stop());

interface Report {
  readonly artifacts: number;
  readonly young: number;
  readonly needed: number;
  readonly removed: readonly { readonly sha256: string }[];
}

/** All that is stored becomes a hundred days old. */
async function age(): Promise<void> {
  const { engine, config } = service.world;
  const root = join(engine.directory, config.artifacts.directory);
  const old = new Date(Date.now() - 100 * 86_400_000);
  for (const entry of await readdir(root, { recursive: true, withFileTypes: true }))
    if (entry.isFile()) await utimes(join(entry.parentPath, entry.name), old, old);
}

test('an open run that has continued as new keeps its tools, results and segments; what nobody names goes', async () => {
  const { world, cli } = service;
  const large = { tool: 'bank/big', arguments: { characters: 20_000 } };
  const run = await world.start([{ calls: [large] }, { calls: [pay('sweep')] }, END], {
    servers: [{ name: 'bank' }],
    limits: { resultBytes: 1_000, turnsPerExecution: 1 },
    policy: { servers: { bank: { tools: { big: 'allow' } } } },
  });
  const first = await requestFor(run, 't1.c0').catch(() => undefined);
  if (first !== undefined) await run.decide(decisionOn(first, 'ann'));
  const request = await requestFor(run, 't2.c0');
  await until(async () => (factsOf(await run.ledger(), 'run.rolled').length > 0 ? true : undefined));
  const garbage = await world.artifacts.put(new TextEncoder().encode('a result that nobody remembers'), 'text/plain');
  await age();

  const answered = await cli(['artifacts', 'sweep', '--older-than', '90d', '--dry-run', '--json']);
  expect(answered).toMatchObject({ exitCode: 0, err: '' });
  const would = documentOf<Report>(answered);
  expect(would.removed).toEqual([{ sha256: garbage.sha256, bytes: garbage.bytes }]);
  expect(would.needed).toBeGreaterThanOrEqual(3);
  await world.artifacts.get(garbage);

  const swept = await cli(['artifacts', 'sweep', '--older-than', '90d']);
  expect(swept).toMatchObject({ exitCode: 0, out: expect.stringContaining('Removed 1, ') });
  await expect(world.artifacts.get(garbage)).rejects.toMatchObject({ code: 'ARTIFACT_MISSING' });

  // By workers that remember nothing.
  await world.restartWorkers();
  await run.decide(decisionOn(request, 'ann'));
  expect(await run.result()).toMatchObject({ status: 'completed', output: END.text });
  const told = (await transcript(world, run)).flatMap((message) => (message.role === 'tool' ? message.results : []));
  const [outcome] = told.map((result) => result.outcome);
  if (outcome?.kind !== 'succeeded' || outcome.result.full === undefined) throw new Error('no large result');
  expect((await world.artifacts.get(outcome.result.full)).length).toBeGreaterThan(20_000);
  expect(await cli(['verify-ledger', run.runId])).toMatchObject({ exitCode: 0 });
});

test('how old must be said, and be an hour at least', async () => {
  const { cli } = service;
  expect(errorOf(await cli(['artifacts', 'sweep', '--json']))).toMatchObject({ code: 'USAGE' });
  for (const wrong of ['10', '59m', '0d', 'ever'])
    expect(errorOf(await cli(['artifacts', 'sweep', '--older-than', wrong, '--json']))).toMatchObject({
      code: 'USAGE',
    });
});

test('where another namespace cannot be read nothing is removed (INV-D3)', async () => {
  const { world, cli } = service;
  const garbage = await world.artifacts.put(new TextEncoder().encode('garbage'), 'text/plain');
  await age();
  const refused = await cli(['artifacts', 'sweep', '--older-than', '90d', '--also', 'nowhere', '--json']);
  expect(refused.exitCode).not.toBe(0);
  expect(Buffer.from(await world.artifacts.get(garbage)).toString()).toBe('garbage');
});

describe('whose histories are read does not hang on what the command is told', () => {
  let garbage: ArtifactRef;
  const records = (): string =>
    join(service.world.engine.directory, service.world.config.artifacts.directory, '.countersign-namespaces');
  beforeEach(async () => {
    garbage = await service.world.artifacts.put(new TextEncoder().encode('garbage'), 'text/plain');
    await age();
  });

  test('a worker has recorded its namespace as Temporal knows it', async () => {
    const { engine } = service.world;
    const { workflowService } = (await engine.connect()).connection;
    const { namespaceInfo } = await workflowService.describeNamespace({ namespace: engine.server.namespace });
    expect(await readdir(records())).toEqual([`${namespaceInfo?.id}.json`]);
  });

  test('from another namespace those of the store are read too, and what waits there keeps what it needs', async () => {
    const { world } = service;
    const run = await world.start([{ calls: [pay('elsewhere')] }, END], { servers: [{ name: 'bank' }] });
    const request = await requestFor(run, 't1.c0');
    await age();
    const { workflowService } = (await world.engine.connect()).connection;
    const other = 'elsewhere';
    await workflowService.registerNamespace({
      namespace: other,
      workflowExecutionRetentionPeriod: msToTs('1 day'),
    });
    const swept = await until(async () => {
      const { address } = world.engine.server;
      // A new namespace is known to all of Temporal a moment later.
      const answer = await runCommand(
        ['artifacts', 'sweep', '--older-than', '90d', '--json', '--address', address, '--namespace', other],
        { directory: world.engine.directory },
      );
      return answer.exitCode === 0 ? answer : undefined;
    });
    expect(documentOf<{ namespaces: unknown; removed: unknown }>(swept)).toMatchObject({
      namespaces: [other, world.engine.server.namespace],
      removed: [{ sha256: garbage.sha256 }],
    });
    await world.restartWorkers();
    await run.decide(decisionOn(request, 'ann'));
    expect(await run.result()).toMatchObject({ status: 'completed' });
  });

  test('INV-D3: at another Temporal service nothing is removed', async () => {
    const { cli, world } = service;
    const [own = ''] = await readdir(records());
    // What that service would find: a store of a namespace of the same name that is not its own.
    const theirs = join(records(), 'of-another-service.json');
    const { name } = StoreNamespace.parse(JSON.parse(await readFile(join(records(), own), 'utf8')));
    for (const named of [name, 'not-there']) {
      await writeFile(theirs, JSON.stringify({ name: named, id: 'of-another-service' }));
      const refused = await cli(['artifacts', 'sweep', '--older-than', '90d', '--json']);
      expect(errorOf(refused)).toMatchObject({ code: 'SWEEP_REFUSED', message: expect.stringContaining(theirs) });
    }
    await rm(theirs);
    expect(Buffer.from(await world.artifacts.get(garbage)).toString()).toBe('garbage');
  });
});
