/** Several calls decided by one command: shown first, one answer for each, and an exit code (F27, INV-G3). */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { documentOf, errorOf } from '../support/cli.ts';
import { type CliWorld, pay, startCliWorld } from '../support/cli-world.ts';
import { decisionOn, openRequests } from '../support/world.ts';

let service: CliWorld;
beforeAll(async () => {
  service = await startCliWorld();
});
afterAll(async () => service.stop());

const notes = (purpose: string) => ['one', 'two', 'three'].map((note) => pay(purpose, note));

test('--all shows what it would do, and does it with --yes', async () => {
  await service.waiting('all', notes('all'));
  const shown = await service.cli(['approve', 'all', '--all', '--as', 'ann', '--json']);
  expect(shown.exitCode).toBe(2);
  expect(JSON.parse(shown.out)).toMatchObject({ would: 'approve', requests: [{}, {}, {}], others: [] });
  // Both are told: what it would do, and that it did nothing.
  expect(shown.err).toContain('add --yes');
  expect(await openRequests(service.world.countersign.run('all'), 3)).toHaveLength(3);
  expect(service.bank.callsFor('all')).toEqual([]);
  const done = await service.cli(['approve', 'all', '--all', '--as', 'ann', '--yes', '--json']);
  expect(documentOf<{ results: { status: string }[] }>(done).results.map(({ status }) => status)).toEqual([
    'approved',
    'approved',
    'approved',
  ]);
  await service.world.countersign.run('all').result();
  expect(service.bank.callsFor('all')).toHaveLength(3);
});

test('of two that are named, one that somebody else decides meanwhile does not stop the other', async () => {
  const [first] = await service.waiting('some', notes('some'));
  if (first === undefined) throw new Error('three wait');
  const run = service.world.countersign.run('some');
  const [one, two, three] = await openRequests(run, 3);
  if (one === undefined || two === undefined || three === undefined) throw new Error('three wait');
  // As two commands at the same time would: what was shown is decided by the time it is sent.
  const stale = decisionOn(one, 'ben');
  await run.decide(decisionOn(one, 'ann', 'reject'));
  const answers = await run.decideAll([stale, decisionOn(two, 'ben')]);
  expect(answers).toMatchObject([
    { callId: 't1.c0', kind: 'refused', error: { code: 'ALREADY_DECIDED', facts: { decidedBy: 'ann' } } },
    { callId: 't1.c1', kind: 'accepted', ack: { status: 'approved' } },
  ]);
  const named = await service.cli([
    'reject',
    'some',
    't1.c1',
    't1.c2',
    '--as',
    'ann',
    '--reason',
    'late',
    '--yes',
    '--json',
  ]);
  expect(named.exitCode).toBe(5);
  expect(errorOf(named)).toMatchObject({ code: 'REQUEST_NOT_OPEN' });
  const rest = await service.cli(['reject', 'some', '--all', '--as', 'ann', '--reason', 'late', '--yes']);
  expect(rest).toMatchObject({ exitCode: 0, out: expect.stringMatching(/t1\.c2 +rejected/) });
  await run.result();
  expect(service.bank.callsFor('some')).toHaveLength(1);
});
