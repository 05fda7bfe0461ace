/**
 * Is this host an address of a private network, of this machine or of a cloud's metadata service, written as such? What names
 * resolve to is for whoever connects.
 */
import { BlockList, isIPv4, isIPv6 } from 'node:net';

const PRIVATE = new BlockList();
// RFC 6890: this host, private, shared, loopback, link-local.
for (const [network, prefix] of [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.168.0.0', 16],
] as const) {
  PRIVATE.addSubnet(network, prefix, 'ipv4');
  PRIVATE.addSubnet(`::ffff:${network}`, 96 + prefix, 'ipv6');
}
for (const [network, prefix] of [
  ['::', 127],
  ['fc00::', 7],
  ['fe80::', 10],
] as const)
  PRIVATE.addSubnet(network, prefix, 'ipv6');

/** @param hostname as the `URL` class normalises it: decimal IPv4, IPv6 in brackets */
export function isPrivateAddress(hostname: string): boolean {
  const host = hostname.replace(/^\[|\]$/g, '').replace(/\.$/, '');
  if (isIPv4(host)) return PRIVATE.check(host, 'ipv4');
  if (isIPv6(host)) return PRIVATE.check(host, 'ipv6');
  return host === 'localhost' || host.endsWith('.localhost');
}
