/** Which decisions count, and how each other one is refused (INV-G2, S2.3, S2.6, D-7, F-2). */
import { initiatorRule } from '../../../../domain/policy/approvers.ts';
import fc from 'fast-check';
import { describe, expect, test } from '@jest/globals';
import type { Decision } from '../../../../contracts/schemas/request.ts';
import { accept, type Admission, admit, comparingDecisions, madeInTime } from '../../../../domain/request/decision.ts';
import { askedAgain, dispatched, ended } from '../../../../domain/request/transitions.ts';
import { closeTurn } from '../../../../domain/run/turn.ts';
import { callOf, proposed, type Run } from '../../../../domain/state/run.ts';
import { identicalCalls } from '../../../support/builders/call.ts';
import { approval, askingOf, rejection, shown } from '../../../support/builders/decision.ts';
import { allowVerdict, approverRule, askVerdict } from '../../../support/builders/judgement.ts';
import { outcomes } from '../../../support/builders/outcome.ts';
import { askingRun, judgedRun, runIds, START } from '../../../support/builders/run.ts';

/** When the request of a built run expires. */
const DEADLINE = START + 3_600_000;
const stranger = { id: 'mallory', groups: [] };

function codeOf(admission: Admission): string {
  return admission.kind === 'refuse' ? admission.code : admission.kind;
}

function decide(run: Run, decision: Decision, now = START): Run {
  const admission = admit(run, decision, runIds(), now);
  if (admission.kind !== 'accept') throw new Error(`not accepted: ${codeOf(admission)}`);
  return accept(run, admission.state, decision, now).run;
}

describe('admission', () => {
  const run = askingRun();

  test('a decision that echoes the digest, in time, by an approver, counts', () => {
    expect(admit(run, approval(shown(run, 't1.c0')), runIds(), START)).toEqual({
      kind: 'accept',
      state: askingOf(run, 't1.c0'),
    });
    expect(admit(run, rejection(shown(run, 't1.c0')), runIds(), START).kind).toBe('accept');
  });

  test('S2.3: a call that the run never had is unknown', () => {
    for (const callId of ['t1.c7', 't2.c0', 't99.c0', 'nonsense']) {
      expect(codeOf(admit(run, approval({ ...shown(run, 't1.c0'), callId }), runIds(), START))).toBe('CALL_UNKNOWN');
    }
  });

  test('a call of an earlier turn, and one that never asked, do not wait for a decision', () => {
    const next = proposed(closeTurn(run), identicalCalls(1, 2), { inputTokens: 0, outputTokens: 0 }).run;
    expect(codeOf(admit(next, approval({ callId: 't1.c0' }), runIds(), START))).toBe('REQUEST_NOT_OPEN');
    // No turn has followed yet, or none will: the model thinks, or the run was stopped.
    const over = closeTurn(ended(run, 't1.c0', outcomes().cancelled).run);
    expect(codeOf(admit(over, approval(shown(run, 't1.c0')), runIds(), START))).toBe('REQUEST_NOT_OPEN');
    expect(codeOf(admit(over, approval({ callId: 't2.c0' }), runIds(), START))).toBe('CALL_UNKNOWN');
    const cleared = judgedRun(identicalCalls(1), () => ({ verdict: allowVerdict() }));
    expect(codeOf(admit(cleared, approval(), runIds(), START))).toBe('REQUEST_NOT_OPEN');
    const cancelled = ended(run, 't1.c0', outcomes().cancelled).run;
    expect(codeOf(admit(cancelled, approval(shown(run, 't1.c0')), runIds(), START))).toBe('REQUEST_NOT_OPEN');
  });

  test('any other digest than the one that is shown is refused', () => {
    fc.assert(
      fc.property(fc.stringMatching(/^[0-9a-f]{64}$/), (digest) => {
        expect(codeOf(admit(run, approval({ ...shown(run, 't1.c0'), digest }), runIds(), START))).toBe(
          'DIGEST_MISMATCH',
        );
      }),
    );
  });

  test.each(['namespace', 'workflowId', 'tenant'] as const)('a digest made for another %s is refused', (field) => {
    const elsewhere = approval(shown(run, 't1.c0', runIds({ [field]: 'other' })));
    expect(codeOf(admit(run, elsewhere, runIds(), START))).toBe('DIGEST_MISMATCH');
  });

  test('a digest is that of the Temporal run that the decision names; naming another does not help', () => {
    const elsewhere = shown(run, 't1.c0', runIds({ runId: 'run-0' }));
    expect(codeOf(admit(run, approval(elsewhere), runIds(), START))).toBe('accept');
    expect(codeOf(admit(run, approval({ ...elsewhere, runId: 'run-1' }), runIds(), START))).toBe('DIGEST_MISMATCH');
  });

  test('F-2: at the deadline it is too late, one millisecond before it is not', () => {
    const decision = approval(shown(run, 't1.c0'));
    expect(codeOf(admit(run, decision, runIds(), DEADLINE - 1))).toBe('accept');
    expect(admit(run, decision, runIds(), DEADLINE)).toMatchObject({
      code: 'DECISION_EXPIRED',
      message: expect.stringContaining('2026-01-01T01:00:00.000Z'),
    });
  });

  test('S2.6, D-7: whom the request does not name may not decide, to approve or to reject', () => {
    const refusal = admit(run, approval({ ...shown(run, 't1.c0'), approver: stranger }), runIds(), START);
    expect(refusal).toMatchObject({ code: 'APPROVER_NOT_ENTITLED', facts: { callId: 't1.c0' } });
    expect(codeOf(admit(run, rejection({ ...shown(run, 't1.c0'), approver: stranger }), runIds(), START))).toBe(
      'APPROVER_NOT_ENTITLED',
    );
  });

  test('what is wrong first is said first: call, then digest, then time, then person', () => {
    const wrong = { decisionId: 'd-9', digest: 'f'.repeat(64), approver: stranger };
    const all = approval({ ...shown(run, 't1.c0'), ...wrong });
    expect(codeOf(admit(run, { ...all, callId: 't5.c0' }, runIds(), DEADLINE))).toBe('CALL_UNKNOWN');
    expect(codeOf(admit(run, all, runIds(), DEADLINE))).toBe('DIGEST_MISMATCH');
    expect(codeOf(admit(run, { ...all, ...shown(run, 't1.c0') }, runIds(), DEADLINE))).toBe('DECISION_EXPIRED');
    expect(codeOf(admit(run, { ...all, ...shown(run, 't1.c0') }, runIds(), START))).toBe('APPROVER_NOT_ENTITLED');
  });

  test('a refusal changes nothing', () => {
    const before = JSON.stringify(run);
    admit(run, approval({ ...shown(run, 't1.c0'), approver: stranger }), runIds(), DEADLINE);
    expect(JSON.stringify(run)).toBe(before);
  });
});

