/** An answer whose receipt got lost is sent again under its id, and told what was taken of it (INV-D3). */
import { describe, expect, test } from '@jest/globals';
import { answersTo, sentUnder } from '../../../../cli/session/consent.ts';
import { CountersignError } from '../../../../contracts/errors.ts';
import type { LedgerFact } from '../../../../contracts/schemas/ledger.ts';
import { ledgerOf } from '../../../support/builders/ledger.ts';

const said = { generation: 1, approver: { id: 'ann', groups: [] }, digest: 'a'.repeat(64), runId: 'r' };
const FACTS: readonly LedgerFact[] = [
  { kind: 'authorization.given', ...said, callId: 't1.c0', decisionId: 'one', answer: 'consent' },
  { kind: 'authorization.given', ...said, callId: 't1.c1', decisionId: 'other', answer: 'decline' },
  { kind: 'outcome.resolved', ...said, callId: 't1.c0', decisionId: 'two', answer: 'retry' },
  { kind: 'input.provided', ...said, callId: 't1.c0', decisionId: 'three', answer: 'provide' },
  { kind: 'authorization.given', ...said, callId: 't1.c0', decisionId: 'four', answer: 'grant' },
];

test.each([
  ['authorization.given', ['one', 'four']],
  ['outcome.resolved', ['two']],
  ['input.provided', ['three']],
] as const)('answers of one kind to one call: %s', (kind, ids) => {
  const before = answersTo('t1.c0', ledgerOf(FACTS), kind);
  expect(before.map(({ fact }) => fact.decisionId)).toEqual(ids);
  expect(before[0]).toMatchObject({ at: expect.any(String), fact: { callId: 't1.c0', approver: { id: 'ann' } } });
});

describe('where nobody knows whether it counts', () => {
  const about = { callId: 't1.c0', decisionId: 'one' };

  test('the id is told', async () => {
    const lost = new CountersignError('RESULT_UNCERTAIN', 'No answer in time.', { runId: 'run-1' });
    const failed = sentUnder('--decision-id one', about, () => Promise.reject(lost));
    await expect(failed).rejects.toMatchObject({
      code: 'RESULT_UNCERTAIN',
      message: 'No answer in time. Here: add --decision-id one',
      facts: { runId: 'run-1', ...about },
    });
  });

  test('other refusals, and answers, are left as they are', async () => {
    const refused = new CountersignError('DIGEST_MISMATCH', 'Read it again.');
    await expect(sentUnder('--decision-id one', about, () => Promise.reject(refused))).rejects.toBe(refused);
    expect(await sentUnder('--decision-id one', about, async () => 'taken')).toBe('taken');
  });
});
