/**
 * A refused call that is proposed again is answered without asking; equal calls of one turn are told apart (B-14,
 * INV-G3, INV-X2). One file, because all of it is the life of one turn.
 */
import { initiatorRule } from '../../../../domain/policy/approvers.ts';
import fc from 'fast-check';
import { describe, expect, test } from '@jest/globals';
import { callIdOf } from '../../../../contracts/names.ts';
import type { Judgement, Outcome, ProposedCall } from '../../../../contracts/schemas/call.ts';
import { askedAgain, dispatched, ended } from '../../../../domain/request/transitions.ts';
import { heard, unqueued } from '../../../../domain/run/message-queue.ts';
import { closeTurn, judgedAll, judgementsOn, MOST_REFUSALS, resultsOf } from '../../../../domain/run/turn.ts';
import { isSettled, proposed, type Run, startRun } from '../../../../domain/state/run.ts';
import { hashOf } from '../../../../domain/text/canonical.ts';
import { currentDetails, pendingMemo } from '../../../../domain/views/temporal-ui.ts';
import { identicalCalls, proposedCall } from '../../../support/builders/call.ts';
import { say, shown } from '../../../support/builders/decision.ts';
import { acceptedEdit, editOf, ONE, SMALL } from '../../../support/builders/edit.ts';
import { allowVerdict, denyVerdict, judgement } from '../../../support/builders/judgement.ts';
import { outcomes } from '../../../support/builders/outcome.ts';
import { judgedRun, POLICY_VERSION, proposedRun, runIds, START } from '../../../support/builders/run.ts';
import { limits } from '../../../support/builders/run-spec.ts';
import { toolTarget } from '../../../support/builders/tool.ts';
import { forAll } from '../../../support/for-all.ts';

const { rejected, expired, cancelled, succeeded } = outcomes();
const MOMENTARY = [
  'LIMIT_REACHED',
  'ARGUMENTS_INVALID',
  'ARGUMENTS_TOO_LARGE',
  'TOOL_DISABLED',
  'TOOL_MISSING',
] as const;
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

