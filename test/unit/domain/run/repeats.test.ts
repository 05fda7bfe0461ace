/** A refused call that is proposed again is answered without asking; equal calls of one turn are told apart (B-14, INV-G3, INV-X2). */
import { initiatorRule } from '../../../../domain/policy/approvers.ts';
import fc from 'fast-check';
import { describe, expect, test } from '@jest/globals';
import { callIdOf } from '../../../../contracts/names.ts';
import type { Judgement, Outcome, ProposedCall } from '../../../../contracts/schemas/call.ts';
import { askedAgain, dispatched, ended } from '../../../../domain/request/transitions.ts';
import { heard, unqueued } from '../../../../domain/run/message-queue.ts';
import { closeTurn, judgedAll, MOST_REFUSALS, remembering } from '../../../../domain/run/turn.ts';
import { isSettled, proposed, type Run, startRun } from '../../../../domain/state/run.ts';
import { currentDetails, pendingMemo } from '../../../../domain/views/temporal-ui.ts';
import { proposedCall } from '../../../support/builders/call.ts';
import { say } from '../../../support/builders/decision.ts';
import { allowVerdict, denyVerdict, judgement } from '../../../support/builders/judgement.ts';
import { outcomes } from '../../../support/builders/outcome.ts';
import { POLICY_VERSION, runIds, START } from '../../../support/builders/run.ts';
import { toolTarget } from '../../../support/builders/tool.ts';

const { rejected, expired, cancelled, succeeded } = outcomes();
const SILENT = { inputTokens: 0, outputTokens: 0 };

/** A turn of calls that differ by `path` only, judged. */
function turnOf(run: Run, paths: readonly string[], over: Partial<Judgement> = {}) {
  const turn = run.turn + 1;
  const calls = paths.map((path, index): ProposedCall =>
    proposedCall({ callId: callIdOf(turn, index), arguments: { path } }),
  );
  const judgements = calls.map(({ callId }) => judgement({ callId, ...over }));
  return judgedAll(proposed(run, calls, SILENT).run, judgements, POLICY_VERSION, runIds(), START);
}

/** Every open call of the turn ends so, and the turn closes. */
function closedWith(run: Run, outcome: Outcome): Run {
  return closeTurn(run.calls.reduce((before, { call }) => ended(before, call.callId, outcome).run, run));
}

const begin = (): Run => remembering(startRun(START));
const afterReject = (reason = 'not today'): Run => closedWith(turnOf(begin(), ['a']).run, { ...rejected, reason });
const statusesOf = (run: Run): string[] => run.calls.map(({ status }) => status);
const outcomesOf = (run: Run): Outcome[] => run.calls.filter(isSettled).map(({ outcome }) => outcome);

describe('a rejected call that is proposed again (B-14)', () => {
  test('is answered as it was: by whom, why, and as which call', () => {
    const { run, facts } = turnOf(afterReject(), ['a']);
    expect(outcomesOf(run)).toEqual([{ ...rejected, repeatOf: 't1.c0' }]);
    expect(facts.map(({ kind }) => kind)).toEqual(['verdict', 'outcome']);
    expect(facts[1]).toMatchObject({ callId: 't2.c0', outcome: 'rejected', repeatOf: 't1.c0' });
  });

  test('and again, still under the id of the call that was rejected', () => {
    const third = turnOf(closeTurn(turnOf(afterReject(), ['a']).run), ['a']);
    expect(outcomesOf(third.run)).toEqual([{ ...rejected, repeatOf: 't1.c0' }]);
  });

  test('whatever policy says of it now', () => {
    expect(outcomesOf(turnOf(afterReject(), ['a'], { verdict: allowVerdict() }).run)).toMatchObject([
      { kind: 'rejected', repeatOf: 't1.c0' },
    ]);
  });

  test('its siblings are asked (INV-G3)', () => {
    expect(statusesOf(turnOf(afterReject(), ['b', 'a', 'c']).run)).toEqual([
      'waiting-for-consent',
      'settled',
      'waiting-for-consent',
    ]);
  });

  test('another tool, server or argument is another call', () => {
    const target = toolTarget();
    expect(statusesOf(turnOf(afterReject(), ['b']).run)).toEqual(['waiting-for-consent']);
    expect(statusesOf(turnOf(afterReject(), ['a'], { target: { ...target, tool: 'other' } }).run)).toEqual([
      'waiting-for-consent',
    ]);
    expect(statusesOf(turnOf(afterReject(), ['a'], { target: { ...target, server: 'other' } }).run)).toEqual([
      'waiting-for-consent',
    ]);
  });

  test('the order of its arguments makes no other call', () => {
    const asked = (args: ProposedCall['arguments'], run: Run) => {
      const call = proposedCall({ callId: callIdOf(run.turn + 1, 0), arguments: args });
      const judgements = [judgement({ callId: call.callId })];
      return judgedAll(proposed(run, [call], SILENT).run, judgements, POLICY_VERSION, runIds(), START).run;
    };
    const before = closedWith(asked({ one: 1, two: 2 }, begin()), rejected);
    expect(statusesOf(asked({ two: 2, one: 1 }, before))).toEqual(['settled']);
  });

  test('a call of which nobody knows the tool is judged anew', () => {
    const { run } = turnOf(afterReject(), ['a'], {
      verdict: denyVerdict({ code: 'LIMIT_REACHED' }),
      target: undefined as never,
    });
    expect(outcomesOf(run)).toMatchObject([{ kind: 'denied', code: 'LIMIT_REACHED' }]);
  });

  test('may be asked once a message of the user was read, and not before', () => {
    const spoken = heard(afterReject(), say()).run;
    expect(statusesOf(turnOf(spoken, ['a']).run)).toEqual(['settled']);
    expect(statusesOf(turnOf(unqueued(spoken), ['a']).run)).toEqual(['waiting-for-consent']);
    expect(statusesOf(turnOf(unqueued(afterReject()), ['a']).run)).toEqual(['settled']);
  });

  test('is asked in a run that was prepared before', () => {
    const run = closedWith(turnOf(startRun(START), ['a']).run, rejected);
    expect(statusesOf(turnOf(run, ['a']).run)).toEqual(['waiting-for-consent']);
    expect(turnOf(unqueued(heard(run, say()).run), ['a']).run).not.toHaveProperty('refusals');
  });
});

