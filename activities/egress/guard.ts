/**
 * Decides what may be contacted: by URL before a name is resolved, and by each address after that.
 *
 * Pure. Owns the rules; does not own origins (`fetch.ts`) and connections (`connector.ts`).
 *
 * 1. Unreadable text is refused. A host that is an address in any form that the `URL` class reads (decimal, octal,
 *    hexadecimal, shortened, fullwidth) is judged as that address.
 * 2. No setting lets through metadata services, link-local, multicast and reserved addresses.
 * 3. An address that carries another (NAT64) is judged as both; every other disguise of an IPv4 address is refused.
 * 4. `localhost` is this machine, whatever a resolver says (RFC 6761 §6.3).
 */
import { CountersignError } from '../../contracts/errors.ts';
import { isLocalName } from '../../domain/text/urls.ts';
import { type Address, addressOf, holding, lastIpv4, rangeHolding } from './address.ts';
import { isSecureTransport } from './secure-transport.ts';

/** `egress` of the configuration. */
export interface EgressRules {
  /** Allows this machine, in clear too. */
  readonly allowLoopback: boolean;
  /** Allows plain HTTP to other machines. */
  readonly allowInsecure: boolean;
  /** CIDR ranges within private ones. */
  readonly allowPrivate: readonly string[];
}

const NAT64 = holding('64:ff9b::/96');
const LOOPBACK = 'this machine. Where that is meant, as in development, set egress.allowLoopback: true';

/**
 * Returns why nothing is sent to a URL, to follow its host or path: "must use https". Returns undefined if the address
 * decides, or the URL is allowed.
 */
export function urlObjection(url: string, rules: EgressRules): string | undefined {
  if (!URL.canParse(url)) return 'is no URL';
  const { protocol, username, password, hostname } = new URL(url);
  if (protocol !== 'https:' && protocol !== 'http:') return 'must use https';
  if (username !== '' || password !== '')
    return 'must not hold a user name or password: a URL is shown in logs and requests';
  if (!isSecureTransport(url, rules.allowInsecure))
    return 'must use https: credentials would go in clear to another host. For tests only, set egress.allowInsecure: true';
  const literal = literalIn(hostname);
  if (literal !== undefined) return addressObjection(literal, rules);
  return isLocalName(hostname) && !rules.allowLoopback ? `is ${LOOPBACK}` : undefined;
}

/** Returns why nothing is sent to an address, to follow its host. @param hostname the name that resolved to it */
export function addressObjection(text: string, rules: EgressRules, hostname = ''): string | undefined {
  const address = addressOf(text);
  if (address === undefined) return 'has an address that cannot be read';
  if (isLocalName(hostname) && rangeHolding(address)?.kind !== 'loopback')
    return 'resolves to another machine than this one';
  return objectionTo(address, rules);
}

function objectionTo(address: Address, rules: EgressRules): string | undefined {
  const range = rangeHolding(address);
  if (range === undefined) return undefined;
  switch (range.kind) {
    case 'loopback':
      return rules.allowLoopback ? undefined : `is ${LOOPBACK}`;
    case 'private':
      if (!rules.allowPrivate.some((cidr) => holding(cidr)(address)))
        return `is ${range.is}, in ${range.cidr}. Where that is meant, name its range in egress.allowPrivate`;
      return NAT64(address) ? objectionTo(lastIpv4(address), rules) : undefined;
    case 'metadata':
    case 'special':
      return `is ${range.is}, to which nothing is sent whatever the configuration says`;
  }
}

/** @param hostname as the `URL` class normalises it, or as a connector gets it */
function literalIn(hostname: string): string | undefined {
  const text = hostname.startsWith('[') && hostname.endsWith(']') ? hostname.slice(1, -1) : hostname;
  return addressOf(text) === undefined ? undefined : text;
}

/**
 * Makes the error of a request of which nothing was sent.
 * @param what names the field or server
 * @param reason follows the host
 */
export function egressForbidden(what: string, host: string, reason: string): CountersignError {
  return new CountersignError('EGRESS_FORBIDDEN', `${what} was not contacted: ${host} ${reason}. Nothing was sent.`, {
    host,
    reason,
  });
}

const MAX_CAUSES = 8;

/** Finds the egress refusal in an error that another library has wrapped. */
export function egressRefusalIn(error: unknown): CountersignError | undefined {
  return firstIn(error, (at) => at instanceof CountersignError && at.code === 'EGRESS_FORBIDDEN');
}

/** Thrown by the connector; `fetch.ts` adds what was asked for. */
export class AddressForbidden extends Error {
  override readonly name = 'AddressForbidden';
  readonly host: string;
  readonly reason: string;
  constructor(host: string, reason: string) {
    super(`${host} ${reason}`);
    this.host = host;
    this.reason = reason;
  }
}

export function addressForbiddenIn(error: unknown): AddressForbidden | undefined {
  return firstIn(error, (at) => at instanceof AddressForbidden);
}

function firstIn<Found>(error: unknown, isIt: (at: object) => boolean): Found | undefined {
  for (let at: unknown = error, depth = 0; at !== null && typeof at === 'object' && depth < MAX_CAUSES; depth += 1) {
    // Sound: the caller's predicate tests for the class that it names.
    if (isIt(at)) return at as Found;
    // Sound: any object may be read at any name; the value is unknown.
    at = (at as { readonly cause?: unknown }).cause;
  }
  return undefined;
}
