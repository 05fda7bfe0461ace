/** What is believed of a server's word on a task. */
import { describe, expect, test } from '@jest/globals';
import { createScrubber } from '../../../../../activities/scrubbing/scrubber.ts';
import type { Names, Trace } from '../../../../../activities/mcp/classify-failure.ts';
import { begunTask, isTask, wordOf } from '../../../../../activities/mcp/legacy-2025/begun-task.ts';

const names: Names = { server: 'mine', tool: 'dig', quote: (text) => text };
const plain = createScrubber([]);
const ID = 'task-0123456789';
const SESSION = 'session-0123456789';

function answered(
  result: Record<string, unknown>,
  session: { readonly sessionId?: string } = { sessionId: SESSION },
): Trace {
  return { kind: 'answered', answer: { kind: 'result', result }, session };
}

const begun = (task: Record<string, unknown>, session?: { readonly sessionId?: string }) =>
  begunTask(answered({ task }, session), names, (ids) => createScrubber(ids));

describe('a task in place of a result', () => {
  test('is one only where it was asked for, and where there is no result', () => {
    const task = { taskId: ID, status: 'working' };
    expect(isTask(answered({ task }))).toBe(true);
    expect(isTask({ kind: 'answered', answer: { kind: 'result', result: { task } } })).toBe(false);
    expect(isTask(answered({ task, content: [] }))).toBe(false);
    expect(isTask(answered({ task: 'one' }))).toBe(false);
    expect(isTask({ kind: 'answered', answer: { kind: 'error', code: 1, message: '' }, session: {} })).toBe(false);
  });

  test('INV-S1: its ids are in nothing but its id', () => {
    const ending = begun({
      taskId: ID,
      status: 'working',
      statusMessage: `at ${ID} in ${SESSION}`,
      pollInterval: 7,
      ttl: 9,
    });
    expect(ending).toEqual({
      kind: 'task',
      id: { taskId: ID, sessionId: SESSION },
      pollMs: 7,
      ttlMs: 9,
      message: 'at [redacted] in [redacted]',
    });
  });

  test.each([
    ['no id', { status: 'working' }],
    ['an empty id', { taskId: '', status: 'working' }],
    ['an id that is too long', { taskId: 'x'.repeat(2_049), status: 'working' }],
    ['no status', { taskId: ID }],
    ['a status that nobody knows', { taskId: ID, status: 'dreaming' }],
  ])('one with %s is not known to be anything', (_, task) => {
    expect(begun(task)).toMatchObject({ kind: 'unknown', code: 'OUTCOME_UNKNOWN' });
  });

  test('nor is one in a session whose id is too long', () => {
    expect(begun({ taskId: ID, status: 'working' }, { sessionId: 's'.repeat(2_049) })).toMatchObject({
      kind: 'unknown',
    });
  });
});

test.each([
  ['zero', 0],
  ['negative', -5],
  ['text', '5'],
  ['not finite', Number.POSITIVE_INFINITY],
  ['nothing', null],
])('a time that is %s is left out', (_, time) => {
  expect(wordOf({ status: 'working', pollInterval: time, ttl: time }, plain)).toEqual({ status: 'working' });
});

test('a message is one line, bounded, and no text at all where it is none', () => {
  const word = wordOf({ status: 'working', statusMessage: `a\n\u202eb ${'x'.repeat(500)}` }, plain);
  expect(word?.message).toMatch(/^a b x+… \(\d+ more characters\)$/);
  expect(wordOf({ status: 'working', statusMessage: 7 }, plain)).toEqual({ status: 'working' });
});
