/** A sweep of the artifact directory under runs and catalogs that need it: nothing of theirs goes (INV-D3). */
import { readdir, utimes } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { documentOf, errorOf } from '../support/cli.ts';
import { type CliWorld, END, pay, startCliWorld } from '../support/cli-world.ts';
import { factsOf, transcript } from '../support/run-record.ts';
import { until } from '../support/until.ts';
import { decisionOn, requestFor } from '../support/world.ts';

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
