/** The rules on URLs and addresses: no textual form of a blocked address passes, and no public one is blocked (F28). */
import { isIP } from 'node:net';
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { isNameable, RANGES } from '../../../../activities/egress/address.ts';
import { addressObjection, type EgressRules, urlObjection } from '../../../../activities/egress/fetch.ts';
import { forAll, forMany } from '../../../support/for-all.ts';

const NOTHING: EgressRules = { allowLoopback: false, allowInsecure: true, allowPrivate: [] };
const PRIVATE = RANGES.filter(({ kind }) => kind === 'private').map(({ cidr }) => cidr);
/** All that a configuration can say. */
const EVERYTHING: EgressRules = { allowLoopback: true, allowInsecure: true, allowPrivate: PRIVATE };

const number = (value: bigint, base: number): string =>
  `${base === 16 ? '0x' : base === 8 ? '0' : ''}${value.toString(base)}`;
const dotted = (value: bigint): string => [24n, 16n, 8n, 0n].map((shift) => (value >> shift) & 255n).join('.');
const grouped = (value: bigint): string =>
  Array.from({ length: 8 }, (_, at) => ((value >> BigInt(112 - 16 * at)) & 0xffffn).toString(16)).join(':');

/** Any way to write an IPv4 address into a URL. */
function writtenIpv4(value: bigint): fc.Arbitrary<string> {
  const bases = fc.array(fc.constantFrom(8, 10, 16), { minLength: 4, maxLength: 4 });
  return fc
    .tuple(bases, fc.integer({ min: 1, max: 4 }), fc.constantFrom('', '.'), fc.nat(4))
    .map(([base, parts, dot, dress]) => {
      const head = Array.from({ length: parts - 1 }, (_, at) => (value >> BigInt(24 - 8 * at)) & 255n);
      const tail = value & ((1n << BigInt(8 * (5 - parts))) - 1n);
      const text = [...head, tail].map((part, at) => number(part, base[at] ?? 10)).join('.');
      const host = [
        text,
        text.toUpperCase(),
        text.replaceAll(/\d/g, (digit) => `%3${digit}`),
        text.replaceAll(/\d/g, (digit) => String.fromCodePoint(0xff10 + Number(digit))),
        text.replaceAll('.', '。'),
      ][dress];
      return `${host}${dot}`;
    });
}

/** Any way to write an IPv6 address. */
function writtenIpv6(value: bigint): fc.Arbitrary<string> {
  const full = grouped(value);
  const tail = dotted(value & 0xffff_ffffn);
  const short = new URL(`http://[${full}]`).hostname.slice(1, -1);
  const padded = full.replaceAll(/[0-9a-f]+/g, (group) => group.padStart(4, '0'));
  return fc.constantFrom(full, full.toUpperCase(), short, padded, full.replace(/[^:]+:[^:]+$/, tail));
}

/** The first address of a range as a number, read by the text's own rules (RFC 4291 §2.2). */
function firstOf(cidr: string): { readonly value: bigint; readonly bits: 32 | 128; readonly span: bigint } {
  const [text = '', prefix = ''] = cidr.split('/');
  const bits = isIP(text) === 4 ? 32 : 128;
  const [before = '', after = ''] = text.split('::');
  const [head, tail] = [before, after].map((groups) => groups.split(':').filter((group) => group !== ''));
  const middle = Array.from({ length: 8 - (head?.length ?? 0) - (tail?.length ?? 0) }, () => '0');
  const parts =
    bits === 32 ? text.split('.') : [...(head ?? []), ...middle, ...(tail ?? [])].map((group) => `0x${group}`);
  const value = parts.reduce((sum, part) => (sum << (bits === 32 ? 8n : 16n)) | BigInt(part), 0n);
  return { value, bits, span: 1n << BigInt(bits - Number(prefix)) };
}

function within(cidr: string): fc.Arbitrary<{ readonly value: bigint; readonly bits: 32 | 128 }> {
  const { bits, value, span } = firstOf(cidr);
  const offset = fc.oneof(fc.constant(0n), fc.constant(span - 1n), fc.bigInt(0n, span - 1n));
  return offset.map((more) => ({ bits, value: value + more }));
}

const written = ({ value, bits }: { value: bigint; bits: 32 | 128 }) =>
  bits === 32
    ? fc.oneof(
        writtenIpv4(value),
        writtenIpv6(0xffff_0000_0000n | value).map((text) => `[${text}]`),
      )
    : writtenIpv6(value).map((text) => `[${text}]`);

describe('every textual form of every blocked address', () => {
  test.each(RANGES.map(({ cidr, is }) => [cidr, is]))('%s, %s: no URL and no DNS answer of it passes', (cidr) => {
    const forms = within(cidr).chain((address) => fc.tuple(fc.constant(address), written(address)));
    forMany({ numRuns: 100 }, forms, ([{ value, bits }, host]) => {
      expect(urlObjection(`https://${host}/`, NOTHING)).toEqual(expect.any(String));
      const answer = bits === 32 ? dotted(value) : grouped(value);
      expect(addressObjection(answer, NOTHING, 'public.example')).toEqual(expect.any(String));
    });
  });

  const NEVER = RANGES.filter(({ kind }) => kind === 'metadata' || kind === 'special');
  test.each(NEVER.map(({ cidr, is }) => [cidr, is]))('%s, %s: whatever a configuration says', (cidr) => {
    const forms = within(cidr).chain(written);
    forAll(forms, (host) => {
      expect(urlObjection(`https://${host}/`, EVERYTHING)).toEqual(expect.any(String));
    });
  });
});

