/** What the model reads of an outcome: kinds told apart, no blind repeat invited (INV-X2, S2.5, B-14, F-5). */
import { describe, expect, test } from '@jest/globals';
import type { Outcome, ResultPart } from '../../../../contracts/schemas/call.ts';
import { modelText, resultText } from '../../../../domain/views/model-text.ts';
import { outcomes, toolResult } from '../../../support/builders/outcome.ts';

const artifact = { sha256: 'e'.repeat(64), bytes: 12, contentType: 'image/png' };
const kinds = Object.values(outcomes());

function textOf(outcome: Outcome): string {
  return modelText(outcome).text;
}

describe('an outcome', () => {
  test('INV-X2: no two kinds read alike, also with the same words in them', () => {
    const code = 'X';
    const message = 'same';
    const same: Outcome[] = [
      { kind: 'succeeded', result: toolResult({ content: [{ type: 'text', text: message }] }) },
      { kind: 'failed', code, message, executed: true },
      { kind: 'failed', code, message, executed: false },
      { kind: 'denied', code, message },
      { kind: 'rejected', by: message, reason: message },
      { kind: 'expired', deadline: message },
      { kind: 'cancelled', reason: message },
      { kind: 'unknown', code, message },
    ];
    expect(new Set(same.map(textOf)).size).toBe(same.length);
  });

  test('INV-X2: what a person recorded bears their name, is final, and cannot be said by a tool', () => {
    const text = 'It is there: note 7.';
    const result = toolResult({ content: [{ type: 'text', text }] });
    const done = modelText({ kind: 'succeeded', result, recordedBy: 'ann' });
    const gone = modelText({
      kind: 'failed',
      code: 'TOOL_FAILED',
      message: 'no note',
      executed: true,
      recordedBy: 'ann',
    });
    expect(done.text).toMatch(/ann has found out what became of it: it succeeded.*do not repeat the call/s);
    expect(done.text).toContain(text);
    expect(gone.text).toMatch(/ann has found out what became of it: it failed.*do not repeat the call/s);
    expect([done.isError, gone.isError]).toEqual([true, true]);
    expect(modelText({ kind: 'succeeded', result }).isError).toBe(false);
  });

  test('only success is no error', () => {
    for (const outcome of kinds) expect(modelText(outcome).isError).toBe(outcome.kind !== 'succeeded');
  });

  test('what was not executed says so in its first words, and nothing else does', () => {
    const unsent: Outcome = { kind: 'failed', code: 'TOOL_UNAVAILABLE', message: 'no route', executed: false };
    const { denied, rejected, expired, cancelled, succeeded, failed, unknown } = outcomes();
    for (const outcome of [denied, rejected, expired, cancelled, unsent])
      expect(textOf(outcome)).toMatch(/^Not executed/);
    for (const outcome of [succeeded, failed, unknown]) expect(textOf(outcome)).not.toMatch(/Not executed/);
  });

  test('S2.5, B-14: a refusal by policy or person says not to retry this exact call', () => {
    const { denied, rejected } = outcomes();
    for (const outcome of [denied, rejected]) expect(textOf(outcome)).toContain('Do not retry this exact tool call.');
  });

  test('B-14: a refusal that was given before names the call that got it, says that nobody was asked, and forbids another try', () => {
    const { denied, rejected } = outcomes();
    for (const outcome of [denied, rejected]) {
      const text = textOf({ ...outcome, repeatOf: 't1.c0' });
      expect(text).toMatch(/^Not executed: .*, as t1\.c0,/);
      expect(text).toContain('Nobody was asked again');
      expect(text).toContain('Do not retry this exact tool call.');
      expect(text).toContain(outcome.kind === 'denied' ? outcome.message : outcome.reason);
    }
  });

  test('B-13: a rejection gives the reason, but not the name, of the person', () => {
    const { text } = modelText({ kind: 'rejected', by: 'ann@example.com', reason: 'The amount is wrong.' });
    expect(text).toContain('The amount is wrong.');
    expect(text).not.toContain('ann');
  });

  test.each([
    ['wrong quarter', 'wrong quarter. Do not retry'],
    ['wrong quarter \n', 'wrong quarter. Do not retry'],
    ['The amount is wrong.', 'The amount is wrong. Do not retry'],
    ['Ann said "never!"', 'Ann said "never!" Do not retry'],
  ])('the words of a person or an operator do not run into ours: %j', (reason, read) => {
    expect(textOf({ kind: 'rejected', by: 'ann', reason })).toContain(`Reason given: ${read}`);
    expect(textOf({ kind: 'denied', code: 'POLICY_DENIED', message: reason })).toContain(`: ${read}`);
    const again = textOf({ kind: 'rejected', by: 'ann', reason, repeatOf: 't1.c0' });
    expect(again).toContain(read.replace('Do not retry', 'Nobody was asked again'));
  });

  test('F-5: an expired request is never called denied or rejected, and may be proposed again', () => {
    const { text } = modelText(outcomes().expired);
    expect(text).not.toMatch(/denied|refused|rejected by|person rejected/i);
    expect(text).toContain('This is no rejection');
    expect(text).toContain('may be proposed again');
    expect(text).toContain('2026-01-01T01:00:00.000Z');
  });

  test('INV-X1: an unknown outcome forbids repeating and says to find out first', () => {
    const { text } = modelText(outcomes().unknown);
    expect(text).toContain('not known whether this call was executed');
    expect(text).toContain('Do not repeat it');
  });

  test('codes and messages of refusals and failures are passed on', () => {
    for (const outcome of kinds) {
      if ('code' in outcome) expect(textOf(outcome)).toContain(`(${outcome.code})`);
      if ('message' in outcome) expect(textOf(outcome)).toContain(outcome.message);
    }
    expect(textOf({ kind: 'cancelled', reason: 'The run was stopped.' })).toContain('The run was stopped.');
  });

  test('a tool that failed with a result is shown by that result', () => {
    const result = toolResult({ content: [{ type: 'text', text: 'ENOSPC' }] });
    expect(textOf({ kind: 'failed', code: 'TOOL_FAILED', message: 'short', executed: true, result })).toBe(
      'The tool ran and reported an error (TOOL_FAILED).\nENOSPC',
    );
  });
});

