/** Entries are read from one on that there may be. */
import { expect, test } from '@jest/globals';
import { entriesFrom } from '../../../../client/ledger/ledger.ts';
import { chainOf } from '../../../support/builders/ledger-record.ts';
import { withCode } from '../../../support/refusal.ts';

const CHAIN = chainOf(3);
const source = { workflowId: 'run-1', artifacts: undefined };
const page = async (from: number) =>
  await Promise.resolve({ from: Math.max(0, from), entries: CHAIN.slice(Math.max(0, from)), total: 3, head: '' });

test.each([-1, 0.5, Number.NaN, Number.POSITIVE_INFINITY])(
  'from %d on: the caller is told so, and not that the store is damaged',
  async (from) => {
    await expect(entriesFrom(source, from, page).next()).rejects.toMatchObject(withCode('USAGE', 'a whole number'));
  },
);
