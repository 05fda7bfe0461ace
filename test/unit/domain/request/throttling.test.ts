/** A call that its server holds back: no attempt is counted, time bounds it, and a person who lets it run anew starts that time anew. */
import { initiatorRule } from '../../../../domain/policy/approvers.ts';
import { expect, test } from '@jest/globals';
import type { DispatchResult } from '../../../../contracts/wire/tools.ts';
import {
  attemptsOf,
  isPutOff,
  putOff,
  throttledBy,
  type Throttling,
  isThrottling,
  shownThrottled,
  throttledCalls,
  waitedOut,
} from '../../../../domain/request/throttling.ts';
import { askedAgain, dispatched, ended, returned } from '../../../../domain/request/transitions.ts';
import { heard, interrupted } from '../../../../domain/run/message-queue.ts';
import { callOf, type Change, type InFlight, type Run } from '../../../../domain/state/run.ts';
import { currentDetails } from '../../../../domain/views/temporal-ui.ts';
import { say } from '../../../support/builders/decision.ts';
import { allowVerdict } from '../../../support/builders/judgement.ts';
import { judgedRun, runIds, START } from '../../../support/builders/run.ts';

const CALL = 't1.c0';
const FALLBACK = { approvers: initiatorRule('ann'), deadlineSeconds: 3_600 };

function holding(over: Partial<Throttling> = {}): Throttling {
  return {
    kind: 'not-sent',
    code: 'TOOL_RATE_LIMITED',
    message: 'Server "files" takes 2 calls at once.',
    retryAfterMs: 2_000,
    held: { by: 'concurrency', atMostSeconds: 60 },
    ...over,
  };
}

const allowed = judgedRun(undefined, () => ({ verdict: allowVerdict() }));

/** Sent, and so in flight. */
function sent(run: Run): { readonly run: Run; readonly flight: InFlight } {
  const change = dispatched(run, CALL);
  if (change === undefined) throw new Error('it may not be sent');
  // Sound: `dispatched` answered.
  return { run: change.run, flight: callOf(change.run, CALL) as InFlight };
}

function held(run: Run, at: number, over: Partial<Throttling> = {}): Change {
  return throttledBy(sent(run).run, CALL, holding(over), at);
}

test('only an activity that says so holds a call', () => {
  const plain: DispatchResult = { kind: 'not-sent', code: 'TOOL_UNAVAILABLE', message: 'no', retryAfterMs: 5 };
  expect(isThrottling(plain)).toBe(false);
  expect(isThrottling({ kind: 'ended', outcome: { kind: 'cancelled', reason: 'no' } })).toBe(false);
  expect(isThrottling(holding())).toBe(true);
});

test('it goes back to where it came from, and waits; the ledger says so once for each reason', () => {
  const first = held(allowed, START);
  expect(first.facts).toEqual([{ kind: 'held', callId: CALL, by: 'concurrency', code: 'TOOL_RATE_LIMITED' }]);
  expect(callOf(first.run, CALL)).toMatchObject({
    status: 'throttled',
    attempts: 1,
    holds: { count: 1, since: START, by: 'concurrency' },
    wait: { until: START + 2_000, by: 'concurrency' },
  });
  const second = held(first.run, START + 2_000);
  expect(second.facts).toEqual([]);
  const third = held(second.run, START + 4_000, { held: { by: 'breaker', atMostSeconds: 60 } });
  expect(third.facts).toMatchObject([{ by: 'breaker' }]);
  expect(callOf(third.run, CALL)).toMatchObject({ attempts: 3, holds: { count: 3, since: START, by: 'breaker' } });
});

test('being held is no attempt', () => {
  const { flight: first } = sent(allowed);
  expect(attemptsOf(first)).toBe(1);
  const { flight: again, run } = sent(held(held(allowed, START).run, START + 1).run);
  expect([again.attempts, attemptsOf(again)]).toEqual([3, 1]);
  const { flight: really } = sent(returned(run, CALL).run);
  expect([really.attempts, attemptsOf(really)]).toEqual([4, 2]);
});

test('while it is under way, and after it was really sent, it is not held', () => {
  const { run } = sent(held(allowed, START).run);
  expect(throttledCalls(run)).toEqual([]);
  const [back] = returned(run, CALL).run.calls;
  expect(back?.status).toBe('cleared');
  expect(throttledBy(allowed, CALL, holding(), START)).toEqual({ run: allowed, facts: [] });
  expect(throttledBy(allowed, 't9.c9', holding(), START)).toEqual({ run: allowed, facts: [] });
});

test('it waits so long and no longer, and at the end asks once more', () => {
  let { run } = held(allowed, START);
  expect(waitedOut(sent(run).flight, holding(), START + 59_999)).toBeUndefined();
  ({ run } = held(run, START + 59_000));
  expect(callOf(run, CALL)).toMatchObject({ wait: { until: START + 60_000 } });
  expect(waitedOut(sent(run).flight, holding(), START + 60_000)).toBe(
    'Server "files" takes 2 calls at once. It waited 60 s for its turn and was not sent.',
  );
  expect(waitedOut(sent(allowed).flight, holding(), START + 90_000)).toBeUndefined();
});

