/** What a person reads of the time of a request before they decide (F-4, F-6). */
import { expect, test } from '@jest/globals';
import { time } from '../../../cli/options.ts';
import { plain } from '../../../cli/terminal.ts';
import { decisionAnswer } from '../../../cli/views/decision.ts';
import { entryText } from '../../../cli/views/ledger.ts';
import { requestText } from '../../../cli/views/request.ts';
import { approvalRequest } from '../../support/builders/approval-request.ts';
import { approverRule } from '../../support/builders/judgement.ts';
import { ledgerOf } from '../../support/builders/ledger.ts';

const LATER = '2026-01-01T02:00:00.000Z';

test('a time names its zone, and becomes UTC', () => {
  expect(time('2026-02-01T10:00+01:00')).toBe('2026-02-01T09:00:00.000Z');
  expect(time('2026-02-01T09:00:00.5Z')).toBe('2026-02-01T09:00:00.500Z');
});

test('a request says how long it may wait, who postponed it, and how long an approval holds', () => {
  const request = approvalRequest();
  const timed = {
    ...request,
    openedAt: '2026-01-01T00:00:00.000Z',
    deadline: LATER,
    approvers: { ...approverRule(), validForSeconds: 600, extendableToSeconds: 10_800 },
    extensions: [{ approver: { id: 'ann', groups: [] }, at: '2026-01-01T00:30:00.000Z', until: LATER }],
  };
  const text = requestText(timed, { full: true, now: Date.parse('2026-01-01T01:00:00.000Z') }, plain);
  expect(text).toContain('to 2026-01-01 02:00:00Z by ann at 2026-01-01 00:30:00Z');
  expect(text).toContain('until 2026-01-01 03:00:00Z, where somebody postpones the deadline');
  expect(text).toContain('for 10 min after the last approval');
  const untimed = requestText(request, { full: true, now: 0 }, plain);
  for (const row of ['postponed', 'may wait', 'holds']) expect(untimed).not.toContain(row);
});

test('who postponed a deadline is told the new one; the ledger has it in its line', () => {
  const ack = {
    callId: 't1.c0',
    decisionId: 'd',
    status: 'extended' as const,
    decidedBy: 'ann',
    decidedAt: LATER,
    until: LATER,
  };
  expect(decisionAnswer('run-1', { ack }).text(plain)).toMatch(/^extended .*\n[^]*deadline +2026-01-01 02:00:00Z/);
  const approver = { id: 'ann', groups: [] };
  const hash = 'a'.repeat(64);
  const fact = {
    kind: 'decision.accepted',
    callId: 't1.c0',
    generation: 1,
    decisionId: 'd',
    runId: 'r',
    digest: hash,
  } as const;
  const [entry] = ledgerOf([{ ...fact, decision: 'extend', approver, until: LATER }]);
  if (entry === undefined) throw new Error('one entry');
  expect(entryText(entry, plain)).toContain(`extend until ${LATER} by ann`);
});
