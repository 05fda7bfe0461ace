/** Lists show what waits for a person in any spelling that policy allows, and refusals tell nothing (D-7). */
import { expect, test } from '@jest/globals';
import { RequestQuery, RunQuery } from '../../../contracts/schemas/http-api.ts';
import type { ApprovalRequest } from '../../../contracts/schemas/request.ts';
import type { Opened } from '../../../gateway/projection/opened.ts';
import type { Known, Projection } from '../../../gateway/projection/projection.ts';
import { Reading } from '../../../gateway/inbox/reading.ts';
import { approvalRequest } from '../../support/builders/approval-request.ts';
import { fakeClient } from '../../support/servers/fake-client.ts';
import { asker, known } from '../../support/scenes/asking.ts';
import { START } from '../../support/builders/run.ts';
import { codeOf } from '../../support/refusal.ts';

/** Waits for `ann@x`, in lower case as visibility holds it where case is ignored. */
const WAITING = known({ pending: 1 }, { approvers: ['id:ann@x'] });

function requestFor(id: string, idCase?: 'ignored'): ApprovalRequest {
  const approvers = { allOf: [{ layer: 'organisation' as const, ids: [id], groups: [] }] };
  return { ...approvalRequest(), approvers: idCase === undefined ? approvers : { ...approvers, idCase } };
}

function minutesLater(minutes: number): string {
  return new Date(START + 3_600_000 + minutes * 60_000).toISOString();
}

function reading(
  request: ApprovalRequest,
  runs: readonly Known[] = [WAITING],
  describe = noRow,
  requests = async (_runId: string): Promise<readonly ApprovalRequest[]> => await Promise.resolve([request]),
) {
  const opened = {
    requests,
    knownRules: () => [request.approvers],
    everyRule: async () => await Promise.resolve([request.approvers]),
  };
  const projection = {
    asOf: START,
    run: (runId: string) => runs.find(({ row }) => row.runId === runId),
    runs: () => runs.values(),
    waiting: () => runs,
  };
  const client = fakeClient({ workflowService: { describeWorkflowExecution: describe } });
  // Sound: these are what it uses of each.
  return new Reading(client, projection as unknown as Projection, opened as unknown as Opened, () => START);
}

const noRow = async (): Promise<unknown> => await Promise.resolve({});
const ANN = asker({ id: 'Ann@x' });
const QUERY = RequestQuery.parse({});

test('where policy ignores the case of ids, an inbox and a list have what waits for the person', async () => {
  const ignoring = reading(requestFor('ann@x', 'ignored'));
  const { requests } = await ignoring.requests(QUERY, ANN);
  expect(requests).toMatchObject([{ run: 'run-1', offers: ['approve', 'reject'] }]);
  expect(ignoring.runs(RunQuery.parse({}), ANN).runs).toHaveLength(1);
  const approver = RequestQuery.parse({ approver: 'ANN@X' });
  expect((await ignoring.requests(approver, ANN)).requests).toHaveLength(1);
  // The same name in visibility may be that of another person.
  const exact = reading(requestFor('ann@x'));
  expect((await exact.requests(QUERY, ANN)).requests).toEqual([]);
  expect(exact.runs(RunQuery.parse({}), ANN).runs).toEqual([]);
  expect((await exact.requests(approver, asker({ id: 'ann@x' }))).requests).toEqual([]);
});

test('lists of an initiator compare ids as policy does', () => {
  const own = reading(requestFor('ben'), [known({ initiator: 'zoe' })]);
  const zoe = asker({ id: 'Zoe', idCase: 'ignored' });
  expect(own.runs(RunQuery.parse({ initiator: 'ZOE' }), zoe).runs).toHaveLength(1);
  expect(own.runs(RunQuery.parse({}), asker({ id: 'Zoe' })).runs).toEqual([]);
});

test('every refusal asks Temporal, and fails as it does: a run of others, of another tenant, and none at all', async () => {
  const runs = [known({ runId: 'of-others' }), known({ runId: 'of-a-tenant', tenant: 'beta' })];
  let asked = 0;
  const there = reading(requestFor('ben'), runs, async () => {
    asked += 1;
    return await Promise.resolve({});
  });
  const away = reading(requestFor('ben'), runs, async () => {
    throw new TypeError('away');
  });
  for (const [index, runId] of ['of-others', 'of-a-tenant', 'none'].entries()) {
    expect(await codeOf(there.seen(runId, asker()))).toBe('RUN_NOT_FOUND');
    expect(asked).toBe(index + 1);
    await expect(away.seen(runId, asker())).rejects.toThrow('away');
  }
});

test('a run that was listed before it said whose it is shows to its initiator', async () => {
  const saying = (text: string) => ({ data: Buffer.from(JSON.stringify(text)) });
  const indexedFields = { CountersignTenant: saying('default'), CountersignInitiator: saying('ann') };
  const workflowExecutionInfo = { type: { name: 'agentRun' }, searchAttributes: { indexedFields } };
  const describe = async (): Promise<unknown> => await Promise.resolve({ workflowExecutionInfo });
  const early = reading(requestFor('ben'), [known({ tenant: '', initiator: '' })], describe);
  expect(await early.seen('run-1', asker())).toMatchObject({ initiator: 'ann' });
});

test('a run that was terminated offers nothing, although it could not close its requests', async () => {
  const [request, ann] = [requestFor('ann'), asker()];
  const offersOf = async (row: Parameters<typeof known>[0]) =>
    (await reading(request, [known(row, { approvers: ['id:ann'] })]).requestOf('run-1', request.callId, ann)).offers;
  expect(await offersOf({ pending: 1 })).toContain('approve');
  expect(await offersOf({ status: 'terminated', endedAt: new Date(START).toISOString() })).toEqual([]);
});

test('a page asks runs in rounds of eight, and no more than its rows need', async () => {
  const asked: string[] = [];
  const pageOf = async (pending: number, most: number): Promise<number> => {
    asked.length = 0;
    const runs = Array.from({ length: 40 }, (_, index) =>
      known({ runId: `run-${String(index).padStart(2, '0')}`, pending, nextDeadline: minutesLater(index) }),
    );
    const open = (runId: string): ApprovalRequest[] =>
      Array.from({ length: pending }, (_, index) => ({
        ...requestFor('ann'),
        callId: `t1.c${index}`,
        workflowId: runId,
        // No two runs have a deadline in common.
        deadline: minutesLater(Number(runId.slice(4))),
      }));
    const lists = reading(requestFor('ann'), runs, noRow, async (runId) => {
      asked.push(runId);
      return await Promise.resolve(open(runId));
    });
    const { requests } = await lists.requests(RequestQuery.parse({ most }), asker({ id: 'ann', seesAll: true }));
    expect(requests).toHaveLength(most);
    return asked.length;
  };
  expect(await pageOf(20, 50)).toBe(8);
  // The page holds 10, and the next tells that there are more.
  expect(await pageOf(1, 10)).toBe(16);
});
