/** The life of one call, against a reference model: INV-G1, INV-G2, INV-G3. */
import { initiatorRule } from '../../../../domain/policy/approvers.ts';
import fc from 'fast-check';
import { describe, expect, test } from '@jest/globals';
import { accept, admit } from '../../../../domain/request/decision.ts';
import { askedAgain, dispatched, ended, returned } from '../../../../domain/request/transitions.ts';
import { callOf, type CallState, type CallStatus, judged, type Run } from '../../../../domain/state/run.ts';
import { identicalCalls, proposedCall } from '../../../support/builders/call.ts';
import { approval, rejection, shown } from '../../../support/builders/decision.ts';
import { allowVerdict, askVerdict, judgement } from '../../../support/builders/judgement.ts';
import { outcomes } from '../../../support/builders/outcome.ts';
import { judgedRun, runIds, START } from '../../../support/builders/run.ts';
import { forAll, forMany } from '../../../support/for-all.ts';

const FALLBACK = { approvers: initiatorRule('ann'), deadlineSeconds: 3_600 };
const REOPEN = { kind: 'reopen', code: 'DEFINITION_CHANGED', message: 'The tool changed.' } as const;

const EVENTS = ['approve', 'reject', 'dispatch', 'not sent', 'reopen', 'expire', 'succeed', 'cancel'] as const;
type EventName = (typeof EVENTS)[number];
const ENDS = { expire: 'settled', succeed: 'settled', cancel: 'settled' } as const;

/** What a reader of the specification would expect: a table, and nothing else. `not sent` goes back to where it came from. */
const TABLE: Readonly<Record<CallStatus, Partial<Record<EventName, CallStatus>>>> = {
  proposed: ENDS,
  cleared: { ...ENDS, dispatch: 'in-flight' },
  'waiting-for-consent': { ...ENDS, approve: 'approved', reject: 'settled' },
  approved: { ...ENDS, dispatch: 'in-flight', reopen: 'waiting-for-consent' },
  'in-flight': { ...ENDS, 'not sent': 'cleared', reopen: 'waiting-for-consent' },
  // No event of this table leads to these; `pause.test.ts`, `held.test.ts`, `held-input.test.ts` and
  // `server-task.test.ts` have them.
  'waiting-for-answer': {},
  throttled: {},
  'asking-on-connection': {},
  'on-task': {},
  settled: {},
};

/** The event as the workflow would bring it about; a refused or impossible one gives the run back as it was. */
function happen(run: Run, event: EventName, callId: string, decisionId: string): Run {
  switch (event) {
    case 'approve':
    case 'reject': {
      if (callOf(run, callId)?.status !== 'waiting-for-consent') return run;
      const made =
        event === 'approve'
          ? approval({ decisionId, ...shown(run, callId) })
          : rejection({ decisionId, ...shown(run, callId) });
      const admission = admit(run, made, runIds(), START);
      return admission.kind === 'accept' ? accept(run, admission.state, made, START).run : run;
    }
    case 'dispatch':
      return dispatched(run, callId)?.run ?? run;
    case 'not sent':
      return returned(run, callId).run;
    case 'reopen':
      return askedAgain(run, callId, REOPEN, runIds(), FALLBACK, START).run;
    case 'expire':
      return ended(run, callId, outcomes().expired).run;
    case 'succeed':
      return ended(run, callId, outcomes().succeeded).run;
    case 'cancel':
      return ended(run, callId, outcomes().cancelled).run;
  }
}

/** Three calls of one tool with equal arguments: two are asked, one is allowed. */
function mixedRun(): Run {
  return judgedRun(identicalCalls(3), (_call, index) => ({ verdict: index === 2 ? allowVerdict() : askVerdict() }));
}

function statesOf(run: Run): Record<string, CallState> {
  return Object.fromEntries(run.calls.map((state) => [state.call.callId, state]));
}

const story = fc.array(
  fc.record({ event: fc.constantFrom(...EVENTS), callId: fc.constantFrom('t1.c0', 't1.c1', 't1.c2', 't9.c9') }),
  { maxLength: 40 },
);

