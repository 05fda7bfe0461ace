/** Answers to a server's questions: which fit, and which are given again. */
import { describe, expect, test } from '@jest/globals';
import type { InputRequests, InputResponse } from '../../../../contracts/schemas/input.ts';
import { answersTo, problemInResponses, withAnswers } from '../../../../domain/request/input.ts';

const REQUESTS: InputRequests = {
  confirm: {
    kind: 'form',
    message: 'Sure?',
    fields: { sure: { type: 'boolean' } },
    required: ['sure'],
    hash: '1'.repeat(64),
  },
  page: { kind: 'url', message: 'Sign in.', url: 'https://id.example/', host: 'id.example', hash: '2'.repeat(64) },
};
const YES: InputResponse = { action: 'accept', content: { sure: true } };
const WENT: InputResponse = { action: 'accept' };

describe('answers fit', () => {
  test.each([[{ confirm: YES, page: WENT }], [{ confirm: { action: 'decline' }, page: { action: 'cancel' } }]])(
    '%j',
    (given) => {
      expect(problemInResponses(REQUESTS, given)).toBeUndefined();
    },
  );
});

describe('answers that do not fit are refused by the name of what is wrong', () => {
  test.each<[unknown, string, string]>([
    ['x', '', 'must be an object with an answer for each request'],
    [{ other: YES }, 'other', 'is not among the requests'],
    [{ confirm: YES }, 'page', 'has no answer'],
    [{ confirm: 'yes', page: WENT }, 'confirm', 'must be an object with an action'],
    [{ confirm: { action: 'accept', content: {} }, page: WENT }, 'confirm.content.sure', 'is required'],
    [{ confirm: { action: 'accept' }, page: WENT }, 'confirm.content', 'must be an object with the fields of the form'],
    [{ confirm: { action: 'approve' }, page: WENT }, 'confirm.action', 'must be accept or decline or cancel'],
    [{ confirm: { ...YES, extra: 1 }, page: WENT }, 'confirm.extra', 'is no field of an answer'],
    [{ confirm: { action: 'decline', content: {} }, page: WENT }, 'confirm.content', 'goes only with an accepted form'],
    [{ confirm: YES, page: { ...WENT, content: {} } }, 'page.content', 'goes only with an accepted form'],
  ])('%j: %s %s', (given, path, reason) => {
    expect(problemInResponses(REQUESTS, given)).toEqual({ path, reason });
  });

  test('together they have a bound: they are carried as long as the call is open', () => {
    const fields = Object.fromEntries(['a', 'b', 'c', 'd'].map((name) => [name, { type: 'text' as const }]));
    const requests: InputRequests = {
      long: { kind: 'form', message: 'x', fields, required: [], hash: '3'.repeat(64) },
    };
    const content = Object.fromEntries(Object.keys(fields).map((name) => [name, 'x'.repeat(10_000)]));
    expect(problemInResponses(requests, { long: { action: 'accept', content } })).toEqual({
      path: '',
      reason: 'must have at most 32768 bytes',
    });
  });
});

describe('what was answered before', () => {
  const answers = withAnswers([], REQUESTS, { confirm: YES, page: WENT });

  test('answers the same questions again', () => {
    expect(answersTo(REQUESTS, answers)).toEqual({ responses: { confirm: YES, page: WENT }, missing: [] });
  });

  test('INV-G4: does not answer another question under the same key', () => {
    const changed = { ...REQUESTS, confirm: { hash: '9'.repeat(64) } };
    expect(answersTo(changed, answers)).toEqual({ responses: { page: WENT }, missing: ['confirm'] });
  });

  test('does not answer twice in one pass', () => {
    expect(answersTo(REQUESTS, answers, ['1'.repeat(64)]).missing).toEqual(['confirm']);
  });

  test('gives way to a newer answer to the same question; what was not answered now stays', () => {
    const no: InputResponse = { action: 'accept', content: { sure: false } };
    const newer = withAnswers(answers, REQUESTS, { confirm: no });
    expect(newer).toHaveLength(2);
    expect(answersTo(REQUESTS, newer).responses).toEqual({ confirm: no, page: WENT });
  });
});
