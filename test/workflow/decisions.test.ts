/** A decision settles exactly the request whose digest it echoes, once; everything else changes nothing (INV-G2). */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { RunHandle } from '../../client/index.ts';
import { codedFailureIn } from '../../contracts/failure.ts';
import type { ApprovalRequest } from '../../contracts/schemas/request.ts';
import { requestDigest } from '../../domain/request/digest.ts';
import { type RecordingServer, startRecordingServer } from '../support/recording-server.ts';
import { factsOf, ledgerShows, outcomes, refusalOf, traceOf } from '../support/run-record.ts';
import { until } from '../support/until.ts';
import { decisionOn, openRequests, startWorld, type World } from '../support/world.ts';

let bank: RecordingServer;
let world: World;

beforeAll(async () => {
  bank = await startRecordingServer();
  const approvers = { ids: ['ann', 'bob'], groups: ['auditors'] };
  const policy = { approvers, servers: { bank: { tools: { lookup: 'allow' } } } } as const;
  world = await startWorld({ config: { policy, servers: { bank: { url: bank.url, credentials: { kind: 'none' } } } } });
});
afterAll(async () => {
  await world.stop();
  await bank.close();
});

const pay = (purpose: string, amount = 1) => ({ tool: 'bank/pay', arguments: { purpose, amount } });
const END = { text: 'done' };

async function asking(
  purpose: string,
  count = 1,
): Promise<{ run: RunHandle; requests: readonly ApprovalRequest[]; first: ApprovalRequest }> {
  const run = await world.start([{ calls: Array.from({ length: count }, (_, index) => pay(purpose, index + 1)) }, END]);
  const requests = await openRequests(run, count);
  const [first] = requests;
  if (first === undefined) throw new Error('no request');
  return { run, requests, first };
}

/** Straight to Temporal, as any namespace writer may. */
async function sendRaw(run: RunHandle, input: unknown): Promise<string> {
  try {
    await world.client.workflow.getHandle(run.runId).executeUpdate('decide', { args: [input] });
    return 'accepted';
  } catch (error) {
    return codedFailureIn(error)?.code ?? String(error);
  }
}

describe('a refused decision has a code of its own and leaves no event in history (S2.3, S3.9, F18, F20)', () => {
  test('while the request waits', async () => {
    const { run, first } = await asking('refused');
    const { first: foreign } = await asking('foreign');
    const before = await traceOf(world, run.runId);
    const fresh = () => decisionOn(first, 'ann');
    const elsewhere = { ...fresh(), runId: 'another-temporal-run' };
    const target = {
      server: first.server,
      serverUrl: first.serverUrl,
      tool: first.tool,
      definitionHash: first.definitionHash,
    };
    const forged = requestDigest({ ...first, target, runId: elsewhere.runId });

    expect(await sendRaw(run, { ...fresh(), digest: 'f'.repeat(64) })).toBe('DIGEST_MISMATCH');
    // Of the same call of another run (B-1, D-5).
    expect(await sendRaw(run, { ...fresh(), digest: foreign.digest, runId: foreign.runId })).toBe('DIGEST_MISMATCH');
    // The digest is right for the run it names, and that run is none of this chain.
    expect(await sendRaw(run, { ...elsewhere, digest: forged })).toBe('DECISION_STALE_RUN');
    expect(await sendRaw(run, { ...fresh(), callId: 't1.c9' })).toBe('CALL_UNKNOWN');
    // A gate that is not there yet cannot be opened in advance.
    expect(await sendRaw(run, { ...fresh(), callId: 't2.c0' })).toBe('CALL_UNKNOWN');
    expect(await sendRaw(run, { ...fresh(), approver: { id: 'mallory', groups: [] } })).toBe('APPROVER_NOT_ENTITLED');
    expect(await sendRaw(run, { ...fresh(), approver: { id: 'mallory', groups: ['auditor'] } })).toBe(
      'APPROVER_NOT_ENTITLED',
    );
    expect(await traceOf(world, run.runId)).toEqual(before);
    expect(factsOf(await run.ledger(), 'decision.refused')).toEqual([]);
    expect(bank.callsFor('refused')).toEqual([]);
    expect(await sendRaw(run, { ...fresh(), approver: { id: 'eve', groups: ['auditors'] } })).toBe('accepted');
  });

  test('where its shape is wrong, with the path and nothing started', async () => {
    const { run, first } = await asking('shape');
    const before = await traceOf(world, run.runId);
    const good = decisionOn(first, 'ann');
    const bad: readonly unknown[] = [
      null,
      'approve',
      [good],
      { ...good, kind: 'maybe' },
      { ...good, digest: undefined },
      { ...good, approver: 'ann' },
      { ...good, approver: { id: 'ann', groups: [], admin: true } },
      { ...good, callId: 't1' },
      { ...good, tool: 'bank/close' },
      { ...good, kind: 'reject' },
      { ...good, kind: 'reject', reason: '' },
      { ...good, comment: 'x'.repeat(5_000) },
      { approved: true },
    ];
    for (const input of bad) expect([input, await sendRaw(run, input)]).toEqual([input, 'DECISION_INVALID']);
    // The shape of an edit, which no list permits here.
    expect(await sendRaw(run, { ...good, arguments: { amount: 1_000_000 } })).toBe('DECISION_NOT_PERMITTED');
    expect(await traceOf(world, run.runId)).toEqual(before);
    // The client library says it without asking Temporal.
    expect(await refusalOf(run.decide({ ...good, digest: 'short' }))).toMatchObject({
      code: 'DECISION_INVALID',
      facts: { path: 'digest' },
    });
  });

  test('after somebody else decided, with who it was', async () => {
    const { run, requests, first } = await asking('second', 2);
    await run.decide(decisionOn(first, 'ann'));
    await ledgerShows(run, 'outcome', first.callId);
    const before = await traceOf(world, run.runId);
    const second = await refusalOf(run.decide(decisionOn(first, 'bob', 'reject')));
    expect(second).toMatchObject({ code: 'ALREADY_DECIDED', facts: { decidedBy: 'ann', callId: first.callId } });
    expect(await traceOf(world, run.runId)).toEqual(before);
    expect(await openRequests(run)).toMatchObject([{ callId: requests[1]?.callId }]);
    expect(bank.callsFor('second')).toHaveLength(1);
  });

  test('where the call was never asked, in this turn and after it', async () => {
    const run = await world.start([
      { calls: [{ tool: 'bank/lookup', arguments: { purpose: 'free' } }, pay('free')] },
      { calls: [pay('free')] },
      END,
    ]);
    const [request] = await openRequests(run);
    if (request === undefined) throw new Error('no request');
    await ledgerShows(run, 'outcome', 't1.c0');
    expect(await sendRaw(run, { ...decisionOn(request, 'ann'), callId: 't1.c0' })).toBe('REQUEST_NOT_OPEN');
    await run.decide(decisionOn(request, 'ann'));
    await ledgerShows(run, 'request.opened', 't2.c0');
    expect(await sendRaw(run, { ...decisionOn(request, 'ann'), callId: 't1.c0' })).toBe('REQUEST_NOT_OPEN');
    expect(await sendRaw(run, decisionOn(request, 'bob'))).toBe('ALREADY_DECIDED');
  });

  test('once the run is over, or was never there', async () => {
    const { run, first } = await asking('over');
    await run.decide(decisionOn(first, 'ann'));
    await run.result();
    expect(await refusalOf(run.decide(decisionOn(first, 'bob')))).toMatchObject({ code: 'RUN_CLOSED' });
    expect(await refusalOf(world.countersign.run('no-such-run').decide(decisionOn(first, 'ann')))).toMatchObject({
      code: 'RUN_NOT_FOUND',
    });
  });
});