describe('a call', () => {
  test('goes through its states as the table says, and INV-G3: no event of one call touches another', () => {
    forMany({ numRuns: 200 }, story, (events) => {
      let run = mixedRun();
      const consented = new Set<string>();
      for (const [index, { event, callId }] of events.entries()) {
        const before = statesOf(run);
        run = happen(run, event, callId, `d-${index}`);
        const after = statesOf(run);
        for (const [id, state] of Object.entries(before)) if (id !== callId) expect(after[id]).toBe(state);
        const state = before[callId];
        if (state === undefined) continue;
        const next = TABLE[state.status][event] ?? state.status;
        expect(after[callId]?.status).toBe(next === 'cleared' && consented.has(callId) ? 'approved' : next);
        if (event === 'approve' && state.status === 'waiting-for-consent') consented.add(callId);
        if (event === 'reopen' && (state.status === 'in-flight' || state.status === 'approved'))
          consented.delete(callId);
      }
    });
  });

  test('INV-G2: once settled, it never changes again', () => {
    forAll(
      story,
      fc.constantFrom('t1.c0', 't1.c2'),
      fc.constantFrom('expire', 'succeed', 'cancel'),
      (events, callId, how) => {
        const settled = happen(mixedRun(), how, callId, 'first');
        const later = events.reduce((run, { event }, index) => happen(run, event, callId, `d-${index}`), settled);
        expect(callOf(later, callId)).toBe(callOf(settled, callId));
      },
    );
  });

  test('INV-G1: it is in flight only after policy cleared it or a person approved this generation of it', () => {
    forMany({ numRuns: 100 }, story, (events) => {
      let run = mixedRun();
      for (const [index, { event, callId }] of events.entries()) {
        const before = callOf(run, callId);
        run = happen(run, event, callId, `d-${index}`);
        const after = callOf(run, callId);
        if (after?.status !== 'in-flight' || before?.status === 'in-flight') continue;
        if (before?.status === 'approved') {
          expect(after.consent).toBe(before.consent);
          expect(after.consent?.made.decision.kind).toBe('approve');
        } else {
          expect(before).toMatchObject({ status: 'cleared', judgement: { verdict: { kind: 'allow' } } });
          expect(after.consent).toBeUndefined();
        }
      }
    });
  });

  test('D-3: each dispatch is counted, so that no attempt passes for an earlier one', () => {
    let run = judgedRun(identicalCalls(1), () => ({ verdict: allowVerdict() }));
    for (const attempt of [1, 2, 3]) {
      const change = dispatched(run, 't1.c0');
      expect(change?.facts).toEqual([{ kind: 'dispatched', callId: 't1.c0', attempt }]);
      run = returned(change?.run ?? run, 't1.c0').run;
    }
    expect(callOf(run, 't1.c0')).toMatchObject({ status: 'cleared', attempts: 3 });
  });

  test('D-3: what was proven not to be sent keeps its consent and leaves again on it, counted', () => {
    const approved = happen(mixedRun(), 'approve', 't1.c0', 'd-1');
    const back = happen(happen(approved, 'dispatch', 't1.c0', ''), 'not sent', 't1.c0', '');
    expect(callOf(back, 't1.c0')).toEqual({ ...callOf(approved, 't1.c0'), attempts: 1 });
    expect(dispatched(back, 't1.c0')?.facts).toEqual([
      { kind: 'dispatched', callId: 't1.c0', attempt: 2, decisionId: 'd-1' },
    ]);
  });

  test('a call that may not leave is not sent: dispatching it gives nothing', () => {
    expect(dispatched(mixedRun(), 't1.c0')).toBeUndefined();
    expect(dispatched(mixedRun(), 't7.c7')).toBeUndefined();
  });
});

describe('a verdict', () => {
  test.each([
    ['allow', allowVerdict()],
    ['ask', askVerdict()],
  ])('INV-G4: %s for a tool that was not resolved is a denial', (_kind, verdict) => {
    const { target: _target, ...unresolved } = judgement({ verdict });
    expect(judged(proposedCall(), judgement({ verdict }), START).status).not.toBe('settled');
    expect(judged(proposedCall(), unresolved, START)).toMatchObject({
      status: 'settled',
      outcome: { kind: 'denied', code: 'TOOL_UNKNOWN' },
    });
  });
});