describe('what is remembered', () => {
  test('a denial by policy, as it was given', () => {
    const denied = closeTurn(turnOf(begin(), ['a'], { verdict: denyVerdict() }).run);
    const { run } = turnOf(denied, ['a'], { verdict: denyVerdict({ message: 'In other words.' }) });
    expect(outcomesOf(run)).toEqual([
      { kind: 'denied', code: 'POLICY_DENIED', message: 'files/write_file is denied.', repeatOf: 't1.c0' },
    ]);
    const third = turnOf(closeTurn(run), ['a'], { verdict: denyVerdict() }).run;
    expect(outcomesOf(third)).toMatchObject([{ repeatOf: 't1.c0' }]);
  });

  test('which stands only while policy says so: a halt that is over, or a call that had to come first, bars nothing', () => {
    const denied = closeTurn(turnOf(begin(), ['a'], { verdict: denyVerdict() }).run);
    expect(statusesOf(turnOf(denied, ['a']).run)).toEqual(['waiting-for-consent']);
    expect(statusesOf(turnOf(denied, ['a'], { verdict: allowVerdict() }).run)).toEqual(['cleared']);
    const verdict = denyVerdict({ code: 'TOOL_DISABLED' });
    expect(outcomesOf(turnOf(denied, ['a'], { verdict }).run)).toMatchObject([{ code: 'TOOL_DISABLED' }]);
    expect(outcomesOf(turnOf(denied, ['a'], { verdict }).run)[0]).not.toHaveProperty('repeatOf');
  });

  test.each(['LIMIT_REACHED', 'ARGUMENTS_INVALID', 'ARGUMENTS_TOO_LARGE', 'TOOL_DISABLED', 'TOOL_MISSING'] as const)(
    'not a denial of the moment: %s',
    (code) => {
      const denied = closeTurn(turnOf(begin(), ['a'], { verdict: denyVerdict({ code }) }).run);
      expect(statusesOf(turnOf(denied, ['a']).run)).toEqual(['waiting-for-consent']);
    },
  );

  test.each([expired, cancelled, succeeded])('nothing of a call that ended so: $kind (F-5)', (outcome) => {
    expect(statusesOf(turnOf(closedWith(turnOf(begin(), ['a']).run, outcome), ['a']).run)).toEqual([
      'waiting-for-consent',
    ]);
  });

  test('nothing of a call without a tool', () => {
    const over = { verdict: denyVerdict(), target: undefined as never };
    const unknown = closeTurn(turnOf(begin(), ['a'], over).run);
    expect(unknown.refusals).toEqual([]);
  });

  test('the newest, so many, with their reasons cut', () => {
    const paths = Array.from({ length: MOST_REFUSALS + 1 }, (_, index) => `p${index}`);
    const run = paths.reduce(
      (before, path) => closedWith(turnOf(before, [path]).run, { ...rejected, reason: 'x'.repeat(4_096) }),
      begin(),
    );
    expect(run.refusals).toHaveLength(MOST_REFUSALS);
    expect(Buffer.byteLength(JSON.stringify(run.refusals))).toBeLessThan(60_000);
    expect(statusesOf(turnOf(run, ['p0', 'p1', `p${MOST_REFUSALS}`]).run)).toEqual([
      'waiting-for-consent',
      'settled',
      'settled',
    ]);
  });

  test('the last word on a call, once', () => {
    const again = closedWith(turnOf(unqueued(heard(afterReject('first'), say()).run), ['a']).run, rejected);
    const both = closedWith(turnOf({ ...again, refusals: again.refusals ?? [] }, ['b', 'b']).run, rejected);
    expect(both.refusals?.map(({ outcome }) => outcome.repeatOf)).toEqual(['t2.c0', 't3.c0', 't3.c1']);
    expect(outcomesOf(turnOf(both, ['a']).run)).toMatchObject([{ reason: 'not today', repeatOf: 't2.c0' }]);
  });
});