describe('a call that was decided', () => {
  const asked = askingRun();
  const first = approval(shown(asked, 't1.c0'));
  const run = decide(asked, first);

  test('S2.3: a second decision is told who decided first, and when', () => {
    const second = rejection({ ...shown(asked, 't1.c0'), decisionId: 'd-2', approver: { id: 'bob', groups: [] } });
    expect(admit(run, second, runIds(), START + 1)).toEqual({
      kind: 'refuse',
      code: 'ALREADY_DECIDED',
      message: 'Call t1.c0 was approved by ann at 2026-01-01T00:00:00.000Z; nothing was changed.',
      facts: { callId: 't1.c0', decidedBy: 'ann', decidedAt: '2026-01-01T00:00:00.000Z' },
    });
  });

  test('it is so in every later state of the call, also after its turn', () => {
    const flying = dispatched(run, 't1.c0')?.run ?? run;
    const over = ended(flying, 't1.c0', outcomes().succeeded).run;
    for (const later of [flying, over, closeTurn(over)]) {
      expect(codeOf(admit(later, { ...first, decisionId: 'd-2' }, runIds(), START))).toBe('ALREADY_DECIDED');
    }
  });

  test('F-1, F-5: one that expired says so, and does not call it denied', () => {
    const expired = ended(asked, 't1.c0', { kind: 'expired', deadline: '2026-01-01T01:00:00.000Z' }).run;
    const message = 'The request for call t1.c0 expired at 2026-01-01T01:00:00.000Z; nothing was changed.';
    for (const later of [expired, closeTurn(expired)]) {
      expect(admit(later, { ...first, decisionId: 'd-3' }, runIds(), DEADLINE)).toMatchObject({
        code: 'DECISION_EXPIRED',
        message,
      });
    }
  });

  test('one that was approved, asked again and then expired says that it expired, not that it was approved', () => {
    const reopen = { kind: 'reopen', code: 'DEFINITION_CHANGED', message: 'The tool changed.' } as const;
    const flying = dispatched(run, 't1.c0')?.run ?? run;
    const again = askedAgain(
      flying,
      't1.c0',
      reopen,
      runIds(),
      { approvers: initiatorRule('ann'), deadlineSeconds: 60 },
      START,
    ).run;
    const expired = ended(again, 't1.c0', { kind: 'expired', deadline: '2026-01-01T00:01:00.000Z' }).run;
    const late = approval({ ...shown(again, 't1.c0'), decisionId: 'd-2' });
    expect(codeOf(admit(expired, late, runIds(), DEADLINE))).toBe('DECISION_EXPIRED');
  });
});

