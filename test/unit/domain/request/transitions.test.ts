/** How a call comes to its end, and what the ledger keeps of it (INV-G3, INV-D3, D-8). */
import { initiatorRule } from '../../../../domain/policy/approvers.ts';
import { describe, expect, test } from '@jest/globals';
import { defined } from '../../../../contracts/defined.ts';
import type { Outcome } from '../../../../contracts/schemas/call.ts';
import type { DispatchResult } from '../../../../contracts/wire/tools.ts';
import { accept } from '../../../../domain/request/decision.ts';
import { digestOf } from '../../../../domain/request/digest.ts';
import { askedAgain, dispatched, ended, returned } from '../../../../domain/request/transitions.ts';
import { callOf, type Run } from '../../../../domain/state/run.ts';
import { hashOf } from '../../../../domain/text/canonical.ts';
import { identicalCalls } from '../../../support/builders/call.ts';
import { approval, askingOf, rejection, shown } from '../../../support/builders/decision.ts';
import { allowVerdict, approverRule } from '../../../support/builders/judgement.ts';
import { outcomes, toolResult } from '../../../support/builders/outcome.ts';
import { askingRun, judgedRun, proposedRun, runIds, START } from '../../../support/builders/run.ts';

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

/** A consent that no longer holds at dispatch is asked for again (D-5, D-6, H-7). */
describe('asked again', () => {
  const FALLBACK = { approvers: initiatorRule('ann'), deadlineSeconds: 3_600 };
  const LATER = START + 5_000;
  type Reopen = Extract<DispatchResult, { kind: 'reopen' }>;

  function reopen(over: Partial<Reopen> = {}): Reopen {
    return { kind: 'reopen', code: 'VERDICT_STRICTER', message: 'Policy now asks.', ...over };
  }

  /** A call in flight on the consent of `ann`. */
  function consented(): Run {
    const run = askingRun();
    const made = approval(shown(run, 't1.c0'));
    return dispatched(accept(run, askingOf(run, 't1.c0'), made, START).run, 't1.c0')?.run ?? run;
  }

  describe('a reopened request', () => {
    test('is a new generation with a new digest, a new deadline and the reason', () => {
      const first = digestOf(askingOf(askingRun(), 't1.c0'), runIds());
      const { run, facts } = askedAgain(
        consented(),
        't1.c0',
        reopen({ deadlineSeconds: 60 }),
        runIds(),
        FALLBACK,
        LATER,
      );
      const state = askingOf(run, 't1.c0');
      expect(state.request).toEqual({
        generation: 2,
        approvers: approverRule(),
        openedAt: LATER,
        deadline: LATER + 60_000,
        because: 'VERDICT_STRICTER: Policy now asks.',
      });
      const digest = digestOf(state, runIds());
      expect(digest).not.toBe(first);
      expect(facts).toEqual([
        {
          kind: 'request.opened',
          callId: 't1.c0',
          generation: 2,
          digest,
          approvers: approverRule(),
          deadline: new Date(LATER + 60_000).toISOString(),
          because: 'VERDICT_STRICTER: Policy now asks.',
        },
      ]);
    });

    test('drops the consent that no longer holds', () => {
      const { run } = askedAgain(consented(), 't1.c0', reopen(), runIds(), FALLBACK, LATER);
      expect(callOf(run, 't1.c0')).not.toHaveProperty('made');
      expect(dispatched(run, 't1.c0')).toBeUndefined();
    });

    test('asks whom the stricter policy names, else whom the request named, else the fallback', () => {
      const cleared = judgedRun(identicalCalls(1), () => ({ verdict: allowVerdict() }));
      const flying = dispatched(cleared, 't1.c0')?.run ?? cleared;
      const asked = (run: Run, refusal: Reopen): unknown => {
        const { request } = askingOf(askedAgain(run, 't1.c0', refusal, runIds(), FALLBACK, LATER).run, 't1.c0');
        return [request.generation, request.approvers, request.deadline];
      };
      expect(asked(flying, reopen({ approvers: approverRule(['cy']) }))).toEqual([
        1,
        approverRule(['cy']),
        LATER + 3_600_000,
      ]);
      expect(asked(consented(), reopen())).toEqual([2, approverRule(), LATER + 3_600_000]);
      expect(asked(flying, reopen())).toEqual([
        1,
        { allOf: [{ layer: 'default', ids: ['ann'], groups: [] }] },
        LATER + 3_600_000,
      ]);
    });

    test('INV-G2, H-7: of a tool that is another one than was shown is about the new one, in its text and in its digest', () => {
      const again = (over: Partial<Reopen>) =>
        askingOf(askedAgain(consented(), 't1.c0', reopen(over), runIds(), FALLBACK, LATER).run, 't1.c0');
      const shownAgain = (definition: Reopen['definition']) =>
        again({ code: 'DEFINITION_CHANGED', ...defined({ definition }) });
      const hash = 'c'.repeat(64);
      const full = shownAgain({ hash, description: 'Writes and sends a file.', annotations: { readOnlyHint: false } });
      expect(full.judgement).toMatchObject({
        target: { definitionHash: hash },
        description: 'Writes and sends a file.',
        annotations: { readOnlyHint: false },
      });
      expect(digestOf(full, runIds())).not.toBe(digestOf(shownAgain(undefined), runIds()));
      const bare = shownAgain({ hash }).judgement;
      expect(bare.target.definitionHash).toBe(hash);
      expect(bare).not.toHaveProperty('description');
      expect(bare).not.toHaveProperty('annotations');
    });

    test('only a call in flight is asked again', () => {
      const asking = askingRun();
      expect(askedAgain(asking, 't1.c0', reopen(), runIds(), FALLBACK, LATER)).toEqual({ run: asking, facts: [] });
      const over = ended(asking, 't1.c0', outcomes().cancelled).run;
      expect(askedAgain(over, 't1.c0', reopen(), runIds(), FALLBACK, LATER)).toEqual({ run: over, facts: [] });
      expect(askedAgain(asking, 't8.c0', reopen(), runIds(), FALLBACK, LATER)).toEqual({ run: asking, facts: [] });
    });
  });
});

