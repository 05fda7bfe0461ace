/** A run's decisions by the command line: what is shown, what counts, and every refusal with its exit code. */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { DecisionAck, LedgerEntry } from '../../client/index.ts';
import type { ApprovalRequest } from '../../contracts/schemas/request.ts';
import { documentOf, errorOf } from '../support/cli.ts';
import { type CliWorld, pay, startCliWorld } from '../support/scenes/cli-world.ts';
import { until } from '../support/until.ts';
import { openRequests } from '../support/world/world.ts';

const HOSTILE = '\u001b[2J\u202eevil';

let service: CliWorld;
beforeAll(async () => {
  service = await startCliWorld();
});
afterAll(async () => service.stop());

test('a run by commands: start, requests, approve, result, ledger, verify-ledger (S2.2, S2.3)', async () => {
  const [request] = await service.waiting('life');
  expect(service.bank.callsFor('life')).toEqual([]);

  const listed = documentOf<{ requests: ApprovalRequest[] }>(await service.cli(['requests', 'life', '--json']));
  expect(listed).toEqual({ runId: 'life', requests: [request] });
  const inbox = await until(async () => {
    const { runs } = documentOf<{ runs: { runId: string; pending: { requests: unknown[] } }[] }>(
      await service.cli(['requests', '--json']),
    );
    return runs.find(({ runId }) => runId === 'life');
  });
  expect(inbox.pending.requests).toEqual([
    expect.objectContaining({ callId: 't1.c0', tool: 'pay', digest: request?.digest }),
  ]);

  const approved = documentOf<DecisionAck>(
    await service.approve('life', 't1.c0', 'ann', '--digest', request?.digest ?? '', '--comment', 'checked'),
  );
  expect(approved).toMatchObject({
    runId: 'life',
    callId: 't1.c0',
    status: 'approved',
    decidedBy: 'ann',
    server: 'bank',
    tool: 'pay',
    digest: request?.digest,
  });
  const result = await service.cli(['result', 'life', '--json']);
  expect(result.exitCode).toBe(0);
  expect(documentOf(result)).toMatchObject({ runId: 'life', status: 'completed', output: 'All is paid.', calls: 1 });
  expect(service.bank.callsFor('life')).toHaveLength(1);

  const { entries } = documentOf<{ entries: LedgerEntry[] }>(await service.cli(['ledger', 'life', '--json']));
  expect(entries.map(({ fact }) => fact.kind)).toEqual(
    expect.arrayContaining(['verdict', 'request.opened', 'decision.accepted', 'dispatched', 'outcome', 'run.ended']),
  );
  expect(documentOf(await service.cli(['verify-ledger', 'life', '--json']))).toEqual({
    runId: 'life',
    verdict: 'chained',
    length: entries.length,
    head: entries.at(-1)?.hash,
    faults: [],
    branches: 1,
    signedTo: 0,
    heads: [],
    ended: true,
    historyFrom: 0,
    signatures: { checked: 0, unchecked: 0 },
  });
  expect(documentOf(await service.cli(['show', 'life', '--json']))).toMatchObject({
    workflowId: 'life',
    status: 'completed',
    pending: 0,
  });
});

