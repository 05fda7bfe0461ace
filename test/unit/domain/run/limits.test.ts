/** Ceilings of a run: reaching one is a named outcome, and touches no call that is within it (INV-G3). */
import fc from 'fast-check';
import { describe, expect, test } from '@jest/globals';
import { Limits } from '../../../../contracts/schemas/run-spec.ts';
import { COUNTED } from '../../../../contracts/schemas/run-state.ts';
import { startedFact } from '../../../../domain/request/digest.ts';
import {
  amountText,
  costOf,
  earlierThan,
  EMPTY_TALLY,
  limitsState,
  millionthsOf,
  overLimit,
  reachedLimit,
  resultRoom,
  spentOf,
  tallied,
  TALLY_BYTES,
  withOpen,
} from '../../../../domain/run/limits.ts';
import { closeTurn } from '../../../../domain/run/turn.ts';
import { type CallState, judged, proposed, type Run, startRun } from '../../../../domain/state/run.ts';
import { byteLength, canonicalJson } from '../../../../domain/text/canonical.ts';
import { identicalCalls, proposedCall } from '../../../support/builders/call.ts';
import { allowVerdict, denyVerdict, judgement } from '../../../support/builders/judgement.ts';
import { preparedRun } from '../../../support/builders/prepared-run.ts';
import { limits } from '../../../support/builders/run-spec.ts';
import { START } from '../../../support/builders/run.ts';
import { forAll } from '../../../support/for-all.ts';

function run(over: Partial<Run>): Run {
  return { ...startRun(START), ...over };
}

describe('before a model step', () => {
  const given = limits({ turns: 3, calls: 5, tokens: 100, wallClockSeconds: 60 });

  test.each([
    ['turns', { turn: 2 }, { turn: 3 }, 3],
    ['calls', { totalCalls: 4 }, { totalCalls: 5 }, 5],
    ['tokens', { usage: { inputTokens: 60, outputTokens: 39 } }, { usage: { inputTokens: 60, outputTokens: 40 } }, 100],
  ])('the limit of %s is reached exactly there', (limit, below, at, value) => {
    expect(reachedLimit(run(below), given, START)).toBeUndefined();
    expect(reachedLimit(run(at), given, START)).toEqual({ limit, value });
  });

  test('time is up at the second, counted from the first execution', () => {
    expect(reachedLimit(run({}), given, START + 59_999)).toBeUndefined();
    expect(reachedLimit(run({}), given, START + 60_000)).toEqual({ limit: 'wallClockSeconds', value: 60 });
  });

  test('of several limits one is named', () => {
    expect(reachedLimit(run({ turn: 9, totalCalls: 9 }), given, START + 90_000)?.limit).toBe('turns');
  });
});

