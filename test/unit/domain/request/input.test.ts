/** Answers to a server's questions: which fit, and which are given again. */
import { describe, expect, test } from '@jest/globals';
import type { FormField, InputRequests, InputResponse } from '../../../../contracts/schemas/input.ts';
import {
  ANSWER_ROOM_BYTES,
  answersTo,
  askedBytes,
  LONGEST_TEXT,
  MOST_ASKED_BYTES,
  problemInForm,
  problemInResponses,
  withAnswers,
} from '../../../../domain/request/input.ts';
import { askedForInput, refuseProvision } from '../../../../domain/request/provision.ts';
import { dispatched, ended } from '../../../../domain/request/transitions.ts';
import { callOf, type Run } from '../../../../domain/state/run.ts';
import { byteLength, canonicalJson } from '../../../../domain/text/canonical.ts';
import { identicalCalls } from '../../../support/builders/call.ts';
import { allowVerdict } from '../../../support/builders/judgement.ts';
import { flyingRun, pausing } from '../../../support/builders/pause.ts';
import { askedOf, askedRun, NAME, providedRun, provisionIn, serverAsks } from '../../../support/builders/provision.ts';
import { judgedRun, runIds } from '../../../support/builders/run.ts';
import { withCode } from '../../../support/refusal.ts';

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

test.each([[{ confirm: YES, page: WENT }], [{ confirm: { action: 'decline' }, page: { action: 'cancel' } }]])(
  'answers fit: %j',
  (given) => {
    expect(problemInResponses(REQUESTS, given)).toBeUndefined();
  },
);

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

/** Answers to forms, field by field (MCP 2026-07-28, client/elicitation). */
describe('forms', () => {
  function problem(field: FormField, value: unknown, required: string[] = []): string | undefined {
    const form = { kind: 'form' as const, message: 'x', fields: { it: field }, required, hash: 'a'.repeat(64) };
    const found = problemInForm(form, value === undefined ? {} : { it: value });
    if (found !== undefined) expect(found.path).toBe('it');
    return found?.reason;
  }

  const OPTIONS = [{ value: 'a' }, { value: 'b', title: 'B' }];

  describe('a form', () => {
    test('what is no object, and a field that it does not have, are refused by name', () => {
      const form = { kind: 'form' as const, message: 'x', fields: {}, required: [], hash: 'a'.repeat(64) };
      expect(problemInForm(form, 'x')).toEqual({ path: '', reason: 'must be an object with the fields of the form' });
      expect(problemInForm(form, { other: 1 })).toEqual({ path: 'other', reason: 'is no field of the form' });
      expect(problemInForm(form, { constructor: 1 })).toMatchObject({ path: 'constructor' });
      expect(problemInForm(form, {})).toBeUndefined();
    });

    test('only what is required must be there', () => {
      expect(problem({ type: 'boolean' }, undefined)).toBeUndefined();
      expect(problem({ type: 'boolean' }, undefined, ['it'])).toBe('is required');
      expect(problem({ type: 'boolean' }, false, ['it'])).toBeUndefined();
    });
  });

  test.each<[FormField, unknown, string | undefined]>([
    [{ type: 'text' }, 'x', undefined],
    [{ type: 'text' }, 7, 'must be text'],
    [{ type: 'text', minLength: 2 }, 'x', 'must have at least 2 characters'],
    [{ type: 'text', maxLength: 1 }, 'xy', 'must have at most 1 characters'],
    // One character, two UTF-16 units.
    [{ type: 'text', maxLength: 1 }, '😀', undefined],
    [{ type: 'text', maxLength: 99_999 }, 'x'.repeat(LONGEST_TEXT + 1), `must have at most ${LONGEST_TEXT} characters`],
    [{ type: 'text', format: 'email' }, 'ann@example.com', undefined],
    [{ type: 'text', format: 'email' }, 'ann', 'must be an e-mail address'],
    [{ type: 'text', format: 'uri' }, 'https://example.com/x', undefined],
    [{ type: 'text', format: 'uri' }, 'example.com', 'must be a URI with its scheme'],
    [{ type: 'text', format: 'date' }, '2026-02-28', undefined],
    [{ type: 'text', format: 'date' }, '2026-02-30', 'must be a date like 2026-01-31'],
    [{ type: 'text', format: 'date' }, '2026-13-01', 'must be a date like 2026-01-31'],
    [{ type: 'text', format: 'date' }, 'soon', 'must be a date like 2026-01-31'],
    [{ type: 'text', format: 'date-time' }, '2026-01-31T09:00:00+01:00', undefined],
    [{ type: 'text', format: 'date-time' }, '2026-01-31T25:00:00Z', 'must be a time like 2026-01-31T09:00:00Z'],
    [{ type: 'text', format: 'date-time' }, '2026-02-30T09:00:00Z', 'must be a time like 2026-01-31T09:00:00Z'],
    [{ type: 'text', format: 'date-time' }, '2026-01-31', 'must be a time like 2026-01-31T09:00:00Z'],
    [{ type: 'number' }, 1.5, undefined],
    [{ type: 'number' }, '1', 'must be a number'],
    [{ type: 'number' }, Number.POSITIVE_INFINITY, 'must be a number'],
    [{ type: 'integer' }, 1.5, 'must be a whole number'],
    [{ type: 'integer', minimum: 2 }, 1, 'must be at least 2'],
    [{ type: 'number', maximum: 2 }, 3, 'must be at most 2'],
    [{ type: 'number', minimum: 2, maximum: 2 }, 2, undefined],
    [{ type: 'boolean' }, 'true', 'must be true or false'],
    [{ type: 'choice', options: OPTIONS }, 'b', undefined],
    [{ type: 'choice', options: OPTIONS }, 'B', 'must be one of 2 options'],
    [{ type: 'choices', options: OPTIONS }, ['b', 'a'], undefined],
    [{ type: 'choices', options: OPTIONS }, 'a', 'must be a list of some of 2 options'],
    [{ type: 'choices', options: OPTIONS }, ['c'], 'must be a list of some of 2 options'],
    [{ type: 'choices', options: OPTIONS }, ['a', 'a'], 'must name each option once'],
    [{ type: 'choices', options: OPTIONS, minItems: 1 }, [], 'must name at least 1 options'],
    [{ type: 'choices', options: OPTIONS, maxItems: 1 }, ['a', 'b'], 'must name at most 1 options'],
  ])('its fields: %j and %j: %s', (field, value, reason) => {
    expect(problem(field, value)).toBe(reason);
  });

  test('a problem never quotes what was answered', () => {
    expect(problem({ type: 'integer', minimum: 1 }, 'secret-7')).not.toContain('secret-7');
    expect(problem({ type: 'choice', options: OPTIONS }, 'secret-7')).not.toContain('secret-7');
  });
});

// What a run keeps of servers' questions has a bound over all its calls: it must be able to continue as new (INV-D3).

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
    expect(refuseProvision(full, askedOf(asked), wordy(left + 1))).toMatchObject(
      withCode('LIMIT_REACHED', 'all open calls'),
    );
  });
});