describe('addresses', () => {
  const ranges = RANGES.map(({ cidr }) => firstOf(cidr));
  const isHeld = (given: bigint, width: 32 | 128): boolean =>
    ranges.some(({ value, bits, span }) => bits === width && given >= value && given < value + span);
  const isBlocked = (value: bigint, width: 32 | 128): boolean =>
    isHeld(value, width) || (width === 128 && value >> 125n !== 1n);

  test('are judged as their numbers are: nothing public is blocked', () => {
    const ipv4 = fc.oneof(
      fc.bigInt(0n, (1n << 32n) - 1n),
      fc.constantFrom(...RANGES).chain(({ cidr }) => near(cidr, 32)),
    );
    forMany({ numRuns: 1_000 }, ipv4, (value) => {
      const address = dotted(value);
      expect([address, addressObjection(address, NOTHING) !== undefined]).toEqual([address, isBlocked(value, 32)]);
    });
    const ipv6 = fc.oneof(
      fc.bigInt(0n, (1n << 128n) - 1n),
      fc.constantFrom(...RANGES).chain(({ cidr }) => near(cidr, 128)),
    );
    forMany({ numRuns: 1_000 }, ipv6, (value) => {
      const address = grouped(value);
      expect([address, addressObjection(address, NOTHING) !== undefined]).toEqual([address, isBlocked(value, 128)]);
    });
  });

  /** The last before a range, the first after it. */
  function near(cidr: string, bits: 32 | 128): fc.Arbitrary<bigint> {
    const at = firstOf(cidr);
    if (at.bits !== bits) return fc.constant(8n);
    const top = (1n << BigInt(bits)) - 1n;
    const after = at.value + at.span;
    return fc.constantFrom(at.value === 0n ? 0n : at.value - 1n, after > top ? top : after);
  }

  test.each(['1.1.1.1', '9.9.9.9', '172.15.255.255', '172.32.0.0', '100.63.255.255', '2606:4700:4700::1111'])(
    'public: %s',
    (address) => {
      expect(addressObjection(address, NOTHING)).toBeUndefined();
    },
  );
});

describe('what an operator may allow', () => {
  const rules = (...allowPrivate: readonly string[]): EgressRules => ({ ...NOTHING, allowPrivate: [...allowPrivate] });
  test.each([
    ['10.1.2.3', rules('10.1.0.0/16'), undefined],
    ['10.2.0.0', rules('10.1.0.0/16'), /egress\.allowPrivate/],
    ['fd12::1', rules('fd12::/16'), undefined],
    ['100.64.3.4', rules('100.64.0.0/10'), undefined],
    ['100.100.100.200', rules('100.64.0.0/10'), /metadata/],
    ['fd00:ec2::254', rules('fc00::/7'), /metadata/],
    ['64:ff9b::808:808', rules('64:ff9b::/96'), undefined],
    ['64:ff9b::a9fe:a9fe', rules('64:ff9b::/96'), /metadata/],
    ['64:ff9b::a00:1', rules('64:ff9b::/96'), /egress\.allowPrivate/],
    ['64:ff9b::a00:1', rules('64:ff9b::/96', '10.0.0.0/8'), undefined],
    ['::ffff:10.0.0.1', rules('10.0.0.0/8'), /IPv4 address in IPv6/],
    ['127.0.0.1', rules(...PRIVATE), /egress\.allowLoopback/],
    ['127.0.0.1', { ...NOTHING, allowLoopback: true }, undefined],
    ['10.0.0.1', { ...NOTHING, allowLoopback: true }, /egress\.allowPrivate/],
  ])('%s under %j', (address, given, expected) => {
    const objection = addressObjection(address, given);
    if (expected === undefined) expect(objection).toBeUndefined();
    else expect(objection).toMatch(expected);
  });

  test.each([
    ['10.0.0.0/8', true],
    ['10.20.0.0/16', true],
    ['192.168.1.7/32', true],
    ['fd00::/8', true],
    ['64:ff9b::/96', true],
    ['0.0.0.0/0', false],
    ['::/0', false],
    ['10.0.0.0/7', false],
    ['8.8.8.0/24', false],
    ['127.0.0.0/8', false],
    ['169.254.0.0/16', false],
    ['fe80::/10', false],
    ['::ffff:10.0.0.0/104', false],
  ])('%s is a private range: %s', (cidr, expected) => {
    expect(isNameable(cidr)).toBe(expected);
  });
});

test.each([
  ['http://tickets.example.com', /must use https/],
  ['http://127.0.0.1', /allowLoopback/],
  ['http://localhost', /allowLoopback/],
  ['https://localhost', /allowLoopback/],
  ['https://tickets.example.com', undefined],
])('%s with nothing allowed', (url, expected) => {
  const objection = urlObjection(url, { ...NOTHING, allowInsecure: false });
  if (expected === undefined) expect(objection).toBeUndefined();
  else expect(objection).toMatch(expected);
});
