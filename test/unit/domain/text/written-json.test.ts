/** What `JSON.parse` changes is found, and nothing else is taken for it (INV-G1: people see the call that is sent). */
import fc from 'fast-check';
import { expect, test } from '@jest/globals';
import {
  changedNumber,
  changedNumberText,
  isKept,
  isTooDeep,
  isWholly,
  namesPrototype,
  repeatedMember,
  repeatedMemberText,
  roundsNumber,
} from '../../../../domain/text/written-json.ts';
import { forAll } from '../../../support/for-all.ts';

test.each([
  ['{"id": 9007199254740993}', '9007199254740993'],
  ['[1, -12345678901234567]', '-12345678901234567'],
  ['{"limit": 1e999}', '1e999'],
  ['-1e999', '-1e999'],
  [`[${'9'.repeat(400)}]`, '9'.repeat(400)],
  ['{"a\\"": 9007199254740993, "b": 1}', '9007199254740993'],
])('%s holds a number that would become another one, or none', (text, number) => {
  expect(changedNumber(text)).toBe(number);
});

test.each([
  '{"id": 9007199254740992, "size": 1000000000000000000}',
  '{"text": "9007199254740993 and 1e999", "\\"9007199254740993": 0.1}',
  '[1000000000000000000000, 100000000000000000000, -9007199254740992, 123456789012345680000]',
  '[0.30000000000000004, 1e21, -0, 1.7976931348623157e308]',
  // In wei, 1,000 and 1,234.5 ether: exact, though written in another way.
  '[1000000000000000000000, -1234500000000000000000]',
  '"unfinished 9007199254740993',
  'no JSON',
  '',
])('%s is kept', (text) => {
  expect(changedNumber(text)).toBeUndefined();
  expect(roundsNumber(text)).toBe(false);
});

test('it is quoted, and no more of it than fits into a line', () => {
  expect(changedNumberText('9'.repeat(50))).toMatch(/^holds 9{40}, which/);
});

test.each([`1.${'0'.repeat(500_000)}1`, `${'1'.repeat(500_000)}`, `0.${'0'.repeat(500_000)}1`])(
  'a number of half a million digits is looked at in linear time: minutes otherwise, beyond the time of a test',
  (number) => {
    expect(isKept(number)).toBe(false);
    changedNumber(number);
  },
);

test('what is no decimal number is not kept as one', () => {
  expect(isKept('0x10')).toBe(false);
});

test('an endless number is no rounded one', () => {
  expect(roundsNumber('1e999')).toBe(false);
  expect(roundsNumber('9007199254740993')).toBe(true);
});

test('a text is wholly in its value, unless a member stands twice or a number is rounded', () => {
  // Sound: `JSON.parse` makes nothing but JSON values.
  const isWhole = (text: string): boolean => isWholly(text);
  expect(isWhole('{"a": [1, {"b": "c: d"}, null], "e": {}}')).toBe(true);
  expect(isWhole('{"a": 1, "a": 2}')).toBe(false);
  expect(isWhole('{"a": 9007199254740993}')).toBe(false);
});

test.each([
  ['{"a": 1, "b": {"a": 2}, "a": 3}', '"a"'],
  ['[{"a": 1}, {"b\\"}": "{", "b\\u0022}": ":"}]', '"b\\u0022}"'],
  ['{"a": [{"__proto__": 1, "__proto__": 2}]}', '"__proto__"'],
])('%s has a member that stands twice', (text, name) => {
  expect(repeatedMember(text)).toBe(name);
  expect(repeatedMemberText(name)).toBe(`has two members called ${name}; write one`);
});

test.each(['{"a": {"a": {"a": "a: {"}}, "b": [{"c": 1}, {"c": 1}]}', '[]', '"a"', '"a": 1, "a": 2'])(
  '%s has none',
  (text) => {
    expect(repeatedMember(text)).toBeUndefined();
  },
);

test('a member called __proto__ is found in whatever way it is written, and nothing else is taken for it', () => {
  expect(namesPrototype('{"a": [{"\\u005f_proto__": 1}]}')).toBe(true);
  expect(namesPrototype('{"a": "__proto__", "proto": {"b": "\\"__proto__\\": 1"}}')).toBe(false);
});

test('levels are counted outside of texts', () => {
  const nested = (levels: number): string => `{"[[": ${'['.repeat(levels)}"{"${']'.repeat(levels)}}`;
  expect(isTooDeep(nested(999), 1_000)).toBe(false);
  expect(isTooDeep(nested(1_000), 1_000)).toBe(true);
  expect(isTooDeep(`"${'['.repeat(2_000)}"${'[]'.repeat(2_000)}`, 1_000)).toBe(false);
});

test('what is written from a value is wholly in it', () => {
  forAll(fc.jsonValue(), (value) => {
    const text = JSON.stringify(value);
    expect(changedNumber(text)).toBeUndefined();
    expect(repeatedMember(text)).toBeUndefined();
    // Sound: a JSON value, made by `JSON.parse`.
    expect(isWholly(text)).toBe(true);
  });
});