describe('a result', () => {
  test('its texts are joined in order, unchanged', () => {
    const content: ResultPart[] = [
      { type: 'text', text: 'one' },
      { type: 'text', text: 'two\n' },
    ];
    expect(resultText({ content })).toBe('one\ntwo\n');
  });

  test.each<[string, ResultPart, string]>([
    [
      'an image',
      { type: 'image', mimeType: 'image/png', artifact },
      `[image image/png, 12 bytes, artifact ${artifact.sha256}]`,
    ],
    [
      'a sound',
      { type: 'audio', mimeType: 'audio/wav', artifact },
      `[audio audio/wav, 12 bytes, artifact ${artifact.sha256}]`,
    ],
    ['a link', { type: 'resource_link', uri: 'file:///a', name: 'a' }, '[resource a: file:///a]'],
    ['a resource with text', { type: 'resource', uri: 'file:///a', text: 'inside' }, 'inside'],
    [
      'a resource without',
      { type: 'resource', uri: 'file:///a', artifact },
      '[resource file:///a, kept as an artifact]',
    ],
  ])('%s is named in one line', (_what, part, text) => {
    expect(resultText({ content: [part] })).toBe(text);
  });

  test('structured content stands in where there is no other', () => {
    expect(resultText({ content: [], structured: { b: 1, a: 2 } })).toBe('{"a":2,"b":1}');
    expect(resultText({ content: [], structured: null })).toBe('null');
    expect(resultText(toolResult({ structured: { a: 1 } }))).toBe('done');
  });

  test('an empty result says that it is empty', () => {
    expect(resultText({ content: [] })).toBe('The tool returned no content.');
  });
});
