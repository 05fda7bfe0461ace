/**
 * What may leave within a stretch, and what the run takes over of it (INV-G1, INV-G3, INV-G4, INV-X1, docs/adr/0058).
 *
 * One file, because what leaves and what is taken over are two sides of the same transitions, compared at its end.
 */
import fc from 'fast-check';
import { describe, expect, test } from '@jest/globals';
import { callIdOf, READ_RESOURCE } from '../../../../contracts/names.ts';
import type { Outcome } from '../../../../contracts/schemas/call.ts';
import type { LedgerFact } from '../../../../contracts/schemas/ledger.ts';
import type { ModelStepResult } from '../../../../contracts/wire/run.ts';
import type { StretchedCall, StretchedTurn, StretchInput } from '../../../../contracts/wire/stretch.ts';
import type { DispatchResult } from '../../../../contracts/wire/tools.ts';
import { defined } from '../../../../contracts/defined.ts';
import { dispatched, ended } from '../../../../domain/request/transitions.ts';
import { costOf, EMPTY_TALLY, reachedLimit } from '../../../../domain/run/limits.ts';
import {
  afterCalls,
  deedsOf,
  fitsRecord,
  followsOn,
  isConcluded,
  isOver,
  leavesWhole,
  mayGoOn,
  openedTurn,
  stretchDispatch,
  stretchRun,
  stretchState,
  toLeave,
} from '../../../../domain/run/stretch.ts';
import { closeTurn, judgedAll, judgementsOn, resultsOf } from '../../../../domain/run/turn.ts';
import { callsOf, proposed, type Run } from '../../../../domain/state/run.ts';
import { allowVerdict, askVerdict, denyVerdict } from '../../../support/builders/judgement.ts';
import { outcomes } from '../../../support/builders/outcome.ts';
import { POLICY_VERSION, runIds, START } from '../../../support/builders/run.ts';
import { limits } from '../../../support/builders/run-spec.ts';
import { toolTarget } from '../../../support/builders/tool.ts';
import { forAll, forMany } from '../../../support/for-all.ts';
import {
  endedAs,
  freshRun,
  type Proposal,
  stepOf,
  stretchedCall,
  stretchInput,
} from '../../../support/stretch/input.ts';

const { succeeded, failed, denied, rejected, cancelled, unknown } = outcomes();
const PRICE = { input: 3, output: 7, currency: 'EUR' } as const;

const statusesOf = ({ calls }: Run): string[] => calls.map(({ status }) => status);

/** The first turn of a run, as a stretch opens it. */
function opened(proposals: readonly Proposal[], input = stretchInput(), run = freshRun()): Run {
  return openedTurn(run, stepOf(run.turn + 1, proposals), input, START);
}

/** The same turn as the run opens it, with an activity for each step. */
function openedByRun(run: Run, step: ModelStepResult, input: StretchInput): { run: Run; facts: readonly LedgerFact[] } {
  const calls = callsOf(step);
  const cost = input.price && costOf(input.price, step.usage);
  const open = proposed(run, calls, step.usage, cost);
  const all = judgementsOn(calls, step.judged?.judgements ?? [], input.dispatch.limits, run.totalCalls);
  const judged = judgedAll(open.run, all, POLICY_VERSION, runIds(), START);
  return { run: judged.run, facts: [...open.facts, ...judged.facts] };
}

describe('the counts with which a stretch begins', () => {
  const counted: Run = { ...freshRun(), turn: 3, totalCalls: 7, usage: { inputTokens: 9, outputTokens: 4 }, spent: 12 };
  const { startedAt, turn, totalCalls, usage, spent } = counted;

  test('are those of the run', () => {
    expect(stretchState(counted, false)).toEqual({ startedAt, turn, totalCalls, usage, spent });
    expect(stretchRun(stretchState(counted, false))).toEqual(counted);
  });

  test('have the tally only where a policy rule reads it', () => {
    const tally = { tools: { 'files/write_file': { succeeded: 2 } } };
    expect(stretchState({ ...counted, tally }, false)).not.toHaveProperty('tally');
    expect(stretchState({ ...counted, tally }, true)).toHaveProperty('tally', tally);
    expect(stretchRun(stretchState({ ...counted, tally }, true))).toEqual({ ...counted, tally });
  });

  test('name refused calls by their keys alone, and a run that remembers none by nothing', () => {
    const refused = closeTurn(
      ended(openedByRun(freshRun(), stepOf(1, [{}]), stretchInput()).run, 't1.c0', rejected).run,
    );
    expect(stretchState(refused, false).refused).toEqual(refused.refusals.map(({ key }) => key));
    expect(stretchState(refused, false).refused).toHaveLength(1);
    expect(stretchState(freshRun(), false)).not.toHaveProperty('refused');
  });
});

