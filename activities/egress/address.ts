/** IP addresses and ranges as numbers. Node's own `BlockList` takes each IPv4 address for one of `::ffff:0:0/96`, so it is not used. */
import { isIP } from 'node:net';

export interface Address {
  readonly bits: 32 | 128;
  readonly value: bigint;
}

/** Undefined for what Node does not know as an address, and for one with a zone, which names an interface of this machine. */
export function addressOf(text: string): Address | undefined {
  const family = text.includes('%') ? 0 : isIP(text);
  if (family === 0) return undefined;
  return family === 4 ? { bits: 32, value: ipv4(text) } : { bits: 128, value: ipv6(text) };
}

/** @param cidr valid. An address of the other family is never held. */
export function holding(cidr: string): (address: Address) => boolean {
  const { first, prefix } = rangeOf(cidr);
  const shift = BigInt(first.bits - prefix);
  return ({ bits, value }) => bits === first.bits && value >> shift === first.value >> shift;
}

/** Whether all of one range lies in another. Both valid. */
export function isWithin(inner: string, outer: string): boolean {
  const { first, prefix } = rangeOf(inner);
  return prefix >= rangeOf(outer).prefix && holding(outer)(first);
}

/** The IPv4 address in the last 32 bits, where NAT64 with a prefix of 96 bits has it (RFC 6052 §2.2). */
export function lastIpv4({ value }: Address): Address {
  return { bits: 32, value: value & 0xffff_ffffn };
}

function rangeOf(cidr: string): { readonly first: Address; readonly prefix: number } {
  const [text = '', prefix = ''] = cidr.split('/');
  const first = addressOf(text);
  if (first === undefined || !/^\d{1,3}$/.test(prefix) || Number(prefix) > first.bits)
    throw new RangeError(`${cidr} is no range of addresses`);
  return { first, prefix: Number(prefix) };
}

function ipv4(text: string): bigint {
  return text.split('.').reduce((value, byte) => (value << 8n) | BigInt(byte), 0n);
}

/** RFC 4291 §2.2; `isIP` has said that it is one. */
function ipv6(text: string): bigint {
  const [before = '', after] = text.split('::');
  const head = groups(before);
  const tail = groups(after ?? '');
  const gap = Array.from({ length: 8 - head.length - tail.length }, () => 0n);
  return [...head, ...gap, ...tail].reduce((value, group) => (value << 16n) | group, 0n);
}

function groups(text: string): bigint[] {
  if (text === '') return [];
  return text.split(':').flatMap((group) => {
    if (!group.includes('.')) return [BigInt(`0x${group}`)];
    const value = ipv4(group);
    return [value >> 16n, value & 0xffffn];
  });
}