describe('a decision that does not count changes nothing (INV-G2, S2.3)', () => {
  test('a second one, while the run goes on: exit code 5, and who decided first (D-8)', async () => {
    await service.waiting('second', [pay('second'), pay('second')]);
    expect((await service.approve('second', 't1.c0', 'ann')).exitCode).toBe(0);
    for (const again of [
      await service.approve('second', 't1.c0', 'ben'),
      await service.cli(['reject', 'second', 't1.c0', '--as', 'ben', '--reason', 'no', '--json']),
    ]) {
      expect(again.exitCode).toBe(5);
      expect(errorOf(again)).toMatchObject({
        code: 'ALREADY_DECIDED',
        message: expect.stringContaining('approved by ann'),
        facts: { callId: 't1.c0', decidedBy: 'ann', decidedAt: expect.any(String) },
      });
    }
    await service.approve('second', 't1.c1');
    await service.cli(['result', 'second']);
    expect(service.bank.callsFor('second')).toHaveLength(2);
  });

  test('a second one, when the run is over: the same answer, from the ledger (D-8)', async () => {
    await service.waiting('over');
    await service.approve('over', 't1.c0', 'ann');
    await service.cli(['result', 'over']);
    const again = await service.approve('over', 't1.c0', 'ben');
    expect(again.exitCode).toBe(5);
    expect(errorOf(again)).toMatchObject({ code: 'ALREADY_DECIDED', facts: { decidedBy: 'ann' } });
  });

  test('one that is sent again under its id gets its first answer, also when the run is over (INV-D3)', async () => {
    await service.waiting('resent', [pay('resent'), pay('resent')]);
    const send = () => service.approve('resent', 't1.c0', 'ann', '--decision-id', 'd-1');
    const first = documentOf<DecisionAck>(await send());
    expect(first.decisionId).toBe('d-1');
    expect(documentOf(await send())).toEqual(first);
    // Another one under it gets none, whether the run answers or its ledger.
    const reject = ['reject', 'resent', 't1.c0', '--as', 'ann', '--reason', 'no', '--decision-id', 'd-1', '--json'];
    const expectRefused = async () => {
      const refused = await service.cli(reject);
      expect([refused.exitCode, errorOf(refused)]).toMatchObject([
        2,
        { code: 'DECISION_INVALID', facts: { path: 'decisionId' } },
      ]);
    };
    await expectRefused();
    await service.approve('resent', 't1.c1');
    await service.cli(['result', 'resent']);
    expect(documentOf(await send())).toMatchObject({
      callId: 't1.c0',
      decisionId: 'd-1',
      decidedBy: 'ann',
      decidedAt: first.decidedAt,
    });
    await expectRefused();
    expect(service.bank.callsFor('resent')).toHaveLength(2);
  });

  test('one for another digest than the shown: exit code 5, and nothing is sent', async () => {
    const [request] = await service.waiting('stale');
    const stale = await service.approve('stale', 't1.c0', 'ann', '--digest', 'f'.repeat(64));
    expect(stale.exitCode).toBe(5);
    expect(errorOf(stale)).toMatchObject({
      code: 'DIGEST_MISMATCH',
      message: expect.stringContaining(request?.digest ?? '?'),
    });
    expect((await openRequests(service.world.countersign.run('stale')))[0]?.digest).toBe(request?.digest);
    await service.cli(['stop', 'stale', '--as', 'ann', '--reason', 'enough']);
  });

  test('one of a stranger: exit code 3; of an unknown call or run: 4', async () => {
    await service.waiting('stranger');
    const refused = await service.approve('stranger', 't1.c0', 'mallory', '--group', 'sales');
    expect(refused.exitCode).toBe(3);
    expect(errorOf(refused)).toMatchObject({ code: 'APPROVER_NOT_ENTITLED' });
    const unknownCall = await service.approve('stranger', 't7.c0');
    expect([unknownCall.exitCode, errorOf(unknownCall).code]).toEqual([4, 'CALL_UNKNOWN']);
    const unknownRun = await service.approve('nobody', 't1.c0');
    expect([unknownRun.exitCode, errorOf(unknownRun).code]).toEqual([4, 'RUN_NOT_FOUND']);
    expect((await service.approve('stranger', 't1.c0', 'cleo', '--group', 'sales', '--group', 'ops')).exitCode).toBe(0);
    await service.cli(['result', 'stranger']);
    expect(service.bank.callsFor('stranger')).toHaveLength(1);
  });
});

test('a rejected call does not run, and the reason stands in the ledger', async () => {
  await service.waiting('rejected');
  const rejected = await service.cli(['reject', 'rejected', 't1.c0', '--as', 'ben', '--reason', 'too much', '--json']);
  expect(documentOf(rejected)).toMatchObject({ status: 'rejected', decidedBy: 'ben' });
  await service.cli(['result', 'rejected']);
  expect(service.bank.callsFor('rejected')).toEqual([]);
  expect((await service.cli(['ledger', 'rejected'])).out).toMatch(
    /decision\.accepted {2}t1\.c0 {3}reject by ben, digest [0-9a-f]{12}…: too much/,
  );
});

test('what people read of a hostile call is inert, and its arguments are whole (INV-G2)', async () => {
  const [request] = await service.waiting('hostile', [pay('hostile', HOSTILE)]);
  for (const args of [
    ['requests', 'hostile'],
    ['requests', 'hostile', '--json'],
  ]) {
    const { out } = await service.cli(args);
    expect(out).not.toMatch(/[^\P{C}\n]/u);
    expect(out).toContain('evil');
  }
  expect(
    documentOf<{ requests: ApprovalRequest[] }>(await service.cli(['requests', 'hostile', '--json'])).requests[0]
      ?.arguments,
  ).toEqual({ purpose: 'hostile', note: HOSTILE });
  const text = (await service.cli(['requests', 'hostile'])).out;
  expect(text).toContain(`countersign approve hostile t1.c0 --as ann --digest ${request?.digest}`);
  await service.cli(['stop', 'hostile', '--as', 'ann', '--reason', 'enough']);
});