describe('a turn leaves whole or not at all (INV-G1)', () => {
  const elsewhere = toolTarget({ server: 'mail' });
  const link = toolTarget({ tool: READ_RESOURCE });

  test('it leaves if policy allows each of its calls and the operator calls each repeatable', () => {
    const run = opened([{}, { arguments: { path: 'b' } }, {}]);
    expect(statusesOf(run)).toEqual(['cleared', 'cleared', 'cleared']);
    expect(leavesWhole(run, stretchInput())).toBe(true);
  });

  test.each<[string, Proposal]>([
    ['that a person must be asked about', { verdict: askVerdict() }],
    ['that policy denies', { verdict: denyVerdict() }],
    ['whose arguments were no JSON object', { verdict: denyVerdict({ code: 'ARGUMENTS_INVALID' }) }],
    ['that may run only once (INV-X1)', { repeatable: false }],
    ['of a server of another queue, or one that asks on its connection', { target: elsewhere }],
    ['that reads a link', { target: link }],
  ])('one call %s keeps the whole turn from leaving', (_what, proposal) => {
    for (const turn of [[proposal], [{}, proposal], [proposal, {}], [{}, proposal, {}]])
      expect(leavesWhole(opened(turn), stretchInput())).toBe(false);
  });

  test('a repeat of a refused call keeps the whole turn from leaving: the run answers it (B-14)', () => {
    const refused = closeTurn(
      ended(openedByRun(freshRun(), stepOf(1, [{}]), stretchInput()).run, 't1.c0', rejected).run,
    );
    const input = stretchInput({}, refused);
    const again = { arguments: { turn: 1, index: 0 } };
    const other = { arguments: { turn: 2, index: 0 } };
    const turnOf = (proposals: readonly Proposal[]): Run => opened(proposals, input, stretchRun(input.state));
    // The stretch knows no refusals but their keys, so its own verdict lets the call pass.
    expect(statusesOf(turnOf([again]))).toEqual(['cleared']);
    expect(leavesWhole(turnOf([again]), input)).toBe(false);
    expect(leavesWhole(turnOf([other, again]), input)).toBe(false);
    expect(leavesWhole(turnOf([other]), input)).toBe(true);
    expect(statusesOf(openedByRun(refused, stepOf(2, [again]), input).run)).toEqual(['settled']);
  });

  test.each<[string, Partial<StretchInput['dispatch']['limits']>]>([
    ['calls of a turn', { callsPerTurn: 1 }],
    ['calls of the run', { calls: 1 }],
    ['arguments of a call', { argumentBytes: 3 }],
    ['arguments of a turn', { argumentBytesPerTurn: 30 }],
  ])('a call over the limit of %s keeps the whole turn from leaving (INV-G4)', (_what, over) => {
    const dispatch = { decidedIn: ['run-1'], limits: limits(over) };
    const two = [{ arguments: { path: 'a.txt' } }, { arguments: { path: 'b.txt' } }];
    expect(leavesWhole(opened(two, stretchInput({ dispatch })), stretchInput({ dispatch }))).toBe(false);
    expect(leavesWhole(opened(two), stretchInput())).toBe(true);
  });

  test('a turn without verdicts does not leave: the run judges it', () => {
    const { judged: _, ...step } = stepOf(1, [{}]);
    const run = openedTurn(freshRun(), step, stretchInput(), START);
    expect(run).toEqual(proposed(freshRun(), callsOf(step), step.usage).run);
    expect(leavesWhole(run, stretchInput())).toBe(false);
  });

  test('nor one with a call that the judge passed over (INV-G4)', () => {
    const step = stepOf(1, [{}, {}]);
    const { judgements = [] } = step.judged ?? {};
    const judged = { policyVersion: POLICY_VERSION, judgements: judgements.slice(1) };
    expect(leavesWhole(openedTurn(freshRun(), { ...step, judged }, stretchInput(), START), stretchInput())).toBe(false);
  });

  test('an answer has no calls, and nothing leaves', () => {
    expect(leavesWhole(opened([]), stretchInput())).toBe(false);
  });

  test('what is put on record is each call, its target and arguments by hash, and the time', () => {
    const run = opened([{}, { arguments: { path: 'b' } }, { target: toolTarget({ tool: 'other' }) }, {}]);
    const calls = toLeave(run, START + 5);
    expect(calls.map(({ callId, sentAt }) => [callId, sentAt])).toEqual(
      [0, 1, 2, 3].map((index) => [callIdOf(1, index), START + 5]),
    );
    const [first, args, target, same] = calls.map(({ digest }) => digest);
    expect(first).toMatch(/^[0-9a-f]{64}$/);
    expect(same).toBe(first);
    expect(new Set([first, args, target]).size).toBe(3);
    expect(JSON.stringify(calls)).not.toContain('write_file');
  });

  test('nothing else is', () => {
    expect(toLeave(opened([{ verdict: denyVerdict() }, {}, { verdict: askVerdict() }]), START)).toMatchObject([
      { callId: 't1.c1' },
    ]);
  });
});

