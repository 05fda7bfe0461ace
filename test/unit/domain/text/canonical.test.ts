/** Canonical JSON (RFC 8785): one text for one value, whoever writes it. */
import canonicalize from 'canonicalize';
import fc from 'fast-check';
import { describe, expect, test } from '@jest/globals';
import {
  byteLength,
  canonicalJson,
  fromBase64url,
  hashOf,
  sha256Hex,
  utf8Text,
} from '../../../../domain/text/canonical.ts';
import { jsonObject } from '../../../support/builders/arbitraries.ts';
import { forAll } from '../../../support/for-all.ts';

describe('canonical JSON', () => {
  test('is what an implementation that nobody here wrote gives', () => {
    const wellFormed = fc.jsonValue({ stringUnit: 'binary' });
    forAll(wellFormed, (value) => expect(canonicalJson(value)).toBe(canonicalize(value)));
  });

  test('follows RFC 8785 §3.2.3: fields in order of UTF-16 units, numbers as ECMAScript writes them', () => {
    const value = {
      '\u20ac': 'Euro',
      '\r': 'CR',
      '\ufb33': 'Dagesh',
      '1': 'One',
      '\ud83d\ude00': 'Smile',
      '\u0080': 'Control',
      '\u00f6': 'o',
    };
    expect(Object.values(JSON.parse(canonicalJson(value)) as object)).toHaveLength(7);
    expect(canonicalJson(value)).toBe(
      '{"\\r":"CR","1":"One","\u0080":"Control","\u00f6":"o","\u20ac":"Euro","\ud83d\ude00":"Smile","\ufb33":"Dagesh"}',
    );
    expect(canonicalJson([Number('333333333.33333329'), 1e30, 4.5, 2e-3, 1e-27, -0])).toBe(
      '[333333333.3333333,1e+30,4.5,0.002,1e-27,0]',
    );
  });

  test('leaves out fields that are undefined, as JSON does', () => {
    expect(canonicalJson({ b: undefined, a: 1 })).toBe('{"a":1}');
    expect(canonicalJson({ toJSON: null })).toBe('{"toJSON":null}');
  });

  test('has a form for text that is no legal Unicode, which models and servers do send, and tells such texts apart', () => {
    expect(canonicalJson({ text: '\ud800' })).toBe('{"text":"\\ud800"}');
    expect(hashOf('\ud800')).not.toBe(hashOf('\ud801'));
    forAll(jsonObject, (value) => hashOf(value).length === 64);
  });

  test('refuses what is no JSON value instead of hashing something else', () => {
    for (const value of [
      undefined,
      () => 1,
      Symbol('x'),
      Number.NaN,
      Number.POSITIVE_INFINITY,
      [Number.NaN],
      { a: () => 1 },
      1n,
      new Date(0),
    ]) {
      expect(() => canonicalJson(value)).toThrow(TypeError);
    }
  });
});

describe('sha256', () => {
  test('is that of FIPS 180-4, over UTF-8', () => {
    expect(sha256Hex('abc')).toBe('ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad');
    expect(sha256Hex('ä')).toBe('33e6d73fee82904c8d7afb78de1154d1e8dc2a0edb08120e63df5b9385c2d9cc');
  });

  test('a value is hashed by its canonical text', () => {
    expect(hashOf({ b: 1, a: [true] })).toBe(sha256Hex('{"a":[true],"b":1}'));
  });

  test('length is counted in bytes, not characters', () => {
    expect([byteLength(''), byteLength('abc'), byteLength('ä€😀')]).toEqual([0, 3, 9]);
  });
});

/** One spelling for the same bytes: what is signed cannot be written in another way (D-1). */
describe('base64url', () => {
  test('reads what Node writes', () => {
    forAll(fc.uint8Array(), (bytes) => {
      expect(fromBase64url(Buffer.from(bytes).toString('base64url'))).toEqual(Uint8Array.from(bytes));
    });
  });

  test.each([
    ['padding', 'YQ=='],
    ['the other alphabet', '+/+/'],
    ['a length that no bytes have', 'A'],
    ['bits that stand for nothing', 'YR'],
    ['white space', 'YW Jj'],
  ])('refuses %s', (_what, text) => {
    expect(fromBase64url(text)).toBeUndefined();
  });

  test('reads UTF-8, and nothing else', () => {
    forAll(fc.string({ unit: 'grapheme' }), (text) => expect(utf8Text(Buffer.from(text))).toBe(text));
    expect(utf8Text(Uint8Array.of(0xff))).toBeUndefined();
    expect(utf8Text(Uint8Array.of(0xc0, 0x80))).toBeUndefined();
  });
});