/** A call that may have run once stays "unknown" unless a later attempt says otherwise (INV-X2). */
describe('a call that may have run', () => {
  const CALL = 't1.c0';
  const UNSURE = { kind: 'unknown', code: 'OUTCOME_UNKNOWN', message: 'the answer was lost' } as const;

  /** One attempt was lost, and another one is under way. */
  function sentAgain(unsure: typeof UNSURE | undefined): Run {
    const first = dispatched(
      judgedRun(identicalCalls(1), () => ({ verdict: allowVerdict() })),
      CALL,
    )?.run;
    const back = first === undefined ? undefined : returned(first, CALL, unsure).run;
    const second = back === undefined ? undefined : dispatched(back, CALL)?.run;
    if (second === undefined) throw new Error('an allowed call is sent');
    return second;
  }

  const NOT_RUN: readonly Outcome[] = [
    { kind: 'failed', code: 'TOOL_UNAVAILABLE', message: 'down', executed: false },
    { kind: 'cancelled', reason: 'stopped' },
    { kind: 'denied', code: 'POLICY_DENIED', message: 'no' },
  ];
  const RUN: readonly Outcome[] = [
    { kind: 'succeeded', result: { content: [] } },
    { kind: 'failed', code: 'TOOL_FAILED', message: 'no money', executed: true },
  ];

  test.each(NOT_RUN)('$kind after a lost attempt is unknown, in state and ledger', (outcome) => {
    const { run, facts } = ended(sentAgain(UNSURE), CALL, outcome);
    expect(callOf(run, CALL)).toMatchObject({ outcome: UNSURE });
    expect(facts).toMatchObject([{ kind: 'outcome', outcome: 'unknown' }]);
  });

  test.each(RUN)('$kind after a lost attempt is what it says', (outcome) => {
    expect(callOf(ended(sentAgain(UNSURE), CALL, outcome).run, CALL)).toMatchObject({ outcome });
  });
});
