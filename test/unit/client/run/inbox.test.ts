/** The inbox lists the first deadline first, and says of each run that waits and is not listed. */
import { expect, jest, test } from '@jest/globals';
import { defaultDataConverter, type Payload } from '@temporalio/common';
import { msToTs } from '@temporalio/common/lib/time.js';
import { plain } from '../../../../cli/session/terminal.ts';
import { inboxAnswer } from '../../../../cli/verbs/requests.ts';
import { Countersign } from '../../../../client/index.ts';
import { defined } from '../../../../contracts/defined.ts';
import { PENDING_MEMO, RUN_WORKFLOW } from '../../../../contracts/names.ts';
import { payloadConverter, SEALED_ENCODING } from '../../../../contracts/payload-converter.ts';
import { fakeClient } from '../../../support/servers/fake-client.ts';
import { codeOf } from '../../../support/world/run-record.ts';

const HOUR_MS = 3_600_000;
/** Executions of one page. */
const PAGE = 1_000;

interface Row {
  readonly workflowId: string;
  readonly memo: Payload | undefined;
}

function memoOf(inHours: number | undefined, more: object = {}): Payload {
  const nextDeadline = inHours === undefined ? undefined : new Date(Date.now() + inHours * HOUR_MS).toISOString();
  const memo = { count: 1, ...defined({ nextDeadline }), requests: [], truncated: false, ...more };
  return payloadConverter.toPayload(memo);
}

const SEALED: Payload = { metadata: { encoding: Buffer.from(SEALED_ENCODING) }, data: Buffer.from('?') };

/** A Temporal that lists these, and the deadlines of what it was asked. */
function listing(rows: readonly Row[]) {
  const deadlines: number[] = [];
  const listWorkflowExecutions = async ({ nextPageToken }: { readonly nextPageToken?: Uint8Array }) => {
    const from = Number(Buffer.from(nextPageToken ?? []).toString() || 0);
    const to = from + PAGE;
    return await Promise.resolve({
      executions: rows.slice(from, to).map(({ workflowId, memo }) => ({
        execution: { workflowId, runId: 'r' },
        type: { name: RUN_WORKFLOW },
        status: 1,
        startTime: msToTs(Date.now()),
        executionTime: msToTs(Date.now()),
        historyLength: msToTs(3_000).seconds,
        taskQueue: 'runs',
        memo: { fields: memo === undefined ? {} : { [PENDING_MEMO]: memo } },
      })),
      nextPageToken: to < rows.length ? Buffer.from(String(to)) : new Uint8Array(),
    });
  };
  const connection = { workflowService: { listWorkflowExecutions } };
  const options = { identity: 'ann', loadedDataConverter: defaultDataConverter };
  const client = fakeClient({ connection, options }, deadlines);
  return { countersign: new Countersign({ client }), deadlines };
}

/** The newest first, as Temporal lists them: it is the last to expire. */
function expiring(count: number): Row[] {
  return Array.from({ length: count }, (_, index) => ({ workflowId: `run-${index}`, memo: memoOf(count - index) }));
}

test('the first deadline is first, also where more wait than are listed, and the rest is counted', async () => {
  const { countersign } = listing([{ workflowId: 'endless', memo: memoOf(undefined) }, ...expiring(2_500)]);
  const inbox = await countersign.inbox();
  expect(inbox.runs).toHaveLength(100);
  expect(inbox.runs.slice(0, 2).map(({ runId }) => runId)).toEqual(['run-2499', 'run-2498']);
  expect(inbox).toMatchObject({ more: 2_401, unread: [], isWhole: true });
  expect((await countersign.waiting({ most: 3_000 })).at(-1)?.runId).toBe('endless');
  expect(await countersign.waiting({ most: Infinity })).toHaveLength(2_501);
  // Nobody reads the rest of a person, which may lead anywhere.
  const person = { id: 'ann', groups: ['finance'], name: 'Ann', session: {}, avatar: Buffer.alloc(1_000_000) };
  person.session = { person };
  expect(await countersign.waiting({ approver: person })).toHaveLength(100);
  for (const most of [-1, Number.NaN])
    await expect(countersign.waiting({ most })).rejects.toMatchObject({ code: 'USAGE' });
  const text = inboxAnswer(inbox, false).text(plain);
  expect(text).toContain('2401 more wait, with later deadlines. List all: repeat this with --most 2501');
  expect(text).not.toContain('warning');
});

test('a run that cannot be read here ends the list of no other, and is named', async () => {
  const rows = [
    { workflowId: 'of-another-version', memo: memoOf(1, { asked: 'ann' }) },
    { workflowId: 'of-another-key', memo: SEALED },
    ...expiring(2),
    { workflowId: 'just-decided', memo: undefined },
  ];
  const inbox = await listing(rows).countersign.inbox();
  expect(inbox.runs.map(({ runId }) => runId)).toEqual(['run-1', 'run-0']);
  expect(inbox).toMatchObject({ more: 0, unread: ['of-another-version', 'of-another-key'], isWhole: true });
  const answer = inboxAnswer(inbox, false);
  expect(answer.json).toMatchObject({ unread: ['of-another-version', 'of-another-key'] });
  expect(answer.text(plain)).toMatch(
    /warning {2}2 more wait, and are not listed: .*: of-another-version, of-another-key\n/,
  );
});

test('where nothing can be read it does not say that nothing waits', async () => {
  const { countersign } = listing([{ workflowId: 'of-another-version', memo: memoOf(1, { asked: 'ann' }) }]);
  const text = inboxAnswer(await countersign.inbox(), false).text(plain);
  expect(text).toMatch(/^warning {2}1 more wait/);
  expect(text).toContain('countersign requests of-another-version');
  expect(await codeOf(listing([{ workflowId: 'of-another-key', memo: SEALED }]).countersign.inbox())).toBe(
    'CONFIG_INVALID',
  );
  const none = inboxAnswer(await listing([]).countersign.inbox(), true);
  expect(none.text(plain)).toBe('No run waits for them.');
});

test('where more wait than are looked at it says so, and each page had a deadline of its own', async () => {
  const { countersign, deadlines } = listing(expiring(10_500));
  const inbox = await countersign.inbox({ most: 1 });
  expect(inbox).toMatchObject({ runs: [{ runId: 'run-9999' }], more: 9_999, isWhole: false });
  expect(deadlines.length).toBeGreaterThanOrEqual(10);
  expect(inboxAnswer(inbox, false).text(plain)).toContain('Only the newest 10000 were looked at');
});

test('of a list of catalogs, too, each page has a deadline of its own', async () => {
  const catalogs = Array.from({ length: 2_500 }, (_, index) => ({
    workflowId: `catalog/default/server-${index}`,
    memo: undefined,
  }));
  const { countersign, deadlines } = listing(catalogs);
  const clock = jest.spyOn(Date, 'now').mockImplementation(() => deadlines.length);
  try {
    expect(await countersign.catalogs()).toHaveLength(2_500);
  } finally {
    clock.mockRestore();
  }
  expect(new Set(deadlines).size).toBeGreaterThanOrEqual(3);
});
