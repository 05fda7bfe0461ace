/** The HTTP API: whoever asks by a verified token sees what concerns them, answers in their own name, and nothing else. */
import { describe, expect, test } from '@jest/globals';
import type { RunHandle } from '../../client/index.ts';
import type { ApprovalRequest } from '../../contracts/schemas/request.ts';
import { RequestPage, RequestList, RunDetail, RunPage, ShownRequest } from '../../contracts/schemas/http-api.ts';
import {
  type Caller,
  callerOf,
  type Claims,
  startTestGateway,
  startTestProvider,
} from '../support/scenes/gateway-world.ts';
import { until } from '../support/until.ts';
import { useBank } from '../support/world/bank-world.ts';
import { factsOf } from '../support/world/run-record.ts';
import { openRequests } from '../support/world/world.ts';
import { during } from '../support/world/during.ts';

const provider = during(() => startTestProvider());
const policy = { approvers: { ids: ['ben'], groups: ['finance'] } };
const { world, bank } = useBank({ policy });
const gateway = during(() =>
  startTestGateway(world, provider, {
    config: { may: { start: { groups: ['backend'] }, read: { groups: ['audit'] }, administer: { ids: ['root'] } } },
  }),
);

const END = { text: 'done' };
const pay = (purpose: string) => ({ tool: 'bank/pay', arguments: { purpose, amount: 1 } });

async function as(claims: Claims | string): Promise<Caller> {
  return callerOf(gateway, await provider.token(typeof claims === 'string' ? { sub: claims } : claims));
}

/** Starts a run, and waits until the gateway lists it. */
async function asking(purpose: string, count = 1): Promise<{ run: RunHandle; first: ApprovalRequest }> {
  const run = await world.start([{ calls: Array.from({ length: count }, () => pay(purpose)) }, END]);
  const [first] = await openRequests(run, count);
  if (first === undefined) throw new Error('no request');
  await until(() => gateway.projection.run(run.runId)?.row.pending === count, { what: 'the projection' });
  return { run, first };
}

const decisionsOf = ({ runId }: RunHandle, callId = 't1.c0') => `/v1/runs/${runId}/requests/${callId}/decisions`;

describe('a request', () => {
  test('is listed to whoever may decide it, read in full, and decided in the name that the token says', async () => {
    const { run, first } = await asking('listed');
    const ben = await as('ben');
    const page = RequestPage.parse((await ben('GET', '/v1/requests?mine=decide')).body);
    const row = page.requests.find((each) => each.run === run.runId);
    expect(row).toMatchObject({
      callId: 't1.c0',
      digest: first.digest,
      initiator: 'ann',
      offers: ['approve', 'reject'],
    });
    const shown = ShownRequest.parse((await ben('GET', `/v1/runs/${run.runId}/requests/t1.c0`)).body);
    expect(shown.request).toEqual(first);
    expect(RequestList.parse((await ben('GET', `/v1/runs/${run.runId}/requests`)).body).requests).toHaveLength(1);

    const said = { kind: 'approve', digest: first.digest, decisionId: `d-${run.runId}` };
    expect((await ben('POST', decisionsOf(run), { ...said, approver: { id: 'eve' } })).status).toBe(422);
    const ack = await ben('POST', decisionsOf(run), said);
    expect(ack).toMatchObject({ status: 200, body: { status: 'approved', decidedBy: 'ben' } });
    await run.result();
    expect(bank.callsFor('listed')).toHaveLength(1);
    expect(factsOf(await run.ledger(), 'decision.accepted')[0]?.approver).toEqual({ id: 'ben', groups: [] });
    // The same decision gets its first answer, also after the end (INV-D3).
    expect((await ben('POST', decisionsOf(run), said)).body).toEqual(ack.body);
  });

  test('refuses with the status of its code: stale 412, decided 409, unknown and not visible 404', async () => {
    const { run, first } = await asking('refused', 2);
    const ben = await as('ben');
    const said = { kind: 'approve', digest: first.digest };
    expect(await ben('POST', decisionsOf(run), { ...said, digest: 'f'.repeat(64) })).toMatchObject({
      status: 412,
      body: { code: 'DIGEST_MISMATCH', status: 412 },
    });
    expect(await ben('POST', decisionsOf(run), { kind: 'approve' })).toMatchObject({
      status: 422,
      body: { code: 'USAGE', errors: [{ path: 'digest' }] },
    });
    expect(await ben('POST', decisionsOf(run), said, { 'idempotency-key': 'once' })).toMatchObject({ status: 200 });
    expect(await ben('POST', decisionsOf(run), said, { 'idempotency-key': 'once' })).toMatchObject({ status: 200 });
    expect(await ben('POST', decisionsOf(run), said)).toMatchObject({
      status: 409,
      body: { code: 'ALREADY_DECIDED', facts: { decidedBy: 'ben' } },
    });
    const eve = await as('eve');
    const hidden = await eve('GET', `/v1/runs/${run.runId}`);
    const unknown = await eve('GET', '/v1/runs/no-such-run');
    expect([hidden.status, unknown.status]).toEqual([404, 404]);
    expect({ ...hidden.body, detail: '', facts: {}, requestId: '' }).toEqual({
      ...unknown.body,
      detail: '',
      facts: {},
      requestId: '',
    });
    expect(String(hidden.body['detail']).replace(run.runId, 'no-such-run')).toBe(unknown.body['detail']);
    expect((await eve('POST', decisionsOf(run), said)).status).toBe(404);
    await run.stop({ by: 'ann', reason: 'seen' });
    await run.result();
  });
});

describe('a run', () => {
  test('is started once in the name of who asks, read, followed and stopped', async () => {
    const backend = await as({ sub: 'svc', groups: ['backend'] });
    const { initiator: _, ...spec } = world.spec([{ calls: [pay('started')] }, END]);
    const body = { runId: 'gateway-1', spec };
    expect(await backend('POST', '/v1/runs', body)).toMatchObject({
      status: 201,
      body: { runId: 'gateway-1', started: true },
    });
    expect(await backend('POST', '/v1/runs', body)).toMatchObject({ status: 200, body: { started: false } });
    const run = world.countersign.run('gateway-1');
    await openRequests(run);
    const detail = RunDetail.parse((await backend('GET', '/v1/runs/gateway-1')).body);
    expect(detail).toMatchObject({ state: { status: 'waiting' }, may: ['say', 'stop'] });
    expect((await (await as('eve'))('POST', '/v1/runs', { spec })).status).toBe(403);

    await until(() => gateway.projection.run('gateway-1')?.row.pending === 1);
    const runs = RunPage.parse((await backend('GET', '/v1/runs?initiator=svc')).body);
    expect(runs.runs.map(({ runId }) => runId)).toEqual(['gateway-1']);
    const ben = await as('ben');
    expect((await ben('POST', '/v1/runs/gateway-1/stop', { reason: 'no' })).status).toBe(403);
    expect((await backend('POST', '/v1/runs/gateway-1/stop', { reason: 'enough' })).status).toBe(200);
    await run.result();
    const ledger = await backend<{ entries: unknown[] }>('GET', '/v1/runs/gateway-1/ledger?most=3');
    expect(ledger.body).toMatchObject({ entries: [{ seq: 0 }, { seq: 1 }, { seq: 2 }], next: 3 });
  });
});
