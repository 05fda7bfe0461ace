/** What is believed of a worker that is lost, and how often an answer is asked for. */
import { describe, expect, test } from '@jest/globals';
import type { DispatchResult } from '../../../../contracts/wire/tools.ts';
import { afterAsking, isResumable, lostAnswer, resumed } from '../../../../domain/legacy-2025/resumption.ts';
import { flyingRun, UNSURE } from '../../../support/builders/pause.ts';

const SEALED = { protected: 'p', iv: 'i', ciphertext: 'c', tag: 't' };
const AT = '2026-01-01T00:00:05.000Z';

describe('the last heartbeat of a worker that is lost', () => {
  test('says when it sent the call, and where the answer comes', () => {
    expect(lostAnswer('The worker was lost.', { phase: 'sent', sentAt: AT, progress: 2, resume: SEALED })).toEqual({
      kind: 'ended',
      outcome: { kind: 'unknown', code: 'OUTCOME_UNKNOWN', message: 'The worker was lost.' },
      sent: { at: AT, progress: 2 },
      resume: SEALED,
    });
  });

  test.each<[string, unknown]>([
    ['nothing', undefined],
    ['a text', 'sent'],
    ['no place', { phase: 'connecting' }],
    ['a place that is none', { resume: 'here' }],
    ['a place without a tag', { resume: { ...SEALED, tag: undefined } }],
    ['a place without a header', { resume: { ...SEALED, protected: 1 } }],
    ['a place without an iv', { resume: { ...SEALED, iv: null } }],
    ['a place without a text', { resume: { ...SEALED, ciphertext: {} } }],
    ['a place that is too long', { resume: { ...SEALED, ciphertext: 'x'.repeat(262_145) } }],
  ])('that says %s leaves nothing to ask for', (_, details) => {
    expect(lostAnswer('Lost.', details)).toEqual({
      kind: 'ended',
      outcome: { kind: 'unknown', code: 'OUTCOME_UNKNOWN', message: 'Lost.' },
    });
  });

  test('a place that was sealed with many long tokens is one, too (INV-S1)', () => {
    const resume = { ...SEALED, ciphertext: 'x'.repeat(100_000) };
    expect(lostAnswer('Lost.', { resume })).toMatchObject({ resume });
  });

  test('what stands beside the four parts is left out', () => {
    expect(lostAnswer('Lost.', { resume: { ...SEALED, session: 'clear' } }).resume).toEqual(SEALED);
  });
});

describe('an answer is asked for', () => {
  const lost: DispatchResult = { kind: 'ended', outcome: UNSURE, resume: SEALED };

  test('three times, where workers are lost that ask for it', () => {
    expect([0, 1, 2, 3].map((earlier) => isResumable(lost, earlier))).toEqual([true, true, true, false]);
  });

  test.each<[string, DispatchResult]>([
    ['nobody knows where it comes', { kind: 'ended', outcome: UNSURE }],
    ['it is known', { ...lost, outcome: { kind: 'cancelled', reason: 'x' } }],
    ['nothing was sent', { kind: 'not-sent', code: 'TOOL_UNAVAILABLE', message: 'x' }],
  ])('not where %s', (_, result) => {
    expect(isResumable(result, 0)).toBe(false);
  });

  test('where it is not had, what was known before is known still', () => {
    const { resume: _, ...before } = { ...lost, outcome: UNSURE, sent: { at: AT }, token: { strategy: 'none' } };
    const inVain = { ...UNSURE, message: 'the server has it no more' };
    expect(afterAsking(before, { kind: 'ended', outcome: inVain })).toEqual({ ...before, outcome: inVain });
    const answer: DispatchResult = { kind: 'ended', outcome: { kind: 'cancelled', reason: 'x' } };
    expect(afterAsking(before, answer)).toBe(answer);
    const unsent: DispatchResult = { kind: 'not-sent', code: 'TOOL_UNAVAILABLE', message: 'x' };
    expect(afterAsking(before, unsent)).toBe(unsent);
  });

  test('the ledger says of which attempt; of a call that is not under way it says nothing', () => {
    const run = flyingRun();
    expect(resumed(run, 't1.c0')).toEqual({ run, facts: [{ kind: 'resumed', callId: 't1.c0', attempt: 1 }] });
    expect(resumed(run, 't9.c9')).toEqual({ run, facts: [] });
  });
});
