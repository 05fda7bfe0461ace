/**
 * All requests of activities pass through this file: to servers, issuers, models, receivers, buckets and key sets.
 *
 * Owns what may be contacted, and the bounds of an answer. Does not own deadlines: each user has its own. A silent
 * stream is not a dead one, so nothing here ends after 300 s.
 *
 * 1. Only origins that the configuration names may be asked, and of these only the ones that an outlet was opened for.
 * 2. URL and address are judged (`guard.ts`) before each connection. A forbidden one is `EGRESS_FORBIDDEN`, and nothing
 *    is sent.
 * 3. No redirect is followed. A caller that follows one asks here again, and is held to the outlet's origins.
 * 4. Headers of an answer are bounded, and so is its body, after decompression.
 * 5. No proxy of the environment is used: it would resolve names anew, unchecked.
 */
import { Agent, fetch } from 'undici';
import { capResponse } from './byte-cap.ts';
import { guardedConnector, type Resolve, systemResolve } from './connector.ts';
import { addressForbiddenIn, egressForbidden, type EgressRules, urlObjection } from './guard.ts';

/** Status line and headers of one answer, in bytes. */
const MAX_HEADER_BYTES = 16_384;

/** Callbacks about a body while it is read. */
export interface BodyWatch {
  /** The body has exceeded the outlet's bound, and fails with `ResponseTooLarge`. */
  readonly onTooLarge?: () => void;
  /** Called for each chunk, after decompression. */
  readonly onBytes?: (count: number) => void;
}

/** Behaves as the standard `fetch`. @throws CountersignError `EGRESS_FORBIDDEN` */
export type GuardedFetch = (url: string | URL, init?: RequestInit, watch?: BodyWatch) => Promise<Response>;

export interface OutletOptions {
  /** Names the field or the server in errors. */
  readonly what: string;
  /** URLs whose origins may be asked. */
  readonly to: readonly string[];
  /** Limit of one body; of an event stream, of each event. */
  readonly maxBytes: number;
  /**
   * Limit of the values in the JSON of one body or event, for answers that are parsed and not trusted. Default: no
   * limit.
   */
  readonly maxValues?: number;
  /** Bounds an event stream as a whole, too, if none is expected to go on for hours. */
  readonly wholeStreams?: boolean;
  /** Gives each request a connection of its own: a server may close an idle one just as it is used. */
  readonly unshared?: boolean;
  readonly onConnected?: () => void;
}

export interface Outlet {
  readonly fetch: GuardedFetch;
  /** Ends the outlet's connections. */
  close(): Promise<void>;
}

export interface Egress {
  /** Opens an outlet with connections of its own. */
  outlet(options: OutletOptions): Outlet;
}

export interface EgressOptions {
  readonly rules: EgressRules;
  /** Origins that the configuration names. */
  readonly origins: { has(origin: string): boolean };
  /** Replaces the system's resolver. */
  readonly resolve?: Resolve;
}

export function createEgress({ rules, origins, resolve = systemResolve }: EgressOptions): Egress {
  const connect = guardedConnector(rules, resolve);
  return {
    outlet({ what, to, maxBytes, maxValues, wholeStreams = false, unshared = false, onConnected }) {
      const targets = new Set(to.map((url) => new URL(url).origin));
      const dispatcher = new Agent({
        headersTimeout: 0,
        bodyTimeout: 0,
        maxHeaderSize: MAX_HEADER_BYTES,
        // Undici's setting for unshared connections: `connection: close` is sent with each request.
        ...(unshared ? { pipelining: 0 } : {}),
        connect: (target, callback) =>
          connect(target, (...outcome) => {
            if (outcome[0] === null) onConnected?.();
            callback(...outcome);
          }),
      });
      const check = (url: string): void => {
        const { origin, hostname } = URL.canParse(url) ? new URL(url) : { origin: '', hostname: 'its address' };
        const reason =
          urlObjection(url, rules) ?? (targets.has(origin) && origins.has(origin) ? undefined : unlisted(origin));
        if (reason !== undefined) throw egressForbidden(what, hostname, reason);
      };
      return {
        fetch: async (url, init, watch = {}) => {
          check(String(url));
          try {
            // Sound: undici's init and Node's describe the same standard.
            const own = { ...(init as object), redirect: 'manual', dispatcher } as const;
            // Sound: undici's response and Node's describe the same standard.
            const response = (await fetch(url, own)) as unknown as Response;
            return capResponse(response, { maxBytes, maxValues, wholeStreams, ...watch });
          } catch (error) {
            const forbidden = addressForbiddenIn(error);
            throw forbidden === undefined ? error : egressForbidden(what, forbidden.host, forbidden.reason);
          }
        },
        close: () => dispatcher.destroy(),
      };
    },
  };
}

function unlisted(origin: string): string {
  return `is of the origin ${origin}, which may not be contacted for this. An operator names it where it belongs in the configuration; a token endpoint elsewhere than its issuer in egress.issuerEndpoints`;
}