// What the run is told of the calls that left.

const ASK: DispatchResult = { kind: 'reopen', code: 'VERDICT_STRICTER', message: 'Ask.' };
const authorization = { reason: 'scopes', message: 'More.', wants: 'consent' } as const;

describe('what the run does with a result', () => {
  test.each<[string, boolean, DispatchResult]>([
    ['a success is recorded', true, endedAs(succeeded)],
    ['so is a failure (INV-G3)', true, endedAs(failed)],
    ['so is a denial by the gate', true, endedAs(denied)],
    ['so is a call that was cancelled', true, endedAs(cancelled)],
    ['a call that may have run is settled by the run (INV-X1)', false, endedAs(unknown)],
    ['so is one that wants an authorization', false, { ...endedAs(failed), authorization }],
    ['so is one that was not sent', false, { kind: 'not-sent', code: 'TOOL_UNAVAILABLE', message: 'No.' }],
    ['so is one that was refused', false, { kind: 'refused', code: 'DISPATCH_FORBIDDEN', message: 'No.' }],
    ['so is one that is to be asked', false, ASK],
  ])('%s', (_what, isDone, result) => {
    expect(isConcluded(result)).toBe(isDone);
    expect(isOver(turnWith([stretchedCall({ result })]))).toBe(isDone);
    expect(isOver(turnWith([stretchedCall(), stretchedCall({ callId: 't1.c1', result })]))).toBe(isDone);
  });

  test('one that is not known leaves the turn open, and so do calls that did not leave', () => {
    const { result: _, ...lost } = stretchedCall();
    expect(isConcluded(undefined)).toBe(false);
    expect(isOver(turnWith([stretchedCall(), lost]))).toBe(false);
    expect(isOver({ step: stepOf(1, [{}]), at: START })).toBe(false);
  });

  function turnWith(calls: readonly StretchedCall[]): StretchedTurn {
    return { step: stepOf(1, [{}, {}]), at: START, calls };
  }
});

