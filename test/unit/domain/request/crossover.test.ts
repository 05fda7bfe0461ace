/** Two calls that nothing but their id tells apart, and decisions in any order: hazards B-1, B-2, B-3, B-9, B-12. */
import fc from 'fast-check';
import { describe, expect, test } from '@jest/globals';
import type { Decision } from '../../../../contracts/schemas/request.ts';
import { dispatched } from '../../../../domain/request/transitions.ts';
import { callOf, decisionOn, type Run } from '../../../../domain/state/run.ts';
import { approval, rejection, shown } from '../../../support/builders/decision.ts';
import { askingRun, runIds, START } from '../../../support/builders/run.ts';
import { told } from '../../../support/builders/told.ts';
import { forMany } from '../../../support/for-all.ts';

const DEADLINE = START + 3_600_000;
const CALLS = ['t1.c0', 't1.c1'] as const;
const asked = askingRun(2);

interface Sent {
  readonly decision: Decision;
  readonly at: number;
  /** May it count at all, taken alone? */
  readonly sound: boolean;
}

const place = fc.constantFrom(...CALLS);
const early = fc.integer({ min: START, max: DEADLINE - 1 });
/** Few ids, so that some are used twice. */
const decisionId = fc.constantFrom('d-1', 'd-2', 'd-3', 'd-4', 'd-5');

function made(callId: string, approves: boolean, over: Partial<Decision>): Decision {
  // Sound: `over` never holds a kind.
  return { ...(approves ? approval(shown(asked, callId)) : rejection(shown(asked, callId))), ...over } as Decision;
}

const sound = fc
  .record({ callId: place, approves: fc.boolean(), decisionId, at: early })
  .map(({ callId, approves, decisionId: id, at }): Sent => ({
    decision: made(callId, approves, { decisionId: id }),
    at,
    sound: true,
  }));

const unsound = fc
  .record({
    callId: place,
    approves: fc.boolean(),
    decisionId,
    at: early,
    flaw: fc.constantFrom('other digest', 'stale', 'forged', 'late', 'stranger'),
  })
  .map(({ callId, approves, decisionId: id, at, flaw }): Sent => {
    const other = callId === 't1.c0' ? 't1.c1' : 't1.c0';
    const flaws: Record<typeof flaw, Partial<Decision>> = {
      'other digest': { digest: shown(asked, other).digest },
      stale: { digest: shown(asked, callId, runIds({ runId: 'run-0' })).digest },
      forged: { digest: 'f'.repeat(64) },
      late: {},
      stranger: { approver: { id: 'mallory', groups: ['ann'] } },
    };
    return {
      decision: made(callId, approves, { decisionId: id, ...flaws[flaw] }),
      at: flaw === 'late' ? DEADLINE + at - START : at,
      sound: false,
    };
  });

/** What the workflow does with each. */
const receive = (run: Run, { decision, at }: Sent) => told(run, decision, at);

describe('decisions over two identical calls', () => {
  test('each call ends as its own first sound decision says, whatever else arrives, in any order', () => {
    forMany({ numRuns: 300 }, fc.array(fc.oneof(sound, unsound), { maxLength: 20 }), (messages) => {
      let run = asked;
      const first = new Map<string, Decision>();
      const usedIds = new Set<string>();
      for (const message of messages) {
        const { callId, decisionId: id } = message.decision;
        const { run: next, answer } = receive(run, message);
        const counts = message.sound && !first.has(callId) && !usedIds.has(id);
        expect(['approved', 'rejected'].includes(answer)).toBe(counts);
        if (counts) {
          first.set(callId, message.decision);
          usedIds.add(id);
        } else expect(next).toBe(run);
        run = next;
      }
      for (const callId of CALLS) {
        const decision = first.get(callId);
        const expected =
          decision === undefined ? 'waiting-for-consent' : decision.kind === 'approve' ? 'approved' : 'settled';
        const state = callOf(run, callId);
        expect(state?.status).toBe(expected);
        expect(state && decisionOn(state)?.decision).toEqual(decision);
      }
    });
  });

  test('B-4, B-9: a rejected call is never sent, and its sibling is not held back by it', () => {
    for (const [rejected, other] of [CALLS, CALLS.toReversed()] as const) {
      const one = receive(asked, {
        decision: made(rejected ?? '', false, { decisionId: 'd-1' }),
        at: START,
        sound: true,
      });
      const both = receive(one.run, {
        decision: made(other ?? '', true, { decisionId: 'd-2' }),
        at: START,
        sound: true,
      });
      expect(dispatched(both.run, rejected ?? '')).toBeUndefined();
      expect(dispatched(both.run, other ?? '')?.facts).toEqual([
        { kind: 'dispatched', callId: other, attempt: 1, decisionId: 'd-2' },
      ]);
    }
  });

  test('B-12: a decision sent twice lets its call leave once', () => {
    const message = { decision: made('t1.c0', true, {}), at: START, sound: true };
    const once = receive(asked, message);
    const flying = dispatched(once.run, 't1.c0')?.run ?? once.run;
    const twice = receive(flying, message);
    expect(twice).toMatchObject({ run: flying, answer: 'again approved' });
    expect(dispatched(twice.run, 't1.c0')).toBeUndefined();
  });

  test('D-4: the digests of two calls with the same tool and arguments differ', () => {
    expect(shown(asked, 't1.c0').digest).not.toBe(shown(asked, 't1.c1').digest);
  });
});