describe('calls of a turn', () => {
  /** A call whose arguments have exactly so many bytes as canonical JSON. */
  function sized(index: number, bytes: number): ReturnType<typeof proposedCall> {
    return proposedCall({ callId: `t1.c${index}`, arguments: { a: 'x'.repeat(bytes - '{"a":""}'.length) } });
  }

  test('within every limit none is refused', () => {
    expect(overLimit(identicalCalls(16), limits(), 0)).toEqual([]);
  });

  test('those above callsPerTurn are refused, the first ones are not', () => {
    const denied = overLimit(identicalCalls(5), limits({ callsPerTurn: 3 }), 0);
    expect(denied.map(({ callId }) => callId)).toEqual(['t1.c3', 't1.c4']);
    expect(denied[0]).toEqual({
      callId: 't1.c3',
      verdict: {
        kind: 'deny',
        rules: ['limits/callsPerTurn'],
        code: 'LIMIT_REACHED',
        message: 'A turn may hold 3 calls.',
      },
      repeatable: false,
    });
  });

  test('those above the calls of the run are refused, counted with the calls of earlier turns', () => {
    const denied = overLimit(identicalCalls(3), limits({ calls: 10 }), 8);
    expect(denied.map(({ callId }) => callId)).toEqual(['t1.c2']);
    expect(denied[0]?.verdict).toMatchObject({
      rules: ['limits/calls'],
      code: 'LIMIT_REACHED',
      message: 'A run may hold 10 calls.',
    });
  });

  test('arguments are measured as canonical JSON in bytes: at the limit they pass, one byte above they do not', () => {
    const given = limits({ argumentBytes: 300 });
    expect(byteLength(canonicalJson(sized(0, 300).arguments))).toBe(300);
    expect(overLimit([sized(0, 300)], given, 0)).toEqual([]);
    expect(overLimit([sized(0, 301)], given, 0)[0]?.verdict).toEqual({
      kind: 'deny',
      rules: ['limits/argumentBytes'],
      code: 'ARGUMENTS_TOO_LARGE',
      message: 'Arguments have 301 bytes; 300 are allowed.',
    });
    const euros = proposedCall({ arguments: { a: '€'.repeat(100) } });
    expect(overLimit([euros], given, 0)).toHaveLength(1);
  });

  test('INV-G3: together they may fill the turn; one that does not fit is refused, smaller ones after it are not', () => {
    const given = limits({ argumentBytes: 400, argumentBytesPerTurn: 1_000 });
    const denied = overLimit([sized(0, 400), sized(1, 400), sized(2, 400), sized(3, 200), sized(4, 20)], given, 0);
    expect(denied.map(({ callId }) => callId)).toEqual(['t1.c2', 't1.c4']);
    expect(denied[0]?.verdict).toMatchObject({
      rules: ['limits/argumentBytesPerTurn'],
      code: 'ARGUMENTS_TOO_LARGE',
    });
  });

  test('a call that is refused for its size takes no room from the others', () => {
    const given = limits({ argumentBytes: 400, argumentBytesPerTurn: 800 });
    const denied = overLimit([sized(0, 401), sized(1, 400), sized(2, 400)], given, 0);
    expect(denied.map(({ callId }) => callId)).toEqual(['t1.c0']);
  });

  test('what passes never exceeds any limit, for any calls', () => {
    const sizes = fc.array(fc.integer({ min: 10, max: 600 }), { maxLength: 20 });
    forAll(sizes, fc.nat({ max: 10 }), (bytes, before) => {
      const given = limits({ callsPerTurn: 8, calls: 12, argumentBytes: 500, argumentBytesPerTurn: 1_500 });
      const calls = bytes.map((size, index) => sized(index, size));
      const denied = new Set(overLimit(calls, given, before).map(({ callId }) => callId));
      const passed = calls
        .filter(({ callId }) => !denied.has(callId))
        .map((call) => byteLength(canonicalJson(call.arguments)));
      expect(passed.length).toBeLessThanOrEqual(Math.min(8, 12 - Math.min(before, 12)));
      expect(Math.max(0, ...passed)).toBeLessThanOrEqual(500);
      expect(passed.reduce((sum, size) => sum + size, 0)).toBeLessThanOrEqual(1_500);
    });
  });
});

describe('the room of a result', () => {
  const of = (count: number, kind: 'allow' | 'deny' = 'allow'): readonly CallState[] =>
    Array.from({ length: count }, (_, index) => {
      const call = proposedCall({ callId: `t1.c${index}` });
      const verdict = kind === 'allow' ? allowVerdict() : denyVerdict();
      return judged(call, judgement({ callId: call.callId, verdict }), START);
    });
  const room = { resultBytes: 65_536, resultBytesPerTurn: 262_144 };

  const [alone, whole] = [{ resultBytes: 65_536 }, { resultBytes: 65_536, resultBytesPerTurn: 16_384 }];

  test.each<[string, Parameters<typeof resultRoom>[0], readonly CallState[], object]>([
    ['is that of one result, where all of the turn have it', room, of(1), alone],
    ['where just all have it', room, of(4), alone],
    ['where there is no call', room, [], alone],
    ['is an equal share of the turn, where they do not', room, of(5), { resultBytes: 52_428, sharedBy: 5 }],
    ['of as many as may be', room, of(64), { resultBytes: 4_096, sharedBy: 64 }],
    ['is not shared with what policy denies', room, [...of(4), ...of(12, 'deny')], alone],
    ['is that of the turn for one call alone, shared with nobody', whole, of(1), { resultBytes: 16_384 }],
    ['is of no turn where no bound of one is stated', { resultBytes: 65_536 }, of(64), alone],
    ['leaves each of the most calls what a preview needs', whole, of(64), { resultBytes: 256, sharedBy: 64 }],
  ])('%s', (_what, given, calls, expected) => {
    expect(resultRoom(given, calls)).toEqual(expected);
  });
});