describe('turns that follow each other', () => {
  const over = (turn: number): StretchedTurn => ({
    step: stepOf(turn, [{}, {}]),
    at: START,
    calls: [0, 1].map((index) => stretchedCall({ callId: callIdOf(turn, index) })),
  });
  const last: StretchedTurn = { step: stepOf(5, []), at: START };
  const { calls: _, ...unsent } = over(4);
  const [first = stretchedCall(), second = stretchedCall()] = over(4).calls ?? [];

  test.each<[string, readonly StretchedTurn[]]>([
    ['none', []],
    ['turns whose calls have ended, and an answer', [over(3), over(4), last]],
    ['a last turn that did not leave', [over(3), unsent]],
    [
      'a last turn with calls under way',
      [
        over(3),
        {
          ...over(4),
          calls: [
            first,
            stretchedCall({ ...second, result: { kind: 'not-sent', code: 'TOOL_UNAVAILABLE', message: '' } }),
          ],
        },
      ],
    ],
  ])('are those of a stretch: %s', (_what, turns) => {
    expect(followsOn(2, turns)).toBe(true);
  });

  test.each<[string, readonly StretchedTurn[]]>([
    ['a turn that comes twice', [over(3), over(3)]],
    ['turns in another order', [over(4), over(3)]],
    ['a turn that is left out', [over(4)]],
    [
      'one call id twice',
      [
        over(3),
        {
          ...unsent,
          step: stepOf(4, [{}, {}], { parts: [over(4), over(4)].flatMap(({ step }) => step.parts.slice(0, 1)) }),
        },
      ],
    ],
    [
      'a call that the turn did not propose',
      [over(3), { ...over(4), calls: [first, stretchedCall({ callId: 't9.c9' })] }],
    ],
    ['one call that left twice', [over(3), { ...over(4), calls: [first, first] }]],
    ['a turn of which a part left', [over(3), { ...over(4), calls: [first] }]],
    ['a turn of which nothing left, before another', [over(3), unsent, last]],
    [
      'calls under way before another turn',
      [{ ...over(3), calls: (over(3).calls ?? []).map(({ result: __, ...call }) => call) }, over(4)],
    ],
    ['an answer before another turn', [{ step: stepOf(3, []), at: START, calls: [] }, over(4)]],
  ])('are not taken over: %s', (_what, turns) => {
    expect(followsOn(2, turns)).toBe(false);
  });
});

describe('what happened to the calls of a turn', () => {
  const token = { strategy: 'none' };
  const calls = [
    stretchedCall({ sentAt: START + 1, endedAt: START + 9, result: { ...endedAs(), token } }),
    stretchedCall({ callId: 't1.c1', sentAt: START + 1, endedAt: START + 3, result: endedAs(failed) }),
    stretchedCall({ callId: 't1.c2', sentAt: START + 1, endedAt: START + 5, result: ASK }),
  ];

  test('is told in the order of time: all leave, then each ends, with its token', () => {
    const run = opened([{}, {}, {}]);
    let now = run;
    const told = deedsOf(calls).map(({ at, apply }) => {
      const { run: next, facts } = apply(now);
      now = next;
      return [at - START, ...facts];
    });
    expect(told).toEqual([
      [1, { kind: 'dispatched', callId: 't1.c0', attempt: 1 }],
      [1, { kind: 'dispatched', callId: 't1.c1', attempt: 1 }],
      [1, { kind: 'dispatched', callId: 't1.c2', attempt: 1 }],
      [3, expect.objectContaining({ kind: 'outcome', callId: 't1.c1', outcome: 'failed' })],
      [9, expect.objectContaining({ kind: 'outcome', callId: 't1.c0', outcome: 'succeeded', token })],
    ]);
    expect(now).toEqual(afterCalls(run, calls));
    expect(statusesOf(now)).toEqual(['settled', 'settled', 'in-flight']);
  });

  test('of a call without a result is that it left (INV-X1)', () => {
    const { result: _, endedAt: __, ...lost } = stretchedCall();
    expect(statusesOf(afterCalls(opened([{}]), [lost]))).toEqual(['in-flight']);
  });

  test('of a result without a time is told at the time at which the call left', () => {
    const { endedAt: _, ...call } = stretchedCall({ sentAt: START + 4 });
    expect(deedsOf([call]).map(({ at }) => at - START)).toEqual([4, 4]);
    expect(statusesOf(afterCalls(opened([{}]), [call]))).toEqual(['settled']);
  });

  test('that was not to leave is a fault, and is not taken for a dispatch (INV-G1)', () => {
    for (const proposal of [{ verdict: askVerdict() }, { verdict: denyVerdict() }])
      expect(() => afterCalls(opened([proposal]), [stretchedCall()])).toThrow('t1.c0 left in a stretch');
  });
});

// When a stretch goes on.

