/**
 * The time of requests and approvals on a real server: postponed, expired, lapsed, reminded, escalated (E-3, F-2–F-7,
 * F20, INV-D3, INV-G1, INV-G2).
 */
import { describe, expect, test } from '@jest/globals';
import type { ApprovalRequest, DecisionInput } from '../../contracts/schemas/request.ts';
import type { RunSpecInput } from '../../contracts/schemas/run-spec.ts';
import { codeOf, factsOf, ledgerShows } from '../support/world/run-record.ts';
import { startRecordingServer } from '../support/servers/recording-server.ts';
import { until } from '../support/until.ts';
import { decisionOn, openRequests, requestAfter, useEngine, useWorld } from '../support/world/world.ts';
import { useBank } from '../support/world/bank-world.ts';
import { during } from '../support/world/during.ts';

const engine = useEngine();

describe('deadlines (F-2, F-4, F-5, F-6, INV-G1, INV-G2)', () => {
  const bank = during(() => startRecordingServer());
  const shop = during(() => startRecordingServer());
  const pay = { action: 'ask' as const, deadlineSeconds: 10, extendableToSeconds: 600 };
  const credentials = { kind: 'none' as const };
  const world = useWorld(() => ({
    engine,

    config: {
      taskQueue: 'times',
      policy: {
        approvers: { ids: ['ann', 'ben'] },
        servers: { bank: { tools: { pay } }, shop: { tools: { pay: { action: 'ask', validForSeconds: 1 } } } },
      },
      servers: { bank: { url: bank.url, credentials }, shop: { url: shop.url, credentials } },
    },
  }));

  async function asked(purpose: string, server = 'bank') {
    const run = await world.start([{ calls: [{ tool: `${server}/pay`, arguments: { purpose } }] }, { text: 'done' }], {
      servers: [{ name: server }],
    });
    const [request] = await openRequests(run);
    return { run, request };
  }

  function extensionOf(request: ApprovalRequest, seconds: number, id = 'ann'): DecisionInput {
    const { callId, digest, runId } = request;
    const time = new Date(Date.parse(request.openedAt) + seconds * 1_000).toISOString();
    return {
      kind: 'extend',
      decisionId: `extend-${id}-${seconds}`,
      callId,
      digest,
      runId,
      approver: { id },
      until: time,
    };
  }

  const passed = async (instant: string): Promise<void> => {
    await until(() => Date.now() > Date.parse(instant), { what: `the time ${instant}` });
  };

  test('a postponed request waits past its first deadline, is shown so, and can be approved', async () => {
    const { run, request } = await asked('postponed');
    const later = extensionOf(request, 300);
    expect(await run.decide(later)).toMatchObject({ status: 'extended', decidedBy: 'ann' });
    // Sent again, it counts once.
    expect(await run.decide(later)).toMatchObject({ status: 'extended' });
    await passed(request.deadline);
    // The worker knows nothing but the history; the run goes on in another execution.
    await world.restartWorkers();
    await world.client.workflow.getHandle(run.runId).signal('nudge');
    const after = await requestAfter(run, request);
    const deadline = new Date(Date.parse(request.openedAt) + 300_000).toISOString();
    expect(after).toMatchObject({
      deadline,
      generation: 1,
      extensions: [{ approver: { id: 'ann' }, until: deadline }],
    });
    await until(
      async () => {
        const { searchAttributes } = await world.client.workflow.getHandle(run.runId).describe();
        const [shown] = searchAttributes['CountersignNextDeadline'] ?? [];
        return shown instanceof Date && shown.toISOString() === deadline;
      },
      { what: 'the new deadline in visibility' },
    );
    // Shown before it was postponed: still the same request.
    expect(await run.decide(decisionOn(request, 'ben'))).toMatchObject({ status: 'approved' });
    await run.result();
    expect(bank.callsFor('postponed')).toHaveLength(1);
    expect(factsOf(await run.ledger(), 'decision.accepted').map(({ decision }) => decision)).toEqual([
      'extend',
      'approve',
    ]);
  });

  test('at the new deadline it expires, and says that deadline (F-5)', async () => {
    const { run, request } = await asked('expires');
    await run.decide(extensionOf(request, 11));
    await run.result();
    const [outcome] = factsOf(await run.ledger(), 'outcome');
    expect(outcome).toMatchObject({ outcome: 'expired' });
    expect(await codeOf(run.decide(decisionOn(request, 'ben')))).toBe('RUN_CLOSED');
    expect(bank.callsFor('expires')).toEqual([]);
  });

  test('who may not decide postpones nothing, nobody does so further than policy permits, and a signal is no way around', async () => {
    const { run, request } = await asked('forbidden');
    expect(await codeOf(run.decide(extensionOf(request, 300, 'mallory')))).toBe('APPROVER_NOT_ENTITLED');
    expect(await codeOf(run.decide(extensionOf(request, 601)))).toBe('EXTENSION_FORBIDDEN');
    expect(await codeOf(run.decide({ ...extensionOf(request, 300), digest: 'f'.repeat(64) }))).toBe('DIGEST_MISMATCH');
    const handle = world.client.workflow.getHandle(run.runId);
    await handle.signal('decide', extensionOf(request, 601, 'ben'));
    expect(await ledgerShows(run, 'decision.refused')).toMatchObject({ code: 'EXTENSION_FORBIDDEN', approver: 'ben' });
    expect(await openRequests(run)).toMatchObject([{ deadline: request.deadline }]);
    await run.stop({ by: 'ann', reason: 'seen enough' });
    await run.result();
  });

  test('an approval that was not used in time is asked again, and nothing is sent (F-6)', async () => {
    const { run, request } = await asked('lapsed', 'shop');
    await shop.close();
    await run.decide(decisionOn(request, 'ann'));
    const again = await until(async () => (await run.requests()).find(({ generation }) => generation === 2), {
      what: 'the request that was asked again',
    });
    expect(again).toMatchObject({ status: 'open', reopenedBecause: expect.stringContaining('APPROVAL_LAPSED') });
    expect(again.digest).not.toBe(request.digest);
    expect(await codeOf(run.decide(decisionOn(request, 'ben')))).toBe('DIGEST_MISMATCH');
    await run.stop({ by: 'ann', reason: 'the shop is closed' });
    await run.result();
    // The run itself knew, before it asked a worker again.
    expect(factsOf(await run.ledger(), 'dispatched')).toHaveLength(1);
    expect(shop.callsFor('lapsed')).toEqual([]);
  });
});