/** Money is counted in whole millionths, never in fractions, and never too low; where nothing is counted no step is taken (INV-G4). */
describe('spend', () => {
  const price = { input: 2_500_000, output: 10_000_000, currency: 'EUR' };
  const tokens = (inputTokens: number, outputTokens: number) => ({ inputTokens, outputTokens });
  const spending = (spent: number): Run => ({ ...startRun(START), spent });

  describe('what a step costs', () => {
    test('is its tokens at the price of a million', () => {
      expect(costOf(price, tokens(1_000_000, 0))).toBe(2_500_000);
      expect(costOf(price, tokens(2, 1))).toBe(15);
      expect(costOf(price, tokens(0, 0))).toBe(0);
    });

    test('is rounded up to a whole millionth, once for each step', () => {
      expect(costOf(price, tokens(1, 0))).toBe(3);
      expect(costOf({ ...price, input: 1 }, tokens(1, 0))).toBe(1);
      expect(costOf({ ...price, input: 0, output: 0 }, tokens(9, 9))).toBe(0);
    });

    test('is exact where numbers are not', () => {
      const dear = { input: 999_999_999_999, output: 0, currency: 'EUR' };
      expect(costOf(dear, tokens(4_999_999, 0))).toBe(4_999_998_999_996);
    });

    test('is never less than was spent, and less than a millionth more', () => {
      const count = fc.integer({ min: 0, max: 10_000_000 });
      const tag = fc.integer({ min: 0, max: 100_000_000 });
      forAll(count, count, tag, tag, (inputs, outputs, input, output) => {
        const exact = BigInt(inputs) * BigInt(input) + BigInt(outputs) * BigInt(output);
        const counted = BigInt(costOf({ input, output, currency: 'EUR' }, tokens(inputs, outputs))) * 1_000_000n;
        expect(counted >= exact && counted - exact < 1_000_000n).toBe(true);
      });
    });
  });

  describe('an amount', () => {
    test.each([
      ['0', 0, '0.00'],
      ['5', 5_000_000, '5.00'],
      ['2.5', 2_500_000, '2.50'],
      ['0.000001', 1, '0.000001'],
      ['12.34567', 12_345_670, '12.34567'],
      ['100000', 100_000_000_000, '100000.00'],
    ])('%s is %d millionths, shown as %s', (text, millionths, shown) => {
      expect(millionthsOf(text)).toBe(millionths);
      expect(amountText(millionths)).toBe(shown);
    });

    test('comes back from what is shown of it', () => {
      forAll(fc.maxSafeNat(), (millionths) => expect(millionthsOf(amountText(millionths))).toBe(millionths));
    });
  });

  describe('a limit of spend', () => {
    const given = limits({ spend: '0.00001' });

    test('is reached exactly there, and not before', () => {
      expect(reachedLimit(spending(9), given, START)).toBeUndefined();
      expect(reachedLimit(spending(10), given, START)).toEqual({ limit: 'spend', value: 10 });
      expect(reachedLimit(spending(11), given, START)).toEqual({ limit: 'spend', value: 10 });
      expect(reachedLimit(spending(11), limits(), START)).toBeUndefined();
    });

    test('INV-G4: is reached from the start where nothing is counted', () => {
      expect(reachedLimit(startRun(START), given, START)).toEqual({ limit: 'spend', value: 10 });
    });

    test('adds up what steps cost, and the ledger says how', () => {
      const first = proposed(spending(0), [], tokens(2, 1), 15);
      expect(first.facts).toMatchObject([{ kind: 'turn.proposed', cost: 15 }]);
      expect(proposed(first.run, [], tokens(2, 1), 4).run.spent).toBe(19);
      expect(proposed(startRun(START), [], tokens(2, 1), 4).run.spent).toBe(4);
      expect(proposed(startRun(START), [], tokens(2, 1)).run).not.toHaveProperty('spent');
      expect(startedFact(preparedRun({ price }), { name: 'clerk', model: 'scripted' })).toMatchObject({ price });
    });
  });

  test('how close a run is to each limit can be seen', () => {
    const spent = { ...spending(7), turn: 2, totalCalls: 3, usage: tokens(20, 4) };
    const given = limits({ turns: 5, calls: 6, tokens: 100, wallClockSeconds: 60, spend: '1' });
    expect(limitsState(spent, given)).toEqual({
      turns: { used: 2, most: 5 },
      calls: { used: 3, most: 6 },
      tokens: { used: 24, most: 100 },
      spend: { used: 7, most: 1_000_000 },
      endsBy: '2026-01-01T00:01:00.000Z',
    });
    expect(limitsState(startRun(START), limits())).not.toHaveProperty('spend');
    expect(limitsState(startRun(START), given).spend).toEqual({ used: 0, most: 1_000_000 });
    expect(spentOf(spent, price)).toEqual({ spent: { millionths: 7, currency: 'EUR' } });
    expect([spentOf(spent, undefined), spentOf(startRun(START), price)]).toEqual([{}, {}]);
  });
});