test('where no time is named it waits a second, and never none', () => {
  const { retryAfterMs: _, ...unnamed } = holding();
  const { run } = sent(allowed);
  expect(callOf(throttledBy(run, CALL, unnamed, START).run, CALL)).toMatchObject({ wait: { until: START + 1_000 } });
  expect(callOf(throttledBy(run, CALL, holding({ retryAfterMs: 0 }), START).run, CALL)).toMatchObject({
    wait: { until: START + 1 },
  });
});

test('asked again, it is let run anew: its time begins with the next wait, and its attempts count from the answer on', () => {
  const reopen = { kind: 'reopen', code: 'VERDICT_STRICTER', message: 'Policy changed.' } as const;
  const { run } = sent(held(allowed, START).run);
  const asked = callOf(askedAgain(run, CALL, reopen, runIds(), FALLBACK, START).run, CALL);
  expect(asked).toMatchObject({ status: 'waiting-for-consent', attempts: 2, holds: { count: 2 } });
  expect(asked).not.toHaveProperty('holds.since');
  const asBefore = callOf(askedAgain(run, CALL, reopen, runIds(), FALLBACK, START, false).run, CALL);
  expect(asBefore).toMatchObject({ status: 'waiting-for-consent', attempts: 2, holds: { count: 1 } });
});

test('people read for what it waits, also in Temporal UI, and nothing once it is settled', () => {
  const { run } = held(allowed, START);
  expect(throttledCalls(run).map(shownThrottled)).toEqual([
    {
      callId: CALL,
      server: 'files',
      tool: 'write_file',
      by: 'concurrency',
      because: 'Server "files" takes 2 calls at once.',
      since: '2026-01-01T00:00:00.000Z',
      next: '2026-01-01T00:00:02.000Z',
    },
  ]);
  expect(currentDetails('acting', run)).toMatch(/held back by limits of a server[^]*t1\.c0[^]*takes 2 calls at once/);
  const over = ended(run, CALL, { kind: 'cancelled', reason: 'stopped' }).run;
  expect(throttledCalls(over)).toEqual([]);
  expect(currentDetails('acting', over)).not.toContain('held back');
});

test('a message that interrupts withdraws it: nothing new leaves before the message is read', () => {
  const { run } = held(allowed, START);
  const { run: after, facts } = heard(run, say({ from: 'bob', interrupt: true }));
  expect(callOf(after, CALL)).toMatchObject({ status: 'settled', outcome: { kind: 'cancelled' } });
  expect(facts).toMatchObject([{ kind: 'said' }, { kind: 'outcome', outcome: 'cancelled' }]);
  // Also one that is held back while the message waits.
  const late = throttledBy(
    heard(sent(allowed).run, say({ from: 'bob', interrupt: true })).run,
    CALL,
    holding(),
    START,
  ).run;
  expect(interrupted(late).run.calls).toMatchObject([{ status: 'settled' }]);
});

test('a server that wants longer than our own waits has its call wait until then; the attempt stays counted', () => {
  const wanted = { kind: 'not-sent', code: 'TOOL_RATE_LIMITED', message: 'Later.', retryAfterMs: 60_001 } as const;
  const { retryAfterMs: _, ...soon } = wanted;
  expect([wanted, { ...wanted, retryAfterMs: 60_000 }, soon].map(isPutOff)).toEqual([true, false, false]);
  const { run, flight } = sent(allowed);
  const change = putOff(run, CALL, wanted, START);
  expect(change.facts).toEqual([{ kind: 'held', callId: CALL, by: 'retry-after', code: 'TOOL_RATE_LIMITED' }]);
  expect(callOf(change.run, CALL)).toMatchObject({
    status: 'throttled',
    wait: { since: START, until: START + 60_001, by: 'retry-after', message: 'Later.' },
  });
  expect(attemptsOf(sent(change.run).flight)).toBe(attemptsOf(flight) + 1);
  expect(putOff(allowed, CALL, wanted, START)).toEqual({ run: allowed, facts: [] });
});

test('a call that its server put off has its whole time to wait for a turn again', () => {
  const first = held(allowed, START);
  const wanted = { kind: 'not-sent', code: 'TOOL_RATE_LIMITED', message: 'Later.', retryAfterMs: 3_600_000 } as const;
  const later = START + wanted.retryAfterMs;
  const before = sent(first.run).flight;
  const { flight } = sent(putOff(sent(first.run).run, CALL, wanted, START).run);
  expect(waitedOut(before, holding(), later)).toBeDefined();
  expect(waitedOut(flight, holding(), later)).toBeUndefined();
  // The dispatch that was throttled is still no attempt.
  expect(attemptsOf(flight)).toBe(attemptsOf(before) + 1);
});