describe('another model step', () => {
  const turn: StretchedTurn = { step: stepOf(1, [{}]), at: START, calls: [stretchedCall()] };

  test('may begin while no bound is reached', () => {
    const bounds = { turns: 3, seconds: 10, bytes: 1_000_000 };
    const may = (turns: number, elapsed: number): boolean =>
      mayGoOn(
        freshRun(),
        Array.from({ length: turns }, () => turn),
        stretchInput({ bounds }),
        START,
        START + elapsed,
      );
    expect([may(2, 9_999), may(3, 0), may(4, 0), may(0, 10_000), may(0, 10_001)]).toEqual([
      true,
      false,
      false,
      false,
      false,
    ]);
  });

  test('may begin while the record has room, counted in bytes of UTF-8', () => {
    const wide = { ...turn, step: stepOf(1, [], { parts: [{ type: 'text', text: 'é'.repeat(100) }] }) };
    const bytes = Buffer.byteLength(JSON.stringify({ turns: [wide] }));
    expect(bytes).toBeGreaterThan(JSON.stringify({ turns: [wide] }).length);
    const bounds = { turns: 3, seconds: 10, bytes };
    expect(fitsRecord([wide], bounds)).toBe(true);
    expect(fitsRecord([wide], { ...bounds, bytes: bytes - 1 })).toBe(false);
    expect(mayGoOn(freshRun(), [wide], stretchInput({ bounds }), START, START)).toBe(true);
    const narrow = stretchInput({ bounds: { ...bounds, bytes: bytes - 1 } });
    expect(mayGoOn(freshRun(), [wide], narrow, START, START)).toBe(false);
  });

  test('INV-G4: does not begin where a limit of the run would end the run', () => {
    const small = fc.integer({ min: 0, max: 4 });
    const counts = fc.record({ turn: small, totalCalls: small, inputTokens: small, outputTokens: small });
    const bounded = fc.record({ turns: small, calls: small, tokens: fc.integer({ min: 0, max: 8 }), seconds: small });
    const spent = fc.option(small, { nil: undefined });
    const spend = fc.option(fc.constantFrom('0', '0.000002'), { nil: undefined });
    forAll(counts, bounded, spent, spend, small, (used, most, cost, amount, elapsed) => {
      const { turn: taken, totalCalls, ...usage } = used;
      const run = { ...freshRun(), turn: taken, totalCalls, usage, ...defined({ spent: cost }) };
      const { turns, calls, tokens, seconds } = most;
      const bound = limits({ turns, calls, tokens, wallClockSeconds: seconds, ...defined({ spend: amount }) });
      const now = START + elapsed * 1_000;
      const input = stretchInput({ dispatch: { decidedIn: ['run-1'], limits: bound } });
      expect(mayGoOn(run, [], input, now, now)).toBe(reachedLimit(run, bound, now) === undefined);
    });
  });
});

// The activity and the run apply the same transitions to the same answers, and so know the same conversation.

interface Planned {
  readonly path: string;
  readonly kind: 'fine' | 'asked' | 'denied' | 'once' | 'elsewhere' | 'link';
  readonly outcome: Outcome;
  readonly tookMs: number;
}

const PROPOSALS = {
  fine: {},
  asked: { verdict: askVerdict() },
  denied: { verdict: denyVerdict() },
  once: { repeatable: false },
  elsewhere: { target: toolTarget({ server: 'mail' }) },
  link: { target: toolTarget({ tool: READ_RESOURCE }) },
} as const satisfies Record<Planned['kind'], Proposal>;

const planned = fc.record({
  path: fc.constantFrom('a', 'b', 'c', 'd'.repeat(40)),
  kind: fc.oneof(
    { weight: 12, arbitrary: fc.constant('fine' as const) },
    { weight: 1, arbitrary: fc.constantFrom('asked', 'denied', 'once', 'elsewhere', 'link') },
  ),
  outcome: fc.oneof(
    { weight: 6, arbitrary: fc.constantFrom<Outcome>(succeeded, failed, denied, cancelled) },
    { weight: 1, arbitrary: fc.constant<Outcome>(unknown) },
  ),
  tookMs: fc.integer({ min: 0, max: 3 }),
});

const plan = fc.record({
  turns: fc.array(
    fc.record({
      calls: fc.array(planned, { maxLength: 4 }),
      inputTokens: fc.nat(50),
      /** Calls end in another order than they were proposed. */
      isReversed: fc.boolean(),
    }),
    { minLength: 1, maxLength: 6 },
  ),
  counts: fc.boolean(),
  isPriced: fc.boolean(),
  /** Paths of calls that a person has rejected before. */
  refused: fc.subarray(['a', 'b']),
  most: fc.constantFrom(limits(), limits({ callsPerTurn: 2 }), limits({ calls: 5 }), limits({ argumentBytes: 20 })),
});

