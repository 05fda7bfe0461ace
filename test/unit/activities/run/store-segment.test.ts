/** Storing a segment delivers its ledger: for the run that asks, after it is stored, gaps first (INV-D3, F39). */
import { beforeEach, expect, test } from '@jest/globals';
import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import { createMemoryStore } from '../../../../activities/artifacts/memory.ts';
import type { DeliverLedger, LedgerStream } from '../../../../activities/ledger/port.ts';
import { createStoreSegment } from '../../../../activities/run/store-segment.ts';
import { CountersignError } from '../../../../contracts/errors.ts';
import type { ArtifactRef } from '../../../../contracts/schemas/json.ts';
import type { StoreSegmentInput } from '../../../../contracts/wire/run.ts';
import { chainOf } from '../../../support/builders/ledger-record.ts';

const CHAIN = chainOf(9);
const RUN = {
  workflowType: 'agentRun',
  workflowNamespace: 'default',
  workflowExecution: { workflowId: 'run-1', runId: 'run-b' },
};

let delivered: { readonly stream: LedgerStream; readonly from: number; readonly to: number }[];
let known: number;
let artifacts: ReturnType<typeof createMemoryStore>;
beforeEach(() => {
  delivered = [];
  known = 0;
  artifacts = createMemoryStore();
});

const deliver: DeliverLedger = async (stream, entries) => {
  const from = entries[0]?.seq ?? 0;
  if (from > known) throw new CountersignError('LEDGER_CONFLICT', 'a gap');
  known = from + entries.length;
  delivered.push({ stream, from, to: known });
};

/** As Temporal and the run answer. @param original of the first event: another one where the run was made by a reset */
async function stored(
  over: Partial<StoreSegmentInput>,
  info: object = RUN,
  original = 'run-b',
  to: DeliverLedger | undefined = deliver,
) {
  const query = async (name: string, from: number, end: number) => ({
    messages: [],
    entries: name === 'ledger' ? CHAIN.slice(from, end) : [],
  });
  const started = { firstExecutionRunId: 'run-a', originalExecutionRunId: original };
  const getWorkflowExecutionHistory = async () => ({
    history: { events: [{ workflowExecutionStartedEventAttributes: started }] },
  });
  // Sound: it asks for a handle, queries it, and asks for the first event; nothing else.
  const client = {
    workflow: { getHandle: () => ({ query }) },
    workflowService: { getWorkflowExecutionHistory },
  } as unknown as Parameters<typeof createStoreSegment>[1];
  const input = { workflowId: 'run-1', transcript: { from: 0, to: 0 }, ledger: { from: 0, to: 3 }, ...over };
  const activity = createStoreSegment(artifacts, client, to);
  const environment = new MockActivityEnvironment(info, { logger: new DefaultLogger('ERROR') });
  return await environment.run<[StoreSegmentInput], ArtifactRef, typeof activity>(activity, input);
}

test('what is stored is delivered, as of the first run of the chain', async () => {
  await stored({});
  const stream = { namespace: 'default', workflowId: 'run-1', firstRunId: 'run-a', runId: 'run-b' };
  expect(delivered).toEqual([{ stream, from: 0, to: 3 }]);
});

test('INV-G2, F38: a run that was made by a reset says so', async () => {
  await stored({}, RUN, 'run-of-before');
  expect(delivered).toMatchObject([{ stream: { runId: 'run-b', resetOf: 'run-of-before' } }]);
});

test('a sink that misses earlier segments is given them first, oldest first', async () => {
  const first = await stored({}, RUN, 'run-b', async () => undefined);
  const second = await stored({ previous: first, ledger: { from: 3, to: 5 } }, RUN, 'run-b', async () => undefined);
  await stored({ previous: second, ledger: { from: 5, to: 9 } });
  expect(delivered.map(({ from, to }) => [from, to])).toEqual([
    [0, 3],
    [3, 5],
    [5, 9],
  ]);
});

test('a conflict that is no gap stays one, and so does a sink that is away', async () => {
  const first = await stored({}, RUN, 'run-b', async () => undefined);
  for (const code of ['LEDGER_CONFLICT', 'LEDGER_UNAVAILABLE'] as const) {
    const refused: DeliverLedger = async () => {
      throw new CountersignError(code, 'no');
    };
    await expect(stored({ previous: first, ledger: { from: 3, to: 5 } }, RUN, 'run-b', refused)).rejects.toMatchObject({
      code,
    });
  }
});

test.each([
  ['a workflow of another type', { ...RUN, workflowType: 'somethingElse' }],
  ['another run', { ...RUN, workflowExecution: { workflowId: 'run-2', runId: 'run-b' } }],
  ['nobody', { ...RUN, workflowType: undefined }],
])('INV-G1: what %s asks to store is not signed', async (_, info) => {
  await expect(stored({}, info)).rejects.toMatchObject({ code: 'DISPATCH_FORBIDDEN' });
  expect(delivered).toEqual([]);
});

test('a catalog is signed for', async () => {
  await stored({}, { ...RUN, workflowType: 'toolCatalog' });
  expect(delivered).toHaveLength(1);
});
