/** How a call comes to its end, and what the ledger keeps of it (INV-G3, INV-D3, D-8). */
import { describe, expect, test } from '@jest/globals';
import { accept } from '../../../../domain/request/decision.ts';
import { ended, returned } from '../../../../domain/request/transitions.ts';
import { callOf } from '../../../../domain/state/run.ts';
import { hashOf } from '../../../../domain/text/canonical.ts';
import { identicalCalls } from '../../../support/builders/call.ts';
import { approval, askingOf, rejection, shown } from '../../../support/builders/decision.ts';
import { allowVerdict } from '../../../support/builders/judgement.ts';
import { outcomes, toolResult } from '../../../support/builders/outcome.ts';
import { askingRun, judgedRun, proposedRun, START } from '../../../support/builders/run.ts';

describe('decisions', () => {
  test('D-8: an approval is recorded with who gave it, for which digest and in which Temporal run', () => {
    const run = askingRun();
    const decision = approval({ ...shown(run, 't1.c0'), comment: 'fine' });
    const change = accept(run, askingOf(run, 't1.c0'), decision, START + 1_000);
    expect(change.ack).toEqual({
      callId: 't1.c0',
      decisionId: 'd-1',
      status: 'approved',
      decidedBy: 'ann',
      decidedAt: '2026-01-01T00:00:01.000Z',
    });
    expect(change.facts).toEqual([
      {
        kind: 'decision.accepted',
        callId: 't1.c0',
        generation: 1,
        decisionId: 'd-1',
        decision: 'approve',
        approver: { id: 'ann', groups: [] },
        digest: decision.digest,
        runId: 'run-1',
        comment: 'fine',
      },
    ]);
  });

  test('an approval without a comment records none', () => {
    const run = askingRun();
    const [fact] = accept(run, askingOf(run, 't1.c0'), approval(shown(run, 't1.c0')), START).facts;
    expect(fact).not.toHaveProperty('comment');
  });

  test('B-13: a rejection settles the call at once and keeps its reason', () => {
    const run = askingRun(2);
    const change = accept(run, askingOf(run, 't1.c0'), rejection(shown(run, 't1.c0')), START);
    expect(callOf(change.run, 't1.c0')).toMatchObject({
      status: 'settled',
      outcome: { kind: 'rejected', by: 'ann', reason: 'not today' },
    });
    expect(change.facts).toMatchObject([
      { kind: 'decision.accepted', decision: 'reject', comment: 'not today' },
      { kind: 'outcome', callId: 't1.c0', outcome: 'rejected' },
    ]);
    expect(callOf(change.run, 't1.c1')).toBe(callOf(run, 't1.c1'));
  });

  test('INV-D3: the last 1,000 are remembered, the oldest goes first', () => {
    let run = askingRun(1);
    for (let index = 0; index <= 1_000; index += 1) {
      const decision = approval({ ...shown(run, 't1.c0'), decisionId: `d-${index}` });
      const { answered } = accept(run, askingOf(run, 't1.c0'), decision, START).run;
      run = { ...run, answered };
    }
    expect(run.answered).toHaveLength(1_000);
    expect(run.answered[0]?.ack.decisionId).toBe('d-1');
    expect(run.answered.at(-1)?.ack.decisionId).toBe('d-1000');
  });
});

describe('the end of a call', () => {
  test('S3.10: a request that closes undecided says how, and then what became of the call', () => {
    const run = askingRun();
    expect(ended(run, 't1.c0', outcomes().expired).facts).toEqual([
      { kind: 'request.closed', callId: 't1.c0', generation: 1, status: 'expired' },
      { kind: 'outcome', callId: 't1.c0', outcome: 'expired', outcomeHash: hashOf(outcomes().expired) },
    ]);
    expect(ended(run, 't1.c0', outcomes().cancelled).facts).toMatchObject([
      { kind: 'request.closed', status: 'cancelled' },
      { kind: 'outcome', outcome: 'cancelled' },
    ]);
  });

  test('F-1: an expired request is remembered after its turn, the last 1,000 of them', () => {
    const run = askingRun();
    const many = {
      ...run,
      expired: Array.from({ length: 1_000 }, (_, index) => ({ callId: `t0.c${index}`, deadline: '' })),
    };
    const { expired } = ended(many, 't1.c0', outcomes().expired).run;
    expect(expired).toHaveLength(1_000);
    expect(expired.at(-1)).toEqual({ callId: 't1.c0', deadline: '2026-01-01T01:00:00.000Z' });
    expect(ended(run, 't1.c0', outcomes().cancelled).run.expired).toEqual([]);
  });

  test('keeps who approved it and what was judged', () => {
    const run = askingRun();
    const approved = accept(run, askingOf(run, 't1.c0'), approval(shown(run, 't1.c0')), START).run;
    expect(callOf(ended(approved, 't1.c0', outcomes().succeeded).run, 't1.c0')).toMatchObject({
      judgement: { verdict: { kind: 'ask' } },
      request: { generation: 1 },
      made: { decision: { approver: { id: 'ann' } } },
    });
  });

  test('of a call that was never judged keeps the call alone', () => {
    const run = ended(proposedRun(identicalCalls(1)), 't1.c0', outcomes().cancelled).run;
    expect(run.calls).toEqual([{ status: 'settled', call: identicalCalls(1)[0], outcome: outcomes().cancelled }]);
  });

  test('a call that nobody knows changes nothing', () => {
    const run = judgedRun();
    expect(ended(run, 't5.c0', outcomes().succeeded)).toEqual({ run, facts: [] });
    expect(returned(run, 't5.c0')).toEqual({ run, facts: [] });
  });

  test('is recorded with code, warnings and token evidence, and a hash of the outcome instead of the outcome', () => {
    const run = judgedRun(identicalCalls(1), () => ({ verdict: allowVerdict() }));
    const result = toolResult({ content: [{ type: 'text', text: 'private' }], warnings: ['output schema violated'] });
    const outcome = { kind: 'failed', code: 'TOOL_FAILED', message: 'disk full', executed: true, result } as const;
    const token = { strategy: 'client-credentials', jti: 'j-1' };
    const { facts } = ended(run, 't1.c0', outcome, token);
    expect(facts).toEqual([
      {
        kind: 'outcome',
        callId: 't1.c0',
        outcome: 'failed',
        code: 'TOOL_FAILED',
        outcomeHash: hashOf(outcome),
        token,
        warnings: ['output schema violated'],
      },
    ]);
    expect(JSON.stringify(facts)).not.toContain('private');
  });
});