/** A run in whose first turn a person rejected these calls. */
function runRefusing(paths: readonly string[], counts: boolean): Run {
  if (paths.length === 0) return freshRun();
  const asked = paths.map((path) => ({ arguments: { path }, verdict: askVerdict() }));
  const { run } = openedByRun(freshRun(), stepOf(1, asked), stretchInput());
  const over = run.calls.reduce((now, { call }) => ended(now, call.callId, rejected).run, run);
  return closeTurn(over, counts ? true : undefined);
}

test('over any turns, a stretch knows what the run knows: counts, cost, tally and results, and sends no call that the run would not (INV-G1, INV-G3, INV-G4)', () => {
  forMany({ numRuns: 500 }, plan, ({ turns, counts, isPriced, refused, most }) => {
    let run = runRefusing(refused, counts);
    const { step, ...rest } = stretchInput({}, run);
    const input: StretchInput = {
      ...rest,
      step: { ...step, ...(counts ? { earlier: run.tally ?? EMPTY_TALLY } : {}) },
      state: stretchState(run, counts),
      dispatch: { ...rest.dispatch, limits: most },
      ...defined({ price: isPriced ? PRICE : undefined }),
    };
    let within = stretchRun(input.state);
    for (const { calls, inputTokens, isReversed } of turns) {
      const proposals = calls.map(({ path, kind }) => ({ arguments: { path }, ...PROPOSALS[kind] }));
      const answer = stepOf(run.turn + 1, proposals, { usage: { inputTokens, outputTokens: 1 } });
      within = openedTurn(within, answer, input, START);
      run = openedByRun(run, answer, input).run;
      expect(countsOf(within)).toEqual(countsOf(run));
      const leaves = leavesWhole(within, input);
      const isRefused = calls.some(({ path }) => refused.some((each) => each === path));
      const areFine = calls.length > 0 && calls.every(({ kind }) => kind === 'fine');
      const areCleared = run.calls.every(({ status }) => status === 'cleared');
      expect(leaves).toBe(areFine && !isRefused && areCleared);
      if (!leaves) return;

      const record = toLeave(within, START).map((call, index): StretchedCall => {
        const { outcome = succeeded, tookMs = 0 } = calls[index] ?? {};
        return { ...call, endedAt: START + tookMs, result: endedAs(outcome) };
      });
      within = afterCalls(within, record);
      for (const { callId } of record) run = dispatched(run, callId)?.run ?? run;
      for (const { callId, result } of isReversed ? record.toReversed() : record)
        if (isConcluded(result)) run = ended(run, callId, result.outcome).run;
      expect(within.calls).toEqual(run.calls);
      if (!isOver({ step: answer, at: START, calls: record })) return;
      expect(resultsOf(within)).toEqual(resultsOf(run));
      within = closeTurn(within, input.step.earlier === undefined ? undefined : true);
      run = closeTurn(run, counts ? true : undefined);
      expect(countsOf(within)).toEqual(countsOf(run));
    }
  });

  function countsOf({ turn, totalCalls, usage, spent, tally }: Run): Partial<Run> {
    return { turn, totalCalls, usage, ...defined({ spent, tally }) };
  }
});

describe('a call of a turn has no dispatch', () => {
  test.each<[string, Run, Partial<StretchInput>]>([
    ['if it is not known', opened([]), {}],
    ['if a person must be asked', opened([{ verdict: askVerdict() }]), {}],
    ['once it has left', afterCalls(opened([{}]), [stretchedCall()]), {}],
    ['if its server is of another queue', opened([{}]), { servers: [{ name: 'mail', url: 'https://mail.example' }] }],
  ])('%s (INV-G1)', (_what, run, over) => {
    expect(stretchDispatch(stretchInput(over), run, 't1.c0')).toBeUndefined();
  });

  test('else it says what policy allowed', () => {
    expect(stretchDispatch(stretchInput(), opened([{}]), 't1.c0')).toMatchObject({
      callId: 't1.c0',
      proof: { kind: 'policy', rules: allowVerdict().rules },
    });
  });
});
