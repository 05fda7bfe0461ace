/**
 * Says in which range an IP address lies, and lists the ranges that are not the public Internet.
 *
 * 1. Node's `BlockList` takes each IPv4 address for one of `::ffff:0:0/96`, so it is asked about its own family alone.
 * 2. The list follows IANA's special-purpose registries (RFC 6890, RFC 8190) and the documentation of cloud providers.
 *    It is read in order: the first range that holds an address classifies it.
 * 3. IPv6 is public in 2000::/3 alone: unassigned space is not public either.
 */
import { BlockList, isIP } from 'node:net';

export interface Address {
  readonly family: 'ipv4' | 'ipv6';
  readonly text: string;
}

/**
 * Returns undefined for text that Node does not know as an address, and for an address with a zone, which names an
 * interface of this machine.
 */
export function addressOf(text: string): Address | undefined {
  const family = text.includes('%') ? 0 : isIP(text);
  if (family === 0) return undefined;
  return { family: family === 4 ? 'ipv4' : 'ipv6', text };
}

/** @param cidr valid. An address of the other family never matches. */
export function holding(cidr: string): (address: Address) => boolean {
  const { first, prefix } = rangeOf(cidr);
  const list = new BlockList();
  list.addSubnet(first.text, prefix, first.family);
  return ({ family, text }) => family === first.family && list.check(text, family);
}

function isWithin(inner: string, outer: string): boolean {
  const { first, prefix } = rangeOf(inner);
  return prefix >= rangeOf(outer).prefix && holding(outer)(first);
}

/** Returns the IPv4 address in the last 32 bits, where NAT64 with a prefix of 96 bits puts it (RFC 6052 §2.2). */
export function lastIpv4({ text }: Address): Address {
  // The `URL` class writes every address in one way: groups, the longest row of zeros left out.
  const groups = new URL(`http://[${text}]`).hostname.slice(1, -1).split(':').slice(-2);
  const bytes = groups.map((group) => Number.parseInt(group || '0', 16)).flatMap((value) => [value >> 8, value & 0xff]);
  return { family: 'ipv4', text: bytes.join('.') };
}

function rangeOf(cidr: string): { readonly first: Address; readonly prefix: number } {
  const [text = '', prefix = ''] = cidr.split('/');
  const first = addressOf(text);
  if (first === undefined || !/^\d{1,3}$/.test(prefix) || Number(prefix) > (first.family === 'ipv4' ? 32 : 128))
    throw new RangeError(`${cidr} is no range of addresses`);
  return { first, prefix: Number(prefix) };
}

/** `private` may be allowed by name (`egress.allowPrivate`); `metadata` and `special` by no setting. */
export type RangeKind = 'metadata' | 'loopback' | 'private' | 'special';

export interface AddressRange {
  readonly cidr: string;
  readonly kind: RangeKind;
  /** Continues "is", for errors. */
  readonly is: string;
}

const METADATA = 'the metadata service of a cloud, which hands out credentials';

export const RANGES: readonly AddressRange[] = [
  // These come before the ranges that contain them. Azure's service answers at an address that looks public.
  ...['169.254.169.254/32', '169.254.170.2/32', '169.254.170.23/32', '100.100.100.200/32', '192.0.0.192/32']
    .concat(['168.63.129.16/32', 'fd00:ec2::/32', 'fd20:ce::254/128'])
    .map((cidr) => ({ cidr, kind: 'metadata' as const, is: METADATA })),
  { cidr: '::ffff:0:0/96', kind: 'special', is: 'an IPv4 address in IPv6 clothes (RFC 4291 §2.5.5.2)' },
  { cidr: '127.0.0.0/8', kind: 'loopback', is: 'this machine' },
  { cidr: '::1/128', kind: 'loopback', is: 'this machine' },
  { cidr: '10.0.0.0/8', kind: 'private', is: 'a private address (RFC 1918)' },
  { cidr: '172.16.0.0/12', kind: 'private', is: 'a private address (RFC 1918)' },
  { cidr: '192.168.0.0/16', kind: 'private', is: 'a private address (RFC 1918)' },
  { cidr: '100.64.0.0/10', kind: 'private', is: 'a shared address of carriers (RFC 6598)' },
  { cidr: '198.18.0.0/15', kind: 'private', is: 'a benchmark address (RFC 2544)' },
  { cidr: 'fc00::/7', kind: 'private', is: 'a unique local address (RFC 4193)' },
  { cidr: '64:ff9b::/96', kind: 'private', is: 'an IPv4 address behind NAT64 (RFC 6052)' },
  { cidr: '0.0.0.0/8', kind: 'special', is: 'no address of a host (RFC 791)' },
  { cidr: '169.254.0.0/16', kind: 'special', is: 'a link-local address (RFC 3927)' },
  { cidr: '192.0.0.0/24', kind: 'special', is: 'an address of protocols (RFC 6890)' },
  { cidr: '192.0.2.0/24', kind: 'special', is: 'an address of documentation (RFC 5737)' },
  { cidr: '192.88.99.0/24', kind: 'special', is: 'a 6to4 relay (RFC 7526)' },
  { cidr: '198.51.100.0/24', kind: 'special', is: 'an address of documentation (RFC 5737)' },
  { cidr: '203.0.113.0/24', kind: 'special', is: 'an address of documentation (RFC 5737)' },
  { cidr: '224.0.0.0/4', kind: 'special', is: 'a multicast address (RFC 5771)' },
  { cidr: '240.0.0.0/4', kind: 'special', is: 'a reserved or broadcast address (RFC 1112)' },
  { cidr: '::/128', kind: 'special', is: 'no address of a host (RFC 4291)' },
  { cidr: '64:ff9b:1::/48', kind: 'special', is: 'an IPv4 address behind NAT64 (RFC 8215)' },
  { cidr: '2001::/23', kind: 'special', is: 'an address of protocols or tunnels (RFC 2928, RFC 4380)' },
  { cidr: '2001:db8::/32', kind: 'special', is: 'an address of documentation (RFC 3849)' },
  { cidr: '2002::/16', kind: 'special', is: 'an IPv4 address behind 6to4 (RFC 3056)' },
  { cidr: '3fff::/20', kind: 'special', is: 'an address of documentation (RFC 9637)' },
  { cidr: 'fe80::/10', kind: 'special', is: 'a link-local address (RFC 4291)' },
  { cidr: 'ff00::/8', kind: 'special', is: 'a multicast address (RFC 4291)' },
];

/** Holds addresses that are neither listed above nor in 2000::/3. */
const UNASSIGNED: AddressRange = { cidr: '::/0', kind: 'special', is: 'no address of the public Internet (RFC 4291)' };
const isGlobal = holding('2000::/3');
const LISTS = RANGES.map((range) => ({ range, holds: holding(range.cidr) }));

export function rangeHolding(address: Address): AddressRange | undefined {
  const found = LISTS.find(({ holds }) => holds(address))?.range;
  return found ?? (address.family === 'ipv6' && !isGlobal(address) ? UNASSIGNED : undefined);
}

/** True if an operator may allow a range: all of it lies in a private one. @param cidr valid */
export function isNameable(cidr: string): boolean {
  return RANGES.some((range) => range.kind === 'private' && isWithin(cidr, range.cidr));
}
