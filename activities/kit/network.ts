/**
 * Finds the network's own error in a chain of errors.
 *
 * 1. `neverConnected` is true only for failures before a connection stood: name resolution, TCP connect, TLS
 *    certificate. A connection that stands can also become unreachable, so `EHOSTUNREACH` and `ENETUNREACH` count only
 *    as errors of `connect`.
 */
import { SdkError } from '@modelcontextprotocol/client';
import { type Fields, isFields } from '../../domain/shapes/inputs.ts';

/** Node and undici codes that can only come before a request is written. */
const BEFORE_SENDING = new Set([
  'ENOTFOUND',
  'EAI_AGAIN',
  'ECONNREFUSED',
  'UND_ERR_CONNECT_TIMEOUT',
  'ERR_TLS_CERT_ALTNAME_INVALID',
  'CERT_HAS_EXPIRED',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
]);

/** Texts for people, who read them in Temporal UI and in logs. */
const WORDS = new Map([
  ['ENOTFOUND', 'its name is not known'],
  ['EAI_AGAIN', 'its name could not be looked up'],
  ['ECONNREFUSED', 'nothing listens at its address'],
  ['EHOSTUNREACH', 'its address cannot be reached'],
  ['ENETUNREACH', 'its address cannot be reached'],
  ['UND_ERR_CONNECT_TIMEOUT', 'no connection came about in time'],
  ['ECONNRESET', 'the connection broke off'],
  ['UND_ERR_SOCKET', 'the connection broke off'],
]);

const MAX_CAUSES = 8;

/** True if the failure came before a connection stood, so that nothing was sent. */
export function neverConnected(error: unknown): boolean {
  const fault = faultIn(error);
  return (
    fault !== undefined &&
    (BEFORE_SENDING.has(fault.code) || fault.syscall === 'connect' || fault.syscall === 'getaddrinfo')
  );
}

export function networkCodeOf(error: unknown): string | undefined {
  return faultIn(error)?.code;
}

export function networkReasonOf(error: unknown): string | undefined {
  const code = networkCodeOf(error);
  const words = WORDS.get(code ?? '');
  return words === undefined ? code : `${words} (${code})`;
}

/**
 * Returns the innermost error with a system or undici code. Under jest, errors of Node's core are of another realm, so
 * `instanceof` is not used.
 */
function faultIn(error: unknown) {
  let found: { readonly code: string; readonly syscall: string | undefined } | undefined;
  for (const at of causesOf(error)) {
    const { code, syscall } = at;
    // The SDK's own errors have codes of the same form that say nothing about the network.
    if (typeof code === 'string' && /^[A-Z][A-Z0-9_]+$/.test(code) && !SdkError.isInstance(at)) {
      found = { code, syscall: typeof syscall === 'string' ? syscall : sharedSyscall(at['errors']) };
    }
  }
  return found;
}

/** Node tries all addresses of a name, and then has the errors of each in one without a `syscall` of its own. */
function sharedSyscall(errors: unknown): string | undefined {
  if (!Array.isArray(errors)) return undefined;
  const [first, ...others] = errors.map((each: unknown) => (isFields(each) ? each['syscall'] : undefined));
  return typeof first === 'string' && others.every((each) => each === first) ? first : undefined;
}

/** Lists an error and its causes, the outermost first. */
export function causesOf(error: unknown): readonly Fields[] {
  const causes: Fields[] = [];
  for (let at = error; isFields(at) && causes.length < MAX_CAUSES; at = at['cause']) causes.push(at);
  return causes;
}

/** False for 2xx that could not be read, and for statuses that may pass (RFC 9110 §15.5, RFC 8470, RFC 6585). */
export function isFinalStatus(status: number): boolean {
  return status >= 300 && status < 500 && ![408, 409, 425, 429].includes(status);
}

/** Reads seconds or a date (RFC 9110 §10.2.3) as ms from now on. */
export function retryAfterOf({ headers }: Pick<Response, 'headers'>, longestMs = 3_600_000): number | undefined {
  const value = headers.get('retry-after')?.trim() ?? '';
  // A date begins with the name of its day; V8 takes `1.5` for one, too, in the past.
  const dateMs = /^[A-Z][a-z]/.test(value) ? Date.parse(value) - Date.now() : Number.NaN;
  const ms = /^\d+$/.test(value) ? Number(value) * 1_000 : dateMs;
  return Number.isFinite(ms) ? Math.min(Math.max(0, ms), longestMs) : undefined;
}