/** What became of earlier calls, as conditions read it. */
describe('tally', () => {
  type Kind = 'succeeded' | 'denied' | 'rejected' | 'open';

  function call(callId: string, kind: Kind, tool: string | undefined = 'send', server = 'mail'): CallState {
    const target = { server, serverUrl: 'https://mail.test/', tool, definitionHash: 'h' };
    const verdict = { kind: kind === 'denied' ? 'deny' : 'allow', rules: ['r'], code: 'POLICY_DENIED', message: '' };
    const state = {
      status: kind === 'open' ? 'in-flight' : 'settled',
      call: { callId, providerCallId: callId, name: 'n', arguments: {} },
      judgement: { callId, verdict, repeatable: false, ...(tool === undefined ? {} : { target }) },
      outcome: { kind },
    };
    // Sound: the tally reads nothing else of a call.
    return state as unknown as CallState;
  }

  const merelyProposed = (callId: string): CallState => ({
    status: 'proposed',
    call: { callId, providerCallId: callId, name: 'n', arguments: {} },
  });

  describe('a tally', () => {
    test('counts settled calls by tool and outcome; what meant no tool is not counted', () => {
      const nameless = { ...call('t1.c9', 'denied'), judgement: undefined } as unknown as CallState;
      const states = [
        call('t1.c0', 'succeeded'),
        call('t1.c1', 'succeeded'),
        call('t1.c2', 'rejected', 'drop'),
        nameless,
      ];
      expect(tallied(EMPTY_TALLY, [...states, merelyProposed('t1.c8'), call('t1.c7', 'open')])).toEqual({
        tools: { 'mail/send': { succeeded: 2 }, 'mail/drop': { rejected: 1 } },
      });
    });

    test('is kept by a run only where it is asked for', () => {
      const before = { ...startRun(0), calls: [call('t1.c0', 'succeeded')] };
      expect(closeTurn(before)).not.toHaveProperty('tally');
      const counted = closeTurn(before, true);
      expect(closeTurn({ ...counted, calls: before.calls }, true).tally).toEqual({
        tools: { 'mail/send': { succeeded: 2 } },
      });
    });

    test('of more tools than have a place says that it is not whole, and stays small', () => {
      const states = Array.from({ length: 200 }, (_, index) => call('t1.c0', 'succeeded', `${'x'.repeat(20)}${index}`));
      const tally = tallied(EMPTY_TALLY, states);
      expect(tally.beyond).toBe(200 - Object.keys(tally.tools).length);
      expect(byteLength(canonicalJson(tally))).toBeLessThan(TALLY_BYTES);
      expect(tallied(tally, [call('t1.c0', 'denied', 'another-one-that-is-new')]).beyond).toBe((tally.beyond ?? 0) + 1);
    });

    test('has room for every kind with as many calls as a run may have', () => {
      const most = Limits.shape.calls.unwrap().maxValue;
      const counts = Object.fromEntries(COUNTED.map((kind) => [kind, most]));
      // With the quotes, the colon and the comma of its name.
      expect(byteLength(canonicalJson(counts)) + 4).toBeLessThanOrEqual(160);
    });

    test('counts a tool that is called as every object has it', () => {
      expect(withOpen(EMPTY_TALLY, ['constructor/toString'])).toEqual({
        tools: { 'constructor/toString': { open: 1 } },
      });
    });
  });

  test('INV-G3: of the same turn what stands before a call is open, whatever became of it, and what was denied is not there', () => {
    const before = { tools: { 'mail/send': { succeeded: 1 } } };
    const states = [
      call('t2.c0', 'succeeded'),
      call('t2.c1', 'denied'),
      call('t2.c2', 'rejected'),
      merelyProposed('t2.c3'),
      call('t2.c4', 'open'),
      call('t2.c5', 'open'),
    ];
    expect(earlierThan(before, states, 't2.c4')).toEqual({ tools: { 'mail/send': { succeeded: 1, open: 2 } } });
    expect(earlierThan(before, states, 't2.c0')).toEqual(before);
  });
});
