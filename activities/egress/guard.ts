/**
 * Decides what may be contacted: by URL before a name is resolved, and by each address after that.
 *
 * It does not own origins (`fetch.ts`).
 * 1. Unreadable text is refused. A host that is an address in any form that the `URL` class reads (decimal, octal,
 *    hexadecimal, shortened, fullwidth) is judged as that address.
 * 2. No setting lets through metadata services, link-local, multicast and reserved addresses.
 * 3. An address that carries another (NAT64) is judged as both; every other disguise of an IPv4 address is refused.
 * 4. `localhost` is this machine, whatever a resolver says (RFC 6761 §6.3).
 */
import { type LookupAddress, promises as dns } from 'node:dns';
import { isIP, type LookupFunction } from 'node:net';
import { buildConnector } from 'undici';
import { CountersignError } from '../../contracts/errors.ts';
import { isLocalName, isSecurelyReached } from '../../domain/text/urls.ts';
import { type Address, addressOf, holding, lastIpv4, rangeHolding } from './address.ts';

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
  const message = `${what} was not contacted: ${host} ${reason}. Nothing was sent.`;
  return new CountersignError('EGRESS_FORBIDDEN', message, { host, reason });
}

const MAX_CAUSES = 8;

/** Finds the egress refusal in an error that another library has wrapped. */
export function egressRefusalIn(error: unknown): CountersignError | undefined {
  return firstIn(error, (at) => at instanceof CountersignError && at.code === 'EGRESS_FORBIDDEN');
}

/** Thrown by the connector; `fetch.ts` adds what was asked for. */
class AddressForbidden extends Error {
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

// Opens connections to addresses that were checked.
//
// 1. A name is resolved once for each connection, and the connection goes to the addresses that were checked. There is
//    no second look-up that could answer otherwise (DNS rebinding). TLS is checked against the name.
// 2. One forbidden address among those of a name forbids the name.

/** Returns all addresses of a name, in the order in which they are to be tried. */
export type Resolve = (hostname: string) => Promise<readonly Pick<LookupAddress, 'address'>[]>;

export const systemResolve: Resolve = async (hostname) => await dns.lookup(hostname, { all: true });

/** Limit for look-up, TCP and TLS together. */
const CONNECT_TIMEOUT_MS = 10_000;

/** Makes the connector that all outlets of a process share, so that TLS sessions are resumed. */
export function guardedConnector(rules: EgressRules, resolve: Resolve): buildConnector.connector {
  const connect = buildConnector({ timeout: CONNECT_TIMEOUT_MS, lookup: guardedLookup(rules, resolve) });
  return (target, callback) => {
    // Node does not look up a literal address, so it is checked here.
    const reason = isIP(target.hostname) === 0 ? undefined : addressObjection(target.hostname, rules);
    if (reason === undefined) return connect(target, callback);
    queueMicrotask(() => callback(new AddressForbidden(target.hostname, reason), null));
  };
}

function guardedLookup(rules: EgressRules, resolve: Resolve): LookupFunction {
  const judged = async (hostname: string): Promise<LookupAddress[]> => {
    const found = (await resolve(hostname)).map(({ address }) => ({ address, family: isIP(address) }));
    for (const { address } of found) {
      const reason = addressObjection(address, rules, hostname);
      if (reason !== undefined) throw new AddressForbidden(hostname, reason);
    }
    if (found.length > 0) return found;
    throw Object.assign(new Error(`${hostname} has no address`), { code: 'ENOTFOUND', syscall: 'getaddrinfo' });
  };
  const answer = async (...[hostname, options, callback]: Parameters<LookupFunction>): Promise<void> => {
    let found: LookupAddress[];
    try {
      found = await judged(hostname);
    } catch (error) {
      // Sound: Node hands it on as the cause, whatever it is.
      callback(error as NodeJS.ErrnoException, '');
      return;
    }
    const [first] = found;
    if (options.all === true || first === undefined) callback(null, found);
    else callback(null, first.address, first.family);
  };
  return (...asked) => void answer(...asked);
}

/**
 * Says whether secrets may be sent to a URL: checks the transport alone.
 * @param allowInsecure `egress.allowInsecure` of the configuration
 */
export function isSecureTransport(url: string, allowInsecure: boolean): boolean {
  return isSecurelyReached(new URL(url), allowInsecure);
}
