/** Words of the command line as answers to a server's questions. */
import { describe, expect, test } from '@jest/globals';
import { responsesFrom } from '../../../../cli/session/input-values.ts';
import type { InputRequests } from '../../../../contracts/schemas/input.ts';

const hash = '1'.repeat(64);
const FORM = {
  kind: 'form' as const,
  message: 'Who?',
  fields: {
    name: { type: 'text' as const },
    seats: { type: 'integer' as const },
    sure: { type: 'boolean' as const },
    extras: { type: 'choices' as const, options: [{ value: 'a' }, { value: 'b' }] },
  },
  required: [],
  hash,
};
const ONE: InputRequests = { who: FORM };
const TWO: InputRequests = { who: FORM, also: { ...FORM, fields: { name: { type: 'text' } } } };
const PAGE: InputRequests = { page: { kind: 'url', message: 'M', url: 'https://a.example/', host: 'a.example', hash } };

describe('--set', () => {
  test('gives each field its type; several options are said one by one', () => {
    const set = ['name=a=b', 'seats=2', 'sure=true', 'extras=a', 'extras=b'];
    expect(responsesFrom(ONE, { set })).toEqual({
      who: { action: 'accept', content: { name: 'a=b', seats: 2, sure: true, extras: ['a', 'b'] } },
    });
  });

  test('what is no number or truth stays text: the run refuses it by the name of the field', () => {
    expect(responsesFrom(ONE, { set: ['seats=two', 'sure=no'] })).toEqual({
      who: { action: 'accept', content: { seats: 'two', sure: 'no' } },
    });
    expect(responsesFrom(ONE, { set: ['seats=', 'sure=false'] })).toEqual({
      who: { action: 'accept', content: { seats: '', sure: false } },
    });
    // Another number would be sent in its place.
    expect(responsesFrom(ONE, { set: ['seats=9007199254740993'] })).toEqual({
      who: { action: 'accept', content: { seats: '9007199254740993' } },
    });
  });

  test('of several forms names the question', () => {
    expect(responsesFrom(TWO, { set: ['who.name=Ann', 'also.name=Bob'] })).toEqual({
      who: { action: 'accept', content: { name: 'Ann' } },
      also: { action: 'accept', content: { name: 'Bob' } },
    });
    expect(() => responsesFrom(TWO, { set: ['name=Ann'] })).toThrow('it asks for: who.name');
  });

  test.each(['other=1', 'constructor=1', 'name', '=x'])('%s is refused before anything is sent', (word) => {
    expect(() => responsesFrom(ONE, { set: [word] })).toThrow('Nothing was sent.');
  });

  test('of a page there is nothing to set', () => {
    expect(() => responsesFrom(PAGE, { set: ['x=1'] })).toThrow('no fields');
  });
});

test('--file: holds the fields of the only form, or of each form by its question', () => {
  const who = { action: 'accept', content: { name: 'Ann' } };
  expect(responsesFrom(ONE, { content: { name: 'Ann' } })).toEqual({ who });
  expect(responsesFrom(ONE, { content: { who: { name: 'Ann' } } })).toEqual({ who });
  expect(responsesFrom(TWO, { content: { who: { name: 'Ann' } } })).toEqual({ who });
  expect(() => responsesFrom(TWO, { content: { name: 'Ann' } })).toThrow('by its question: who, also');
  expect(() => responsesFrom(ONE, { content: ['x'] })).toThrow('an object');
});

describe('--accept', () => {
  test('is the word that a page was opened; without it a page has no answer', () => {
    expect(responsesFrom(PAGE, { accept: true })).toEqual({ page: { action: 'accept' } });
    expect(responsesFrom(PAGE, {})).toEqual({});
  });

  test('sends a form that needs no field', () => {
    expect(responsesFrom(ONE, { accept: true })).toEqual({ who: { action: 'accept', content: {} } });
  });
});
