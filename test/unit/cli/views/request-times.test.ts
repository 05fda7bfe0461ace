/** What a person reads of the time of a request before they decide (F-4, F-6). */
import { expect, test } from '@jest/globals';
import { asTime } from '../../../../cli/session/options.ts';
import { plain } from '../../../../cli/session/terminal.ts';
import { requestsAnswer } from '../../../../cli/verbs/requests.ts';
import { entryText } from '../../../../cli/views/ledger.ts';
import { decisionAnswer, requestText } from '../../../../cli/views/request.ts';
import { stateText } from '../../../../cli/views/run.ts';
import type { LedgerFact } from '../../../../contracts/schemas/ledger.ts';
import type { ApproverRule } from '../../../../contracts/schemas/policy.ts';
import { approvalRequest } from '../../../support/builders/approval-request.ts';
import { approverRule, clauseFor } from '../../../support/builders/judgement.ts';
import { acceptedFact, ledgerOf } from '../../../support/builders/ledger.ts';
import { runState } from '../../../support/builders/run.ts';

const LATER = '2026-01-01T02:00:00.000Z';

test('a time names its zone, and becomes UTC', () => {
  expect(asTime('2026-02-01T10:00+01:00')).toBe('2026-02-01T09:00:00.000Z');
  expect(asTime('2026-02-01T09:00:00.5Z')).toBe('2026-02-01T09:00:00.500Z');
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
  const by = { decidedBy: 'ann', decidedAt: LATER };
  const ack = { callId: 't1.c0', decisionId: 'd', status: 'extended' as const, ...by, until: LATER };
  expect(decisionAnswer('run-1', { ack }).text(plain)).toMatch(/^extended .*\n[^]*deadline +2026-01-01 02:00:00Z/);
  const [entry] = ledgerOf([acceptedFact({ decision: 'extend', until: LATER })]);
  if (entry === undefined) throw new Error('one entry');
  expect(entryText(entry, plain)).toContain(`extend until ${LATER} by ann`);
});

test('who decides now and later, and when it is reminded of, is said before and after (F-3)', () => {
  const escalate = { afterSeconds: 3_600, replace: { ids: [], groups: ['heads'] } };
  const approvers = { allOf: [clauseFor(['ann'], { escalate })], remindAfterSeconds: 600 };
  const before = { ...approvalRequest(), approvers, deadline: LATER };
  const seen = (request: typeof before, at: string) => requestText(request, { full: true, now: Date.parse(at) }, plain);
  expect(seen(before, '2026-01-01T00:05:00.000Z')).toMatch(/may decide +ann \(after 1 h only anybody in heads\)\n/);
  expect(seen(before, '2026-01-01T00:05:00.000Z')).toMatch(/reminder +at 2026-01-01 00:10:00Z/);
  const after = { ...before, remindedAt: '2026-01-01T00:10:00.000Z', escalatedAt: '2026-01-01T01:00:00.000Z' };
  const text = seen(after, '2026-01-01T01:00:00.000Z');
  expect(text).toMatch(/may decide +anybody in heads\n/);
  expect(text).toMatch(/others asked +since 2026-01-01 01:00:00Z/);
  expect(text).toMatch(/reminder +was due at 2026-01-01 00:10:00Z/);
});

test('a run says how many of its requests were reminded of', () => {
  expect(stateText(runState({ reminded: 1 }), 0, plain)).toMatch(/reminded +of 1\n/);
  expect(stateText(runState(), 0, plain)).not.toContain('reminded');
});

test('what a ledger says of reminders and escalations is one inert line', () => {
  const hostile = '\u001b[2Jgood\u202eevil';
  const who: ApproverRule = { allOf: [{ layer: 'run', ids: [hostile], groups: [hostile] }] };
  const facts: LedgerFact[] = [
    { kind: 'request.reminded', callId: 't1.c0', generation: 1, deadline: hostile },
    { kind: 'request.escalated', callId: 't1.c0', generation: 2, approvers: who },
  ];
  for (const entry of ledgerOf(facts)) {
    expect(entryText(entry, plain)).not.toMatch(/[^\P{C}]/u);
    expect(entryText(entry, plain)).toContain('\\u{1b}[2Jgood\\u{202e}evil');
  }
});

test('what is suggested is a decision of somebody who may decide by now', () => {
  const clause = clauseFor(['ann']);
  const escalate = { afterSeconds: 60, replace: { ids: ['zoe'], groups: [] } };
  const suggested = (approvers: ApproverRule, who: { as?: string; group?: string[] } = {}): string =>
    requestsAnswer('nightly', [{ ...approvalRequest(), deadline: '2999-01-01T00:00:00.000Z', approvers }], who).text(
      plain,
    );
  expect(suggested({ allOf: [{ ...clause, escalate }] })).toContain(' --as zoe ');
  expect(suggested({ allOf: [clause] })).toContain(' --as ann ');
  // Four eyes: the first of the list may not, the second may.
  expect(suggested({ allOf: [{ ...clause, ids: ['ann', 'ben'], not: ['ann'] }] })).toContain(' --as ben ');
  const ops = { ...clause, ids: [], groups: ['ops'] };
  expect(suggested({ allOf: [ops] })).toContain(' --as YOU --group ops ');
  // People copy the line: nothing in a name is taken for more than a name.
  expect(suggested({ allOf: [{ ...clause, ids: ["acme|$(id)'x"] }] })).toContain(` --as 'acme|$(id)'\\''x' `);
  // Whoever says who they are reads their own command, if they may decide.
  expect(suggested({ allOf: [ops] }, { as: 'eve', group: ['ops'] })).toContain(' --as eve --group ops ');
  expect(suggested({ allOf: [clause] }, { as: 'eve' })).toContain(' --as ann ');
});
