/**
 * Opens connections to addresses that were checked.
 *
 * 1. A name is resolved once for each connection, and the connection goes to the addresses that were checked. There is
 *    no second look-up that could answer otherwise (DNS rebinding). TLS is checked against the name.
 * 2. One forbidden address among those of a name forbids the name.
 */
import { type LookupAddress, promises as dns } from 'node:dns';
import { isIP, type LookupFunction } from 'node:net';
import { buildConnector } from 'undici';
import { AddressForbidden, addressObjection, type EgressRules } from './guard.ts';

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