const begin = (): Run => startRun(START);
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

  const ASKS = 'waiting-for-consent';
  const target = toolTarget();
  const rejectedOnce = afterReject();
  const spoken = heard(rejectedOnce, say()).run;
  const deniedBy = (code: 'POLICY_DENIED' | (typeof MOMENTARY)[number]): Run =>
    closeTurn(turnOf(begin(), ['a'], { verdict: denyVerdict({ code }) }).run);
  const denied = deniedBy('POLICY_DENIED');

  test.each<[string, Run, readonly string[], Partial<Judgement>, readonly string[]]>([
    ['its siblings are asked (INV-G3)', rejectedOnce, ['b', 'a', 'c'], {}, [ASKS, 'settled', ASKS]],
    ['another argument is another call', rejectedOnce, ['b'], {}, [ASKS]],
    ['another tool is another call', rejectedOnce, ['a'], { target: { ...target, tool: 'other' } }, [ASKS]],
    ['another server is another call', rejectedOnce, ['a'], { target: { ...target, server: 'other' } }, [ASKS]],
    ['it is not asked while a message of the user waits', spoken, ['a'], {}, ['settled']],
    ['it may be asked once that was read', unqueued(spoken), ['a'], {}, [ASKS]],
    ['it is not asked where none was said', unqueued(rejectedOnce), ['a'], {}, ['settled']],
    // A halt that is over, or a call that had to come first, bars nothing.
    ['a denial stands only while policy says so', denied, ['a'], {}, [ASKS]],
    ['a denial does not stand where policy allows', denied, ['a'], { verdict: allowVerdict() }, ['cleared']],
    ...MOMENTARY.map((code): [string, Run, string[], object, string[]] => [
      `not a denial of the moment: ${code}`,
      deniedBy(code),
      ['a'],
      {},
      [ASKS],
    ]),
    ...[expired, cancelled, succeeded].map((outcome): [string, Run, string[], object, string[]] => [
      `nothing of a call that ended so: ${outcome.kind} (F-5)`,
      closedWith(turnOf(begin(), ['a']).run, outcome),
      ['a'],
      {},
      [ASKS],
    ]),
  ])('%s', (_what, run, paths, over, statuses) => {
    expect(statusesOf(turnOf(run, paths, over).run)).toEqual(statuses);
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

  test('but another denial is told as it is', () => {
    const denied = closeTurn(turnOf(begin(), ['a'], { verdict: denyVerdict() }).run);
    const [outcome] = outcomesOf(turnOf(denied, ['a'], { verdict: denyVerdict({ code: 'TOOL_DISABLED' }) }).run);
    expect(outcome).toMatchObject({ code: 'TOOL_DISABLED' });
    expect(outcome).not.toHaveProperty('repeatOf');
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
    const both = closedWith(turnOf(again, ['b', 'b']).run, rejected);
    expect(both.refusals.map(({ outcome }) => outcome.repeatOf)).toEqual(['t2.c0', 't3.c0', 't3.c1']);
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
  forAll(fc.array(turn, { maxLength: 12 }), (turns) => {
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
  });
});

// Verdicts on the calls of a turn, as they are recorded (INV-G3, INV-G4, S4.6).

describe('verdicts', () => {
  const calls = identicalCalls(3);
  const verdicts = [allowVerdict(), judgement().verdict, denyVerdict()];
  const judgements = calls.map(({ callId }, index) => judgement({ callId, verdict: verdicts[index] ?? denyVerdict() }));
  const { run, facts } = judgedAll(proposedRun(calls), judgements, POLICY_VERSION, runIds(), START);

  test('S4.6: each is recorded with its rules, its tool and a hash of the arguments, never the arguments', () => {
    expect(facts[0]).toEqual({
      kind: 'verdict',
      callId: 't1.c0',
      verdict: 'allow',
      rules: ['organisation/strategy/never'],
      server: 'files',
      tool: 'write_file',
      definitionHash: toolTarget().definitionHash,
      argumentsHash: hashOf(proposedCall().arguments),
      policyVersion: POLICY_VERSION,
    });
    expect(JSON.stringify(facts)).not.toContain('notes.txt');
  });

  test('J: one that was allowed by breaking glass says so, with rule, reason and end', () => {
    const breakGlass = {
      rule: 'organisation/rules/pager',
      reason: 'The pager is down.',
      until: '2026-01-01T02:00:00.000Z',
    };
    const broken = judgements.map((each, index) =>
      index === 0 ? { ...each, verdict: allowVerdict({ breakGlass }) } : each,
    );
    const { facts: told } = judgedAll(proposedRun(calls), broken, POLICY_VERSION, runIds(), START);
    expect(told[0]).toMatchObject({ kind: 'verdict', verdict: 'allow', breakGlass });
    expect(facts[0]).not.toHaveProperty('breakGlass');
  });

  test('S2.2: an asked call has its request recorded, a denied one its outcome, at once and in order', () => {
    expect(facts.map(({ kind }) => kind)).toEqual(['verdict', 'verdict', 'request.opened', 'verdict', 'outcome']);
    expect(facts[2]).toEqual({
      kind: 'request.opened',
      callId: 't1.c1',
      generation: 1,
      digest: shown(run, 't1.c1').digest,
      approvers: { allOf: [{ layer: 'organisation', ids: ['ann'], groups: [] }] },
      deadline: '2026-01-01T01:00:00.000Z',
      duplicateOf: 't1.c0',
    });
    expect(run.calls.map(({ status }) => status)).toEqual(['cleared', 'waiting-for-consent', 'settled']);
  });

  test('are matched by call, not by place', () => {
    expect(judgedAll(proposedRun(calls), judgements.toReversed(), POLICY_VERSION, runIds(), START).run).toEqual(run);
  });

  test('INV-G4: a call that the judge passed over is denied', () => {
    const silent = judgedAll(proposedRun(calls), judgements.slice(1), POLICY_VERSION, runIds(), START);
    expect(silent.run.calls[0]).toMatchObject({
      status: 'settled',
      outcome: { kind: 'denied', code: 'POLICY_DENIED' },
    });
    expect(silent.facts[0]).toMatchObject({ verdict: 'deny', rules: ['default/passed-over'] });
    expect(silent.facts[0]).not.toHaveProperty('server');
    expect(silent.run.calls.slice(1).map(({ status }) => status)).toEqual(['waiting-for-consent', 'settled']);
  });

  test('a tool that is not known is recorded under the name the model used, cut to a bounded length', () => {
    const odd = [proposedCall({ name: 'x'.repeat(5_000) })];
    const { target: _target, ...unknown } = judgement({ verdict: denyVerdict({ code: 'TOOL_UNKNOWN' }) });
    const [fact] = judgedAll(proposedRun(odd), [unknown], POLICY_VERSION, runIds(), START).facts;
    expect(fact).toMatchObject({ kind: 'verdict', tool: 'x'.repeat(200) });
  });

  test('a call is judged once: another round leaves it as it is', () => {
    const again = judgedAll(
      run,
      calls.map(({ callId }) => judgement({ callId, verdict: allowVerdict() })),
      POLICY_VERSION,
      runIds(),
      START,
    );
    expect(again).toEqual({ run, facts: [] });
  });
});

describe('limits and verdicts', () => {
  const calls = identicalCalls(3);
  const allowed = calls.map(({ callId }) => judgement({ callId, verdict: allowVerdict(), repeatable: true }));

  test('INV-G4: a call over a limit is denied whatever policy says', () => {
    const all = judgementsOn(calls, allowed, limits({ callsPerTurn: 2 }), 0);
    const { run } = judgedAll(proposedRun(calls), all, POLICY_VERSION, runIds(), START);
    expect(statusesOf(run)).toEqual(['cleared', 'cleared', 'settled']);
    expect(outcomesOf(run)).toMatchObject([{ kind: 'denied', code: 'LIMIT_REACHED' }]);
    expect(all.find(({ callId }) => callId === 't1.c2')).toMatchObject({ repeatable: false });
  });

  test('calls of earlier turns count', () => {
    expect(judgementsOn(calls, allowed, limits({ calls: 9 }), 6)).toEqual(allowed);
    const [first] = judgementsOn(calls, allowed, limits({ calls: 9 }), 7);
    expect(first).toMatchObject({ callId: 't1.c2', verdict: { kind: 'deny', rules: ['limits/calls'] } });
  });
});

describe('what the model reads of a turn', () => {
  const calls = identicalCalls(3);
  const judged = judgedRun(calls, () => ({ verdict: allowVerdict() }));

  test('INV-G3: outcomes in the order of the proposals, whatever ended first', () => {
    const { failed } = outcomes();
    const over = ended(ended(ended(judged, 't1.c2', succeeded).run, 't1.c0', failed).run, 't1.c1', cancelled).run;
    expect(resultsOf(over)).toEqual([
      { callId: 't1.c0', providerCallId: 'call_0', name: 'files__write_file', outcome: failed },
      { callId: 't1.c1', providerCallId: 'call_1', name: 'files__write_file', outcome: cancelled },
      { callId: 't1.c2', providerCallId: 'call_2', name: 'files__write_file', outcome: succeeded },
    ]);
  });

  test('nothing of a call that has not ended', () => {
    expect(resultsOf(ended(judged, 't1.c1', succeeded).run).map(({ callId }) => callId)).toEqual(['t1.c1']);
  });

  test('of a hosted call, whether its provider is told that it was approved: where it may have run', () => {
    const { failed } = outcomes();
    const hosted = judgedRun(
      calls.map((call, index) => ({ ...call, approvalRequestId: `mcpr_${index}` })),
      () => ({ verdict: allowVerdict() }),
    );
    const told = (outcome: Parameters<typeof ended>[2]) =>
      resultsOf(ended(hosted, 't1.c1', outcome).run).map(({ approvalResponse }) => approvalResponse);
    const answered = (approve: boolean) => [{ approvalRequestId: 'mcpr_1', approve }];
    expect(told(succeeded)).toEqual(answered(true));
    expect(told({ ...failed, executed: true })).toEqual(answered(true));
    expect(told({ ...failed, executed: false })).toEqual(answered(false));
    expect(told({ kind: 'unknown', code: 'ANSWER_LOST', message: 'It is lost.' })).toEqual(answered(true));
    expect(told(cancelled)).toEqual(answered(false));
  });

  test('who changed the arguments of a call, and to what', () => {
    const [first] = resultsOf(ended(acceptedEdit(ONE, editOf(ONE)).run, 't1.c0', succeeded).run);
    expect(first).toMatchObject({ outcome: succeeded, edited: { by: 'ann', arguments: SMALL } });
  });
});