describe('equal calls of one turn', () => {
  test('the later ones name the first, in their requests and in the ledger', () => {
    const { run, facts } = turnOf(begin(), ['a', 'b', 'a', 'a']);
    expect(run.calls).toMatchObject([{}, {}, { duplicateOf: 't1.c0' }, { duplicateOf: 't1.c0' }]);
    expect(run.calls[1]).not.toHaveProperty('duplicateOf');
    expect(facts.filter(({ kind }) => kind === 'request.opened')).toMatchObject([
      {},
      {},
      { duplicateOf: 't1.c0' },
      { duplicateOf: 't1.c0' },
    ]);
  });

  test('say so where people read of them in Temporal UI', () => {
    const { run } = turnOf(begin(), ['a', 'a']);
    expect(
      currentDetails('waiting', run).match(
        /the same call as t1\.c0: it needs an approval of its own, or one that stands/g,
      ),
    ).toHaveLength(1);
    expect(pendingMemo(run, runIds()).requests.map(({ duplicateOf }) => duplicateOf)).toEqual([undefined, 't1.c0']);
  });

  test('each is a call of its own: the end of one is not that of another (INV-G3)', () => {
    const { run } = turnOf(begin(), ['a', 'a']);
    const one = ended(run, 't1.c0', rejected).run;
    expect(statusesOf(one)).toEqual(['settled', 'waiting-for-consent']);
    expect(ended(one, 't1.c1', expired).run.calls[1]).toMatchObject({ status: 'settled', duplicateOf: 't1.c0' });
  });

  test('the mark stays where a call is asked again', () => {
    const { run } = turnOf(begin(), ['a', 'a'], { verdict: allowVerdict() });
    const away = dispatched(run, 't1.c1')?.run ?? run;
    const refusal = { kind: 'reopen', code: 'VERDICT_STRICTER', message: 'Ask.' } as const;
    const again = askedAgain(
      away,
      't1.c1',
      refusal,
      runIds(),
      { approvers: initiatorRule('ann'), deadlineSeconds: 60 },
      START,
    );
    expect(again.facts).toMatchObject([{ kind: 'request.opened', duplicateOf: 't1.c0' }]);
  });

  test('are not marked in a run that was prepared before', () => {
    expect(turnOf(startRun(START), ['a', 'a']).run.calls[1]).not.toHaveProperty('duplicateOf');
  });
});

test('over any conversation, exactly those are asked that nobody refused since the user spoke (B-14, INV-X2)', () => {
  const word = fc.constantFrom('a', 'b', 'c');
  const turn = fc.record({
    calls: fc.array(fc.record({ path: word, outcome: fc.constantFrom(rejected, expired, succeeded) }), {
      minLength: 1,
      maxLength: 3,
    }),
    spoken: fc.boolean(),
  });
  fc.assert(
    fc.property(fc.array(turn, { maxLength: 12 }), (turns) => {
      let run = begin();
      const refused = new Set<string>();
      for (const { calls, spoken } of turns) {
        const paths = calls.map(({ path }) => path);
        run = turnOf(run, paths).run;
        expect(statusesOf(run)).toEqual(paths.map((path) => (refused.has(path) ? 'settled' : 'waiting-for-consent')));
        for (const [index, { path, outcome }] of calls.entries()) {
          if (run.calls[index]?.status === 'waiting-for-consent' && outcome.kind === 'rejected') refused.add(path);
          run = ended(run, callIdOf(run.turn, index), outcome).run;
        }
        run = closeTurn(run);
        if (!spoken) continue;
        run = unqueued(heard(run, say({ messageId: `m${run.turn}` })).run);
        refused.clear();
      }
    }),
  );
});
