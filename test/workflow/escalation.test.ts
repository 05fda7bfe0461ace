/** Reminders, escalations and confirmation by the acting user, on a real server (E-3, F-3, F-4, F-7, F20, INV-G2, INV-D3). */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { RunSpecInput } from '../../contracts/schemas/run-spec.ts';
import { type RecordingServer, startRecordingServer } from '../support/recording-server.ts';
import { codeOf, factsOf, ledgerShows } from '../support/run-record.ts';
import { until } from '../support/until.ts';
import { decisionOn, openRequests, startWorld, type World } from '../support/world.ts';

let bank: RecordingServer;
let world: World;

beforeAll(async () => {
  bank = await startRecordingServer();
  const leads = { ids: ['ann', 'ben'], need: 2, escalate: { afterSeconds: 10, add: { groups: ['directors'] } } };
  const others = { ids: ['ann'], escalate: { afterSeconds: 1, replace: { ids: ['zoe'] } } };
  world = await startWorld({
    config: {
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
      servers: { bank: { url: bank.url, credentials: { kind: 'none' } } },
    },
  });
});
afterAll(async () => {
  await world.stop();
  await bank.close();
});

async function asked(tool: string, purpose: string, over: Partial<RunSpecInput> = {}) {
  const steps = [{ calls: [{ tool: `bank/${tool}`, arguments: { purpose } }] }, { text: 'done' }];
  const run = await world.start(steps, over);
  const [request] = await openRequests(run);
  if (request === undefined) throw new Error('no request');
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
  const after = await until(
    async () => (await run.requests()).find(({ runId, status }) => runId !== request.runId && status === 'open'),
    { what: 'the request in the next execution' },
  );
  expect(after.remindedAt).toBe(new Date(Date.parse(request.openedAt) + 2_000).toISOString());
  await ledgerShows(run, 'request.escalated');
  await world.restartWorkers();
  await until(
    async () => (await world.countersign.waiting({ group: 'directors' })).find(({ runId }) => runId === run.runId),
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
