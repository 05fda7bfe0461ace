/** What every `LedgerSink` does: section 8 F39, J (audit), INV-D3. */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { LedgerSink } from '../../activities/ledger/port.ts';
import type { AnyEntry } from '../../contracts/schemas/ledger.ts';
import { sealEntry } from '../../domain/run/journal.ts';
import { saidFact } from '../support/builders/ledger.ts';
import { chainOf, recordOf, STREAM } from '../support/builders/ledger-record.ts';

export interface KeptLedger {
  /** By number, then by hash. */
  readonly entries: readonly AnyEntry[];
  readonly signedHeads: readonly string[];
}

export interface LedgerHarness {
  readonly name: string;
  /** A sink with nothing in it, and a second one on the same store, as of another worker. */
  create(): Promise<{
    readonly sink: LedgerSink;
    readonly other: LedgerSink;
    kept(firstRunId?: string): Promise<KeptLedger>;
  }>;
}

const CONFLICT = { code: 'LEDGER_CONFLICT', traits: { retryable: true } };

export function ledgerSuite({ name, create }: LedgerHarness): void {
  describe(`the ledger port: ${name}`, () => {
    test('keeps the entries of a record, and its signed head', async () => {
      const { sink, kept } = await create();
      const chain = chainOf(5);
      await sink.deliver(recordOf(chain.slice(0, 3), {}, 'e30.e30.one'));
      await sink.deliver(recordOf(chain.slice(3), {}, 'e30.e30.two'));
      expect(await kept()).toEqual({ entries: chain, signedHeads: ['e30.e30.one', 'e30.e30.two'] });
    });

    test('F16: the same record twice adds nothing', async () => {
      const { sink, other, kept } = await create();
      const chain = chainOf(4);
      await sink.deliver(recordOf(chain));
      const before = await kept();
      await other.deliver(recordOf(chain));
      await sink.deliver(recordOf(chain.slice(1, 3)));
      expect(await kept()).toEqual(before);
    });

    test('of a record that overlaps, the rest is added', async () => {
      const { sink, kept } = await create();
      const chain = chainOf(6);
      for (const to of [2, 5, 3, 6]) await sink.deliver(recordOf(chain.slice(0, to)));
      expect((await kept()).entries).toEqual(chain);
    });

    test('INV-D3: two workers that deliver the same segment at once, and a longer one, keep each entry once', async () => {
      const { sink, other, kept } = await create();
      const chain = chainOf(30);
      const lengths = [10, 30, 20, 10, 30, 20, 10, 30];
      await Promise.all(
        lengths.map(async (to, index) => (index % 2 === 0 ? sink : other).deliver(recordOf(chain.slice(0, to)))),
      );
      expect((await kept()).entries).toEqual(chain);
    });

    test('a gap is refused, and nothing is kept', async () => {
      const { sink, kept } = await create();
      const chain = chainOf(5);
      await expect(sink.deliver(recordOf(chain.slice(2)))).rejects.toMatchObject(CONFLICT);
      await sink.deliver(recordOf(chain.slice(0, 2)));
      const before = await kept();
      await expect(sink.deliver(recordOf(chain.slice(3)))).rejects.toMatchObject(CONFLICT);
      expect(await kept()).toEqual(before);
    });

    test('F39: another entry in the place of one that is known is refused, also where its chain is sound', async () => {
      const { sink, kept } = await create();
      const chain = chainOf(5);
      await sink.deliver(recordOf(chain));
      const before = await kept();
      const rewritten = chainOf(7, 'other', chain.slice(0, 3));
      for (const record of [recordOf(rewritten), recordOf(rewritten.slice(3)), recordOf(rewritten.slice(5))])
        await expect(sink.deliver(record)).rejects.toMatchObject(CONFLICT);
      expect(await kept()).toEqual(before);
    });

    test('a first entry that does not begin a chain is refused', async () => {
      const { sink, kept } = await create();
      const headless = sealEntry(0, 'a'.repeat(64), 0, saidFact());
      await expect(sink.deliver(recordOf([headless]))).rejects.toMatchObject(CONFLICT);
      expect((await kept()).entries).toEqual([]);
    });

    test('INV-G2, F38: a run that a reset made continues from an earlier entry, and both branches are kept', async () => {
      const { sink, other, kept } = await create();
      const chain = chainOf(5);
      await sink.deliver(recordOf(chain));
      const branch = chainOf(7, 'reset', chain.slice(0, 3));
      const reset = { runId: 'reset-1', resetOf: STREAM.runId };
      for (const worker of [sink, other]) await worker.deliver(recordOf(branch.slice(0, 6), reset));
      await sink.deliver(recordOf(branch, reset));
      // The execution after it was not made by a reset itself.
      const longer = chainOf(9, 'reset', branch);
      await sink.deliver(recordOf(longer.slice(7), { runId: 'after-reset' }));
      const { entries } = await kept();
      expect(entries).toHaveLength(5 + 6);
      expect(new Set(entries)).toEqual(new Set([...chain, ...longer.slice(3)]));
    });

    test('S1.1: runs are kept apart, also two of one workflow id', async () => {
      const { sink, kept } = await create();
      const [one, two] = [chainOf(3, 'one'), chainOf(2, 'two')];
      await sink.deliver(recordOf(one));
      await sink.deliver(recordOf(two, { firstRunId: '3f0c-later', runId: '3f0c-later' }));
      expect((await kept()).entries).toEqual(one);
      expect((await kept('3f0c-later')).entries).toEqual(two);
    });

    test('a workflow id of any letters is kept', async () => {
      const { sink, kept } = await create();
      const workflowId = `catalog/default/../${'ä'.repeat(200)}\n*`;
      const chain = chainOf(2);
      await sink.deliver(recordOf(chain, { workflowId }));
      await sink.deliver(recordOf(chain, { workflowId }));
      expect((await kept()).entries).toEqual(chain);
    });

    test('whatever is delivered in whatever pieces, again and at once: what stands there is the chain', async () => {
      const piece = fc.record({ from: fc.nat(11), length: fc.integer({ min: 1, max: 12 }), again: fc.boolean() });
      await fc.assert(
        fc.asyncProperty(fc.array(piece, { minLength: 1, maxLength: 12 }), async (pieces) => {
          const { sink, other, kept } = await create();
          const chain = chainOf(12);
          let known = 0;
          for (const { from, length, again } of pieces) {
            const to = Math.min(from + length, chain.length);
            const record = recordOf(chain.slice(from, to));
            const tries = [sink.deliver(record), ...(again ? [other.deliver(record)] : [])];
            const ends = (await Promise.allSettled(tries)).map(({ status }) => status);
            const expected = from <= known ? 'fulfilled' : 'rejected';
            expect(new Set(ends)).toEqual(new Set([expected]));
            if (from <= known) known = Math.max(known, to);
          }
          expect((await kept()).entries).toEqual(chain.slice(0, known));
        }),
        { numRuns: 40 },
      );
    });
  });
}
