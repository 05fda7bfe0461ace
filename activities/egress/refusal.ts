/** How a request is refused before anything of it is sent. */
import { CountersignError } from '../../contracts/errors.ts';

/** @param what names the field or server. @param reason goes on after the host */
export function egressForbidden(what: string, host: string, reason: string): CountersignError {
  return new CountersignError('EGRESS_FORBIDDEN', `${what} was not contacted: ${host} ${reason}. Nothing was sent.`, {
    host,
    reason,
  });
}

const MAX_CAUSES = 8;

/** The refusal in an error that another library has wrapped. */
export function egressRefusalIn(error: unknown): CountersignError | undefined {
  return firstIn(error, (at) => at instanceof CountersignError && at.code === 'EGRESS_FORBIDDEN');
}

/** What the connector says; `fetch.ts` knows what was asked for. */
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
    // Sound: any object may be read at any name; what comes out is unknown.
    at = (at as { readonly cause?: unknown }).cause;
  }
  return undefined;
}
