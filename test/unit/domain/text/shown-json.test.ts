/** Arguments as a person reads them before they decide (G-6): all of them, in order, with long texts cut one by one. */
import fc from 'fast-check';
import { describe, expect, test } from '@jest/globals';
import { canonicalJson, sha256Hex } from '../../../../domain/text/canonical.ts';
import { spaced, visible } from '../../../../domain/text/escape.ts';
import { jsonLine, jsonLines } from '../../../../domain/text/shown-json.ts';
import { jsonObject, jsonValue } from '../../../support/builders/arbitraries.ts';
import { forAll } from '../../../support/for-all.ts';

describe('a value in one line', () => {
  test('is its canonical form, made visible, where nothing is cut', () => {
    forAll(jsonValue, (value) => {
      expect(jsonLine(value)).toEqual({ text: spaced(canonicalJson(value)), cuts: 0 });
    });
  });

  test('cuts each long text and key by itself, and says its length and digest', () => {
    const [long, key] = ['a'.repeat(30), 'k'.repeat(12)];
    expect(jsonLine({ [key]: [long, 1, 'b'] }, 10)).toEqual({
      text: `{"kkkkkkkkkk"…(12 characters, sha256 ${sha256Hex(key).slice(0, 12)}):["aaaaaaaaaa"…(30 characters, sha256 ${sha256Hex(long).slice(0, 12)}),1,"b"]}`,
      cuts: 2,
    });
  });

  test('shows every number, word and name of short texts, however many long ones stand before them', () => {
    forAll(jsonObject, fc.integer(), (value, amount) => {
      const { text } = jsonLine({ a: 'x'.repeat(500), m: value, z: { amount } }, 40);
      expect(text.endsWith(`,"z":{"amount":${amount}}}`)).toBe(true);
      expect(visible(text)).toBe(text);
    });
  });

  test('leaves out what JSON leaves out, and keeps a member called __proto__', () => {
    const value: unknown = JSON.parse('{"__proto__": 1}');
    expect(jsonLine(value).text).toBe('{"__proto__":1}');
    expect(jsonLine({ a: undefined, b: null }).text).toBe('{"b":null}');
  });
});

describe('a value in lines', () => {
  test('is one line where it is short, else one for each member', () => {
    const value = { b: 'x', a: [1, 2] };
    expect(jsonLines(value, undefined, 40).text).toBe('{"a":[1,2],"b":"x"}');
    expect(jsonLines(value, undefined, 10).text).toBe('{\n  "a":[1,2],\n  "b":"x"\n}');
    expect(jsonLines({ b: 'xyz', __proto__: null }, 2, 10).cuts).toBe(1);
  });

  test('holds the same as in one line', () => {
    forAll(jsonObject, (value) => {
      const { text } = jsonLines(value, undefined, 0);
      expect(text.replaceAll(/\n(?: {2})?/g, '').replaceAll(/,$/gm, ',')).toBe(
        Object.keys(value).length === 0 ? '{}' : jsonLine(value).text,
      );
    });
  });
});
