/** How a stretch of a ledger is cut into records, and when it counts as delivered. */
import { expect, test } from '@jest/globals';
import { createDelivery, type LedgerSink } from '../../../../activities/ledger/port.ts';
import type { LedgerEntry, LedgerRecord } from '../../../../contracts/schemas/ledger.ts';
import { GENESIS, sealEntry } from '../../../../domain/run/journal.ts';
import { chainOf, STREAM } from '../../../support/builders/ledger-record.ts';

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
