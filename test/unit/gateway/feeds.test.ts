/** Readers of one run share a watch, and none of them costs another anything. */
import { expect, test } from '@jest/globals';
import type { Countersign } from '../../../client/countersign.ts';
import type { LedgerEntry } from '../../../contracts/schemas/ledger.ts';
import { Feeds } from '../../../gateway/projection/feeds.ts';
import { ledgerOf, saidFact } from '../../support/builders/ledger.ts';
import { until } from '../../support/until.ts';

/** A run whose ledger grows as a test says. */
function runWith(count: number) {
  const all = ledgerOf(Array.from({ length: 30 }, (_, index) => saidFact(`m-${index}`)));
  let length = count;
  let isOver = false;
  let wake = (): void => undefined;
  const watches: number[] = [];
  const woken = async (): Promise<void> => await new Promise<void>((resolve) => (wake = resolve));
  const run = {
    ledgerEntries: async ({ from, most }: { from: number; most: number }) =>
      await Promise.resolve(all.slice(0, length).slice(from, from + most)),
    async *watch({ cursor, signal }: { readonly cursor: number; readonly signal: AbortSignal }) {
      watches.push(cursor);
      signal.addEventListener('abort', () => wake());
      for (let next = cursor; !signal.aborted;) {
        const entry = next < length ? all[next] : undefined;
        if (entry !== undefined) {
          yield entry;
          next += 1;
        } else if (isOver) return;
        else await woken();
      }
    },
  };
  return {
    // Sound: feeds use these two methods alone.
    feeds: new Feeds({ run: () => run } as unknown as Countersign),
    watches,
    grow: (by: number) => {
      length += by;
      wake();
    },
    end: () => {
      isOver = true;
      wake();
    },
  };
}

function reader(feeds: Feeds, from: number, pace: () => Promise<void> = async () => await Promise.resolve()) {
  const seqs: number[] = [];
  const over = new AbortController();
  const tell = async ({ seq }: LedgerEntry): Promise<void> => {
    seqs.push(seq);
    await pace();
  };
  return { seqs, close: () => over.abort(), done: feeds.follow('run-1', from, over.signal, tell) };
}

const upTo = (count: number, from = 0): number[] => Array.from({ length: count - from }, (_, index) => from + index);

test('a reader who names a number that the ledger has not reached silences nobody, and gets all of it', async () => {
  const { feeds, watches, grow, end } = runWith(3);
  const liar = reader(feeds, 1_000_000_000_000_000);
  await until(() => liar.seqs.length === 3, { what: 'the entries of the first reader' });
  const honest = reader(feeds, 2);
  grow(2);
  await until(() => honest.seqs.length === 3, { what: 'the entries of the second reader' });
  end();
  await Promise.all([liar.done, honest.done]);
  expect([liar.seqs, honest.seqs]).toEqual([upTo(5), upTo(5, 2)]);
  expect(watches).toEqual([0]);
});

test('a reader who has all so far gets what comes, and one who comes later gets the earlier entries too', async () => {
  const { feeds, watches, grow, end } = runWith(4);
  const resumed = reader(feeds, 4);
  await until(() => watches.length === 1, { what: 'the watch' });
  const whole = reader(feeds, 0);
  await until(() => whole.seqs.length === 4, { what: 'the earlier entries' });
  grow(1);
  end();
  await Promise.all([resumed.done, whole.done]);
  expect([resumed.seqs, whole.seqs]).toEqual([[4], upTo(5)]);
  expect(watches).toEqual([4]);
});

test('a slow reader is waited for entry by entry, and holds up no other', async () => {
  const { feeds, end } = runWith(30);
  let release = (): void => undefined;
  const gate = new Promise<void>((resolve) => (release = resolve));
  const slow = reader(feeds, 0, async () => await gate);
  const fast = reader(feeds, 0);
  end();
  await fast.done;
  expect([slow.seqs, fast.seqs]).toEqual([[0], upTo(30)]);
  release();
  await slow.done;
  expect(slow.seqs).toEqual(upTo(30));
});

test('a feed that is closed is joined by nobody: its end would look like that of the run', async () => {
  const { feeds, watches } = runWith(2);
  const first = reader(feeds, 0);
  await until(() => first.seqs.length === 2);
  feeds.close();
  const second = reader(feeds, 0);
  await until(() => second.seqs.length === 2);
  expect(watches).toEqual([0, 0]);
  second.close();
  feeds.close();
  await Promise.all([first.done, second.done]);
});
