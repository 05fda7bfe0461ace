/** A value counts for one place alone: claims that differ in any field are the claims of something else (INV-G1, ADR 0047). */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { AnswerClaims, CarryClaims, ZoneClaims } from '../../../../contracts/zone.ts';
import { claimsText, digestOfArguments, digestOfInput, isProven } from '../../../../domain/signing/zone.ts';

const ANSWER: AnswerClaims = {
  kind: 'result',
  activity: 'modelStep',
  namespace: 'default',
  workflowId: 'run-1',
  chain: 'chain-1',
  place: 3,
  at: 1_767_225_600_000,
  input: 'a'.repeat(64),
};
const CARRY: CarryClaims = {
  kind: 'carry',
  workflow: 'agentRun',
  namespace: 'default',
  workflowId: 'run-1',
  runId: 'temporal-run-1',
  input: 'b'.repeat(64),
};

describe('a value that is proven', () => {
  test('counts where it was made for', () => {
    for (const claims of [ANSWER, CARRY]) expect(isProven(claimsText(claims), { ...claims })).toBe(true);
  });

  test.each<readonly [string, ZoneClaims]>([
    ['as a failure', { ...ANSWER, kind: 'failure' }],
    ['of another activity', { ...ANSWER, activity: 'callTool' }],
    ['in another namespace', { ...ANSWER, namespace: 'other' }],
    ['in another run', { ...ANSWER, workflowId: 'run-2' }],
    ['in another execution', { ...ANSWER, chain: 'chain-2' }],
    ['at another place', { ...ANSWER, place: 4 }],
    ['at a place that a reset has made anew', { ...ANSWER, at: ANSWER.at + 1 }],
    ['for another question', { ...ANSWER, input: 'c'.repeat(64) }],
    ['as what an execution hands on', CARRY],
  ])('does not count %s', (_, other) => {
    expect(isProven(claimsText(ANSWER), other)).toBe(false);
  });

  test('does not count where nothing proves it', () => {
    expect(isProven(undefined, ANSWER)).toBe(false);
  });
});

test('claims are one text of ASCII, whatever names stand in them, and no two claims have the same', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), fc.string({ unit: 'binary' }), (one, other) => {
      const text = claimsText({ ...ANSWER, workflowId: one });
      expect(text).toMatch(/^[\x20-\x7e]*$/);
      expect(JSON.parse(text)).toEqual({ ...ANSWER, workflowId: one });
      expect(text === claimsText({ ...ANSWER, workflowId: other })).toBe(one === other);
    }),
  );
});

describe('the digest of what an activity is given', () => {
  test('leaves out which Temporal run asks: an answer of before a reset still counts (INV-D4)', () => {
    const input = { callId: 't1.c0', arguments: { to: 'ann' } };
    const asked = digestOfInput([{ ...input, runId: 'one', decidedIn: ['one'] }]);
    expect(digestOfInput([{ ...input, runId: 'two', decidedIn: ['one', 'two'] }])).toBe(asked);
    expect(digestOfInput([{ ...input, arguments: { to: 'bob' }, runId: 'one', decidedIn: ['one'] }])).not.toBe(asked);
  });

  test('is of all that is given', () => {
    expect(digestOfInput(['acme'])).toBe(digestOfArguments(['acme']));
    expect(digestOfInput(['acme'])).not.toBe(digestOfInput(['other']));
    expect(digestOfInput([{}, 'more'])).not.toBe(digestOfInput([{}]));
  });
});
