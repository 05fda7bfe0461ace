/** Segments of a run: stored, read back, and delivered to the sinks of ledgers. */
import { beforeEach, describe, expect, test } from '@jest/globals';
import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import { createMemoryStore } from '../../../../activities/artifacts/memory.ts';
import {
  createDelivery,
  type DeliverLedger,
  type LedgerSink,
  type LedgerStream,
} from '../../../../activities/ledger/port.ts';
import { createMessageReader, createTranscriptReader } from '../../../../activities/run/read-transcript.ts';
import { createStoreSegment } from '../../../../activities/run/store-segment.ts';
import { defined } from '../../../../contracts/defined.ts';
import { CountersignError } from '../../../../contracts/errors.ts';
import type { ArtifactRef } from '../../../../contracts/schemas/json.ts';
import type { LedgerEntry, LedgerRecord } from '../../../../contracts/schemas/ledger.ts';
import type { Message } from '../../../../contracts/schemas/transcript.ts';
import type { StoreSegmentInput } from '../../../../contracts/wire/run.ts';
import { GENESIS, sealEntry } from '../../../../domain/run/journal.ts';
import { canonicalJson } from '../../../../domain/text/canonical.ts';
import { chainOf, STREAM } from '../../../support/builders/ledger-record.ts';

describe('storing a segment delivers its ledger: for the run that asks, after it is stored, gaps first (INV-D3, F39)', () => {
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
      await expect(
        stored({ previous: first, ledger: { from: 3, to: 5 } }, RUN, 'run-b', refused),
      ).rejects.toMatchObject({
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
});

describe('reading a conversation back from stored segments and the living execution', () => {
  const messages: readonly Message[] = Array.from({ length: 12 }, (_, n) => ({ role: 'user', text: `message ${n}` }));

  /** Three stored segments of three messages each; the rest is still in the run. */
  async function stored() {
    const memory = createMemoryStore();
    let newest: ArtifactRef | undefined;
    for (const from of [0, 3, 6]) {
      const segment = {
        workflowId: 'run-1',
        ...defined({ previous: newest }),
        transcript: { from, messages: messages.slice(from, from + 3) },
        ledger: { from: 0, entries: [] },
      };
      newest = await memory.put(new TextEncoder().encode(canonicalJson(segment)), 'application/json');
    }
    let reads = 0;
    const get = async (ref: ArtifactRef) => {
      reads += 1;
      return await memory.get(ref);
    };
    const asked: [number, number][] = [];
    const query = async (_name: string, from: number, to: number) => {
      asked.push([from, to]);
      const first = Math.max(from, 9);
      return { from: first, total: 12, messages: messages.slice(first, Math.min(to, first + 2)), segment: newest };
    };
    // Sound: the reader asks for a handle and queries it, nothing else.
    const client = { workflow: { getHandle: () => ({ query }) } } as unknown as Parameters<
      typeof createTranscriptReader
    >[1];
    const artifacts = { ...memory, get };
    const read = createTranscriptReader(artifacts, client);
    return {
      read: async (wanted: number) => await read('run-1', 'run', wanted, newest),
      readOne: createMessageReader(artifacts, client),
      readsOf: () => reads,
      askedOf: () => asked,
    };
  }

  test('what is stored comes from its segments, each read once (INV-D2), and the rest page by page from the run', async () => {
    const { read, readsOf, askedOf } = await stored();
    expect(await read(12)).toEqual(messages);
    expect(readsOf()).toBe(3);
    expect(askedOf()).toEqual([
      [9, 12],
      [11, 12],
    ]);
    expect(await read(4)).toEqual(messages.slice(0, 4));
    expect(await read(20)).toEqual(messages);
  });

  test('one message is asked of the run, and read where the run says that it is stored', async () => {
    const { readOne, readsOf } = await stored();
    expect(await readOne('run-1', 'execution-1', 10)).toEqual(messages[10]);
    expect(readsOf()).toBe(0);
    expect(await readOne('run-1', 'execution-1', 4)).toEqual(messages[4]);
    expect(readsOf()).toBe(2);
    expect(await readOne('run-1', 'execution-1', 12)).toBeUndefined();
  });
});

// How a stretch of a ledger is cut into records, and when it counts as delivered.

function sinkInMemory(): LedgerSink & { readonly records: LedgerRecord[] } {
  const records: LedgerRecord[] = [];
  return { records, deliver: async (record) => void records.push(record) };
}

const sign = async ({ from, to }: { readonly from: number; readonly to: number }) => `e30.e30.${from}-${to}`;

/** Of about 13 kB each: long comments. */
function longChain(length: number): LedgerEntry[] {
  const entries: LedgerEntry[] = [];
  while (entries.length < length) {
    const fact = { kind: 'stop.requested', by: 'ann', reason: 'x'.repeat(13_000), inFlight: 'finish' } as const;
    entries.push(sealEntry(entries.length, entries.at(-1)?.hash ?? GENESIS, 0, fact));
  }
  return entries;
}

test('each record holds where the chain stood before and after it', async () => {
  const sink = sinkInMemory();
  const chain = chainOf(5);
  await createDelivery(sign, [sink])(STREAM, chain.slice(2));
  expect(sink.records).toEqual([
    {
      head: { ...STREAM, from: 2, to: 5, previousHead: chain[1]?.hash, head: chain[4]?.hash },
      signedHead: 'e30.e30.2-5',
      entries: chain.slice(2),
    },
  ]);
});

test('a stretch of no entries is no record', async () => {
  const sink = sinkInMemory();
  await createDelivery(sign, [sink])(STREAM, []);
  expect(sink.records).toEqual([]);
});

test('a long stretch goes in records of a bounded size, and a longer one begins with the same records', async () => {
  const [short, long] = [sinkInMemory(), sinkInMemory()];
  const chain = longChain(200);
  await createDelivery(sign, [short])(STREAM, chain.slice(0, 150));
  await createDelivery(sign, [long])(STREAM, chain);
  expect(long.records.flatMap(({ entries }) => entries)).toEqual(chain);
  for (const record of long.records) expect(JSON.stringify(record).length).toBeLessThan(600_000);
  expect(short.records.length).toBeGreaterThan(3);
  expect(long.records.slice(0, short.records.length - 1)).toEqual(short.records.slice(0, -1));
});

test('INV-D3: where one sink fails, the delivery fails, and the others are given it again', async () => {
  const sink = sinkInMemory();
  let isAway = true;
  const failing: LedgerSink = {
    deliver: async () => {
      if (isAway) throw new Error('away');
    },
  };
  const deliver = createDelivery(sign, [sink, failing]);
  await expect(deliver(STREAM, chainOf(2))).rejects.toThrow('away');
  isAway = false;
  await deliver(STREAM, chainOf(2));
  expect(sink.records).toHaveLength(2);
});