describe('the signal twin, for senders that cannot send updates', () => {
  test('decides like the update, and what it cannot decide is a ledger entry', async () => {
    const { run, first, requests } = await asking('signal', 2);
    const handle = world.client.workflow.getHandle(run.runId);
    await handle.signal('decide', { ...decisionOn(first, 'mallory'), decisionId: 'sent-by-mallory' });
    await handle.signal('decide', 'nonsense');
    await handle.signal('decide', decisionOn(first, 'ann'));
    await ledgerShows(run, 'outcome', first.callId);
    await handle.signal('decide', { ...decisionOn(first, 'bob', 'reject'), decisionId: 'too-late' });
    await until(async () => (factsOf(await run.ledger(), 'decision.refused').length === 3 ? true : undefined), {
      what: 'three refusals',
    });
    expect(factsOf(await run.ledger(), 'decision.refused')).toMatchObject([
      { callId: 't1.c0', decisionId: 'sent-by-mallory', approver: 'mallory', code: 'APPROVER_NOT_ENTITLED' },
      { callId: 'unknown', code: 'DECISION_INVALID' },
      { callId: 't1.c0', decisionId: 'too-late', approver: 'bob', code: 'ALREADY_DECIDED' },
    ]);
    expect(bank.callsFor('signal')).toHaveLength(1);
    expect(await openRequests(run)).toMatchObject([{ callId: requests[1]?.callId }]);
  });

  test('sent while no worker runs, two that contradict each other are taken in the order of their arrival', async () => {
    const { run, first } = await asking('signals');
    await world.workers.stop();
    const handle = world.client.workflow.getHandle(run.runId);
    await handle.signal('decide', { ...decisionOn(first, 'bob', 'reject'), decisionId: 'first' });
    await handle.signal('decide', { ...decisionOn(first, 'ann'), decisionId: 'second' });
    await world.restartWorkers();
    await run.result();
    expect(await outcomes(run)).toEqual({ 't1.c0': 'rejected' });
    expect(factsOf(await run.ledger(), 'decision.refused')).toMatchObject([
      { decisionId: 'second', code: 'ALREADY_DECIDED' },
    ]);
    expect(bank.callsFor('signals')).toEqual([]);
  });
});

test('a decision made while no worker runs is uncertain, and counts once when it is sent again (A-4, INV-D3)', async () => {
  const { run, first } = await asking('uncertain');
  const decision = decisionOn(first, 'ann');
  await world.workers.stop();
  const hurried = world.hurried(500).run(run.runId);
  expect(await refusalOf(hurried.decide(decision))).toMatchObject({ code: 'RESULT_UNCERTAIN' });
  await world.restartWorkers();
  expect(await run.decide(decision)).toMatchObject({ status: 'approved', decidedBy: 'ann' });
  await run.result();
  expect(bank.callsFor('uncertain')).toHaveLength(1);
});
