/** What a run keeps of servers' questions has a bound over all its calls: it must be able to continue as new (INV-D3). */
import { describe, expect, test } from '@jest/globals';
import { ANSWER_ROOM_BYTES, askedBytes, MOST_ASKED_BYTES } from '../../../../domain/request/input.ts';
import { askedForInput, refuseProvision } from '../../../../domain/request/provision.ts';
import { dispatched, ended } from '../../../../domain/request/transitions.ts';
import { callOf, type Run } from '../../../../domain/state/run.ts';
import { byteLength, canonicalJson } from '../../../../domain/text/canonical.ts';
import { identicalCalls } from '../../../support/builders/call.ts';
import { allowVerdict } from '../../../support/builders/judgement.ts';
import { flyingRun, pausing } from '../../../support/builders/pause.ts';
import { askedOf, askedRun, NAME, providedRun, provisionIn, serverAsks } from '../../../support/builders/provision.ts';
import { judgedRun, runIds } from '../../../support/builders/run.ts';

const LONG = { requests: { who: { ...NAME, message: 'x'.repeat(30_000) } } };

function flying(calls: number): Run {
  const judged = judgedRun(identicalCalls(calls), () => ({ verdict: allowVerdict() }));
  return judged.calls.reduce((run, { call }) => dispatched(run, call.callId)?.run ?? run, judged);
}

/** Every call is asked about, one after the other. */
function allAsked(calls: number): Run {
  const run = flying(calls);
  return run.calls.reduce(
    (next, { call }) => askedForInput(next, call.callId, serverAsks(LONG), pausing(), runIds()).run,
    run,
  );
}

describe('bytes that servers asked in', () => {
  test('are counted for what is open: questions, state, answers; nothing of calls without, or that have ended', () => {
    expect(askedBytes(flyingRun())).toBe(0);
    const asked = askedRun();
    const bare = askedBytes(asked);
    expect(bare).toBe(byteLength(canonicalJson([askedOf(asked).request.about, askedOf(asked).input])));
    expect(askedBytes(providedRun(asked))).toBeGreaterThan(0);
    expect(askedBytes(ended(asked, 't1.c0', { kind: 'cancelled', reason: 'x' }).run)).toBe(0);
  });

  test('have a bound over all calls of a run: what is over it is not asked, and its outcome is said to be unknown', () => {
    const run = allAsked(16);
    expect(askedBytes(run)).toBeLessThanOrEqual(MOST_ASKED_BYTES);
    const statuses = run.calls.map(({ status }) => status);
    expect(new Set(statuses)).toEqual(new Set(['waiting-for-answer', 'settled']));
    // As many as fit.
    const each = askedBytes(allAsked(1));
    expect(statuses.filter((status) => status === 'waiting-for-answer')).toHaveLength(
      Math.floor(MOST_ASKED_BYTES / each),
    );
    expect(callOf(run, 't1.c15')).toMatchObject({
      outcome: {
        kind: 'unknown',
        code: 'OUTCOME_UNKNOWN',
        message: expect.stringContaining('more than this run can keep'),
      },
    });
  });

  test('leave room for answers, and not more', () => {
    const asked = askedRun();
    const crowded = allAsked(16);
    expect(refuseProvision(crowded, askedOf(asked), provisionIn(asked))).toBeUndefined();
    const wordy = (length: number) =>
      provisionIn(asked, { responses: { who: { action: 'accept', content: { name: 'x'.repeat(length) } } } });
    const room = MOST_ASKED_BYTES + ANSWER_ROOM_BYTES - askedBytes(crowded);
    const own = byteLength(canonicalJson(wordy(0)));
    // A run whose open calls take what is left but for one answer.
    const full: Run = {
      ...crowded,
      calls: [...crowded.calls, ...allAsked(Math.floor(room / askedBytes(allAsked(1)))).calls],
    };
    const left = MOST_ASKED_BYTES + ANSWER_ROOM_BYTES - askedBytes(full) - own;
    expect(refuseProvision(full, askedOf(asked), wordy(left))).toBeUndefined();
    expect(refuseProvision(full, askedOf(asked), wordy(left + 1))).toMatchObject({
      code: 'LIMIT_REACHED',
      message: expect.stringContaining('all open calls'),
    });
  });
});
