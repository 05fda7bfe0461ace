/** Ceilings of a run: reaching one is a named outcome, and touches no call that is within it (INV-G3). */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { type CallState, judged } from '../../../../domain/state/call.ts';
import { overLimit, reachedLimit, resultRoom } from '../../../../domain/run/limits.ts';
import { type Run, startRun } from '../../../../domain/state/run.ts';
import { byteLength, canonicalJson } from '../../../../domain/text/canonical.ts';
import { identicalCalls, proposedCall } from '../../../support/builders/call.ts';
import { allowVerdict, denyVerdict, judgement } from '../../../support/builders/judgement.ts';
import { limits } from '../../../support/builders/run-spec.ts';
import { START } from '../../../support/builders/run.ts';

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
    expect(overLimit(identicalCalls(16), limits(), 0).size).toBe(0);
  });

  test('those above callsPerTurn are refused, the first ones are not', () => {
    const denied = overLimit(identicalCalls(5), limits({ callsPerTurn: 3 }), 0);
    expect([...denied.keys()]).toEqual(['t1.c3', 't1.c4']);
    expect(denied.get('t1.c3')).toEqual({
      kind: 'deny',
      rules: ['limits/callsPerTurn'],
      code: 'LIMIT_REACHED',
      message: 'A turn may hold 3 calls.',
    });
  });

  test('those above the calls of the run are refused, counted with the calls of earlier turns', () => {
    const denied = overLimit(identicalCalls(3), limits({ calls: 10 }), 8);
    expect([...denied.keys()]).toEqual(['t1.c2']);
    expect(denied.get('t1.c2')).toMatchObject({
      rules: ['limits/calls'],
      code: 'LIMIT_REACHED',
      message: 'A run may hold 10 calls.',
    });
  });

  test('arguments are measured as canonical JSON in bytes: at the limit they pass, one byte above they do not', () => {
    const given = limits({ argumentBytes: 300 });
    expect(byteLength(canonicalJson(sized(0, 300).arguments))).toBe(300);
    expect(overLimit([sized(0, 300)], given, 0).size).toBe(0);
    expect(overLimit([sized(0, 301)], given, 0).get('t1.c0')).toEqual({
      kind: 'deny',
      rules: ['limits/argumentBytes'],
      code: 'ARGUMENTS_TOO_LARGE',
      message: 'Arguments have 301 bytes; 300 are allowed.',
    });
    const euros = proposedCall({ arguments: { a: '€'.repeat(100) } });
    expect(overLimit([euros], given, 0).has('t1.c0')).toBe(true);
  });

  test('INV-G3: together they may fill the turn; one that does not fit is refused, smaller ones after it are not', () => {
    const given = limits({ argumentBytes: 400, argumentBytesPerTurn: 1_000 });
    const denied = overLimit([sized(0, 400), sized(1, 400), sized(2, 400), sized(3, 200), sized(4, 20)], given, 0);
    expect([...denied]).toEqual([
      ['t1.c2', expect.objectContaining({ rules: ['limits/argumentBytesPerTurn'], code: 'ARGUMENTS_TOO_LARGE' })],
      ['t1.c4', expect.anything()],
    ]);
  });

  test('a call that is refused for its size takes no room from the others', () => {
    const given = limits({ argumentBytes: 400, argumentBytesPerTurn: 800 });
    expect([...overLimit([sized(0, 401), sized(1, 400), sized(2, 400)], given, 0).keys()]).toEqual(['t1.c0']);
  });

  test('what passes never exceeds any limit, for any calls', () => {
    const sizes = fc.array(fc.integer({ min: 10, max: 600 }), { maxLength: 20 });
    fc.assert(
      fc.property(sizes, fc.nat({ max: 10 }), (bytes, before) => {
        const given = limits({ callsPerTurn: 8, calls: 12, argumentBytes: 500, argumentBytesPerTurn: 1_500 });
        const calls = bytes.map((size, index) => sized(index, size));
        const denied = overLimit(calls, given, before);
        const passed = calls
          .filter(({ callId }) => !denied.has(callId))
          .map((call) => byteLength(canonicalJson(call.arguments)));
        expect(passed.length).toBeLessThanOrEqual(Math.min(8, 12 - Math.min(before, 12)));
        expect(Math.max(0, ...passed)).toBeLessThanOrEqual(500);
        expect(passed.reduce((sum, size) => sum + size, 0)).toBeLessThanOrEqual(1_500);
      }),
    );
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

  test('is that of one result, where all of the turn have it', () => {
    expect(resultRoom(room, of(1))).toEqual({ resultBytes: 65_536 });
    expect(resultRoom(room, of(4))).toEqual({ resultBytes: 65_536 });
    expect(resultRoom(room, [])).toEqual({ resultBytes: 65_536 });
  });

  test('is an equal share of the turn, where they do not', () => {
    expect(resultRoom(room, of(5))).toEqual({ resultBytes: 52_428, sharedBy: 5 });
    expect(resultRoom(room, of(64))).toEqual({ resultBytes: 4_096, sharedBy: 64 });
  });

  test('what policy denies has no share', () => {
    expect(resultRoom(room, [...of(4), ...of(12, 'deny')])).toEqual({ resultBytes: 65_536 });
  });

  test('one call alone has the room of the turn, and shares it with nobody', () => {
    expect(resultRoom({ resultBytes: 65_536, resultBytesPerTurn: 16_384 }, of(1))).toEqual({ resultBytes: 16_384 });
  });

  test('a run of an earlier release has no room of a turn', () => {
    expect(resultRoom({ resultBytes: 65_536 }, of(64))).toEqual({ resultBytes: 65_536 });
  });

  test('the smallest room leaves each of the most calls what a preview needs', () => {
    expect(resultRoom({ resultBytes: 65_536, resultBytesPerTurn: 16_384 }, of(64)).resultBytes).toBe(256);
  });
});
