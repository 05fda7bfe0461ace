/** What became of a call, by the command line: what is shown, what counts, and every refusal with its exit code. */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { ApprovalRequest } from '../../contracts/schemas/request.ts';
import { documentOf, errorOf } from '../support/cli.ts';
import { type CliWorld, END, startCliWorld } from '../support/scenes/cli-world.ts';
import { lostCall } from '../support/scenes/lost-answers.ts';
import { until } from '../support/until.ts';
import { decisionOn } from '../support/world/world.ts';

let service: CliWorld;
beforeAll(async () => {
  service = await startCliWorld();
});
afterAll(async () => service.stop());

async function lost(id: string): Promise<ApprovalRequest> {
  const call = { tool: 'bank/slow', arguments: { purpose: id } };
  const spec = service.spec([{ calls: [call] }, END], { limits: { callTimeoutSeconds: 1 } });
  expect(await service.start(id, spec)).toMatchObject({ exitCode: 0 });
  const run = service.world.countersign.run(id);
  const request = await until(async () => (await run.requests())[0], { what: 'the request' });
  await run.decide(decisionOn(request, 'ann'));
  return await lostCall(run, 't1.c0', 2);
}

const resolve = async (id: string, ...more: readonly string[]) =>
  await service.cli(['resolve', id, 't1.c0', ...more, '--json']);

test('is shown with what is known and the verb that answers it, and is not approved with the others', async () => {
  const request = await lost('shown');
  const { out } = await service.cli(['requests', 'shown']);
  expect(out).toContain('it was sent, and may or may not have run');
  expect(out).toContain(`countersign resolve shown t1.c0 retry|succeeded|failed --as ann --digest ${request.digest}`);
  const inbox = await until(async () => {
    const listed = (await service.cli(['requests'])).out;
    return listed.includes('t1.c0 bank/slow (outcome)') ? listed : undefined;
  });
  expect(inbox).toContain('shown');
  const { out: state } = await service.cli(['show', 'shown']);
  expect(state).toContain('waiting');
  const all = await service.cli(['approve', 'shown', '--all', '--as', 'ann', '--yes', '--json']);
  expect(documentOf(all)).toMatchObject({ results: [], others: [] });
  const one = await service.approve('shown', 't1.c0');
  expect([one.exitCode, errorOf(one).code]).toEqual([3, 'DECISION_NOT_PERMITTED']);
  expect((await resolve('shown', 'failed', '--as', 'ben', '--message', 'No payment is there.')).exitCode).toBe(0);
  const ledger = await service.cli(['ledger', 'shown']);
  expect(ledger.out).toContain('outcome.resolved');
  expect(ledger.out).toContain('failed by ben');
});

test('a retry sends it once more; its receipt is had again by its id, also when the run is over', async () => {
  const { digest } = await lost('again');
  service.bank.release('again');
  const answer = async () => await resolve('again', 'retry', '--as', 'ann', '--decision-id', 'mine');
  const first = documentOf(await answer());
  expect(first).toMatchObject({ runId: 'again', callId: 't1.c0', answer: 'retry', decidedBy: 'ann', digest });
  await service.cli(['result', 'again']);
  expect(documentOf(await answer())).toMatchObject({ answer: 'retry', decidedBy: 'ann', decisionId: 'mine' });
  const second = await resolve('again', 'failed', '--as', 'ben', '--message', 'x');
  expect([second.exitCode, errorOf(second).code]).toEqual([5, 'ALREADY_DECIDED']);
  expect(service.bank.callsFor('again')).toHaveLength(2);
});

test('what is recorded is confirmed in words', async () => {
  await lost('words');
  const { out, exitCode } = await service.cli([
    'resolve',
    'words',
    't1.c0',
    'succeeded',
    '--as',
    'ann',
    '--result',
    'Payment 7 is booked.',
    '--comment',
    'seen',
  ]);
  expect(exitCode).toBe(0);
  expect(out).toMatch(/succeeded\s+t1\.c0\s+bank\/slow/);
  const verified = documentOf(await service.cli(['verify-ledger', 'words', '--json']));
  expect(verified).toMatchObject({ verdict: 'chained', faults: [] });
});

test('a refusal has its exit code', async () => {
  await lost('refused');
  const codeOf = async (...more: readonly string[]) => {
    const refused = await resolve('refused', ...more);
    return [refused.exitCode, errorOf(refused).code];
  };
  expect(await codeOf('retry', '--as', 'mallory')).toEqual([3, 'APPROVER_NOT_ENTITLED']);
  expect(await codeOf('retry', '--as', 'ann', '--digest', 'f'.repeat(64))).toEqual([5, 'DIGEST_MISMATCH']);
  expect(await codeOf('maybe', '--as', 'ann')).toEqual([2, 'USAGE']);
  expect(await codeOf('succeeded', '--as', 'ann')).toEqual([2, 'USAGE']);
  expect(await codeOf('retry', '--as', 'ann', '--message', 'x')).toEqual([2, 'USAGE']);
  const nowhere = await service.cli(['resolve', 'refused', 't9.c9', 'retry', '--as', 'ann', '--json']);
  expect([nowhere.exitCode, errorOf(nowhere).code]).toEqual([5, 'REQUEST_NOT_OPEN']);
  await resolve('refused', 'failed', '--as', 'ann', '--message', 'x');
});