describe('a decision that is sent again', () => {
  const asked = askingRun(2);
  const approve = approval(shown(asked, 't1.c0'));
  const first = accept(asked, askingOf(asked, 't1.c0'), approve, START);

  test('INV-D3: gets its first answer, whatever has happened since', () => {
    const flying = dispatched(first.run, 't1.c0')?.run ?? first.run;
    const over = closeTurn(ended(flying, 't1.c0', outcomes().succeeded).run);
    for (const later of [first.run, flying, over]) {
      expect(admit(later, approve, runIds(), DEADLINE + 1)).toEqual({ kind: 'repeat', ack: first.ack });
    }
  });

  test('INV-D3: also after the run was carried into its next execution', () => {
    const carried = JSON.parse(JSON.stringify(first.run)) as Run;
    expect(admit(carried, approve, runIds(), START)).toEqual({ kind: 'repeat', ack: first.ack });
  });

  test('its id is no key to another decision: other content under a used id is refused by name', () => {
    const { digest } = shown(asked, 't1.c1');
    const others: Decision[] = [
      { ...approve, callId: 't1.c1', digest },
      { ...approve, digest },
      { ...approve, approver: { id: 'bob', groups: [] } },
      rejection({ ...shown(asked, 't1.c0') }),
    ];
    for (const other of others) {
      const refusal = admit(first.run, other, runIds(), START);
      expect(refusal).toMatchObject({ code: 'DECISION_INVALID', facts: { callId: other.callId, path: 'decisionId' } });
    }
    expect(callOf(first.run, 't1.c1')?.status).toBe('waiting-for-consent');
  });
});

describe('a decision id stands for one decision with all that it says', () => {
  const asked = comparingDecisions(askingRun(2));
  const approve = approval({ ...shown(asked, 't1.c0'), comment: 'checked' });
  const first = accept(asked, askingOf(asked, 't1.c0'), approve, START);
  const others: readonly (readonly [string, Decision])[] = [
    ['comment', { ...approve, comment: 'not checked' }],
    ['person', { ...approve, approver: { id: 'bob', groups: [] } }],
    ['group', { ...approve, approver: { id: 'ann', groups: ['ops'] } }],
    ['call', { ...approve, ...shown(asked, 't1.c1') }],
    ['kind', rejection(shown(asked, 't1.c0'))],
    ['scope', { ...approve, remember: { scope: 'tool' } }],
    ['proposal', { ...approve, arguments: {} }],
    ['Temporal run', { ...approve, runId: 'run-0' }],
  ];

  test.each(others)('another %s under it is refused', (_what, other) => {
    expect(admit(first.run, other, runIds(), START)).toMatchObject({
      kind: 'refuse',
      code: 'DECISION_INVALID',
      facts: { path: 'decisionId' },
    });
  });

  test('the same is answered as it was, carried or not, and however often it is signed', () => {
    const carried = JSON.parse(JSON.stringify(first.run)) as Run;
    for (const signature of ['one', 'another']) {
      const again = { ...approve, signature };
      expect(admit(carried, again, runIds(), START)).toEqual({ kind: 'repeat', ack: first.ack });
    }
    expect(admit(first.run, approve, runIds(), DEADLINE + 1)).toEqual({ kind: 'repeat', ack: first.ack });
  });

  test('a short hash is kept of it, and nothing else: it is carried', () => {
    expect(first.run.answered).toEqual([{ ack: first.ack, message: expect.stringMatching(/^[0-9a-f]{32}$/) }]);
  });

  test('a run that was prepared before takes another comment for the first, as it did', () => {
    const earlier = askingRun(2);
    const { run, ack } = accept(earlier, askingOf(earlier, 't1.c0'), approve, START);
    expect(admit(run, { ...approve, comment: 'not checked' }, runIds(), START)).toEqual({ kind: 'repeat', ack });
    expect(JSON.stringify(run)).not.toContain('decisionIds');
  });
});

describe('the Temporal run in which a decision was made', () => {
  test('INV-G2: counts only if it is one of those of the chain', () => {
    expect(madeInTime(approval({ runId: 'r2' }), ['r1', 'r2'])).toBeUndefined();
    expect(madeInTime(approval({ runId: 'r0' }), ['r1', 'r2'])).toMatchObject({
      kind: 'refuse',
      code: 'DECISION_STALE_RUN',
      facts: { callId: 't1.c0' },
      message: expect.stringContaining('r0'),
    });
  });
});

test('of an approver’s groups only those are kept that the rule names: a run carries what it keeps', () => {
  const verdict = askVerdict({ approvers: approverRule([], ['ops', 'sec']) });
  const asked = judgedRun(identicalCalls(1), () => ({ verdict }));
  const approver = { id: 'zoe', groups: ['a', 'sec', 'b'] };
  const decision = approval({ ...shown(asked, 't1.c0'), approver });
  const { run, facts } = accept(asked, askingOf(asked, 't1.c0'), decision, START);
  expect(callOf(run, 't1.c0')).toMatchObject({
    consent: { made: { decision: { approver: { id: 'zoe', groups: ['sec'] } } } },
  });
  expect(facts).toMatchObject([{ kind: 'decision.accepted', approver: { id: 'zoe', groups: ['sec'] } }]);
});