describe('reminders, escalations and confirmation by the acting user (E-3, F-3, F-4, F-7, F20, INV-G2, INV-D3)', () => {
  const leads = { ids: ['ann', 'ben'], need: 2, escalate: { afterSeconds: 10, add: { groups: ['directors'] } } };
  const others = { ids: ['ann'], escalate: { afterSeconds: 1, replace: { ids: ['zoe'] } } };
  const { bank, world } = useBank(
    {
      taskQueue: 'escalation',
      policy: {
        servers: {
          bank: {
            tools: {
              pay: { action: 'ask', approvers: leads, remindAfterSeconds: 2 },
              lookup: { action: 'ask', approvers: others },
              bare: { action: 'ask', approvers: { onlyInitiator: true } },
            },
          },
        },
      },
    },
    { engine },
  );

  async function asked(tool: string, purpose: string, over: Partial<RunSpecInput> = {}) {
    const steps = [{ calls: [{ tool: `bank/${tool}`, arguments: { purpose } }] }, { text: 'done' }];
    const run = await world.start(steps, over);
    const [request] = await openRequests(run);
    return { run, request };
  }

  const director = { id: 'dora', groups: ['directors'] };

  test('who is reminded, and who is asked then, is told once: across continue-as-new and a new worker', async () => {
    const { run, request } = await asked('pay', 'nobody');
    const handle = world.client.workflow.getHandle(run.runId);
    // Before its time it is not her turn, whatever she is called later.
    expect(await codeOf(run.decide({ ...decisionOn(request, 'dora'), approver: director }))).toBe(
      'APPROVER_NOT_ENTITLED',
    );
    expect(await run.decide(decisionOn(request, 'ann'))).toMatchObject({ status: 'counted' });
    await ledgerShows(run, 'request.reminded');
    expect(await run.state()).toMatchObject({ reminded: 1, pending: 1 });
    const inInbox = await until(
      async () =>
        (await world.countersign.waiting({})).find(
          ({ runId, pending }) => runId === run.runId && pending.requests[0]?.reminded,
        ),
      { what: 'the reminder in the inbox' },
    );
    expect(inInbox.pending.requests).toHaveLength(1);
    await handle.signal('nudge');
    const after = await requestAfter(run, request);
    expect(after.remindedAt).toBe(new Date(Date.parse(request.openedAt) + 2_000).toISOString());
    await ledgerShows(run, 'request.escalated');
    await world.restartWorkers();
    await until(
      async () =>
        (await world.countersign.waiting({ approver: { groups: ['directors'] } })).find(
          ({ runId }) => runId === run.runId,
        ),
      { what: 'the group that is asked by now, in visibility' },
    );
    const [metadata] = [await handle.query<{ currentDetails: string }>('__temporal_workflow_metadata')];
    expect(metadata.currentDetails).toContain('others are asked since');
    // Shown before it escalated: still the same request, and what ann said then counts.
    expect(await run.decide({ ...decisionOn(request, 'dora'), approver: director })).toMatchObject({
      status: 'approved',
    });
    await run.result();
    expect(bank.callsFor('nobody')).toHaveLength(1);
    const ledger = await run.ledger();
    expect(factsOf(ledger, 'request.reminded')).toHaveLength(1);
    expect(factsOf(ledger, 'request.escalated')).toMatchObject([
      { generation: 1, approvers: { allOf: [{ ids: ['ann', 'ben'], groups: ['directors'], need: 2 }] } },
    ]);
  });

  test('where others come in place of somebody, that one does not decide any more', async () => {
    const { run, request } = await asked('lookup', 'instead');
    await ledgerShows(run, 'request.escalated');
    expect(await codeOf(run.decide(decisionOn(request, 'ann')))).toBe('APPROVER_NOT_ENTITLED');
    expect(await codeOf(run.decide(decisionOn(request, 'ann', 'reject')))).toBe('APPROVER_NOT_ENTITLED');
    await run.decide(decisionOn(request, 'zoe'));
    await run.result();
    expect(bank.callsFor('instead')).toHaveLength(1);
  });

  test('E-3: what acts in the name of its user is confirmed by that user, and by nobody else', async () => {
    const { run, request } = await asked('bare', 'mine', { initiator: { id: 'eve' } });
    expect(request.approvers.allOf).toEqual([{ layer: 'organisation', ids: ['eve'], groups: [] }]);
    expect(await codeOf(run.decide(decisionOn(request, 'ann')))).toBe('APPROVER_NOT_ENTITLED');
    await run.decide(decisionOn(request, 'eve'));
    await run.result();
    expect(bank.callsFor('mine')).toHaveLength(1);
  });
});
