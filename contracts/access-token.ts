/**
 * An `authorization` is a plain OAuth access token. `Bearer ` is added where the header is built, and nowhere else.
 *
 * 1. A value that is no token is refused in words that do not show it (INV-S1).
 * 2. No free-form header carries a credential: the only way for one is the field made for it, which is sealed.
 */
import { CountersignError } from './errors.ts';

export type ReadAuthorization =
  | { readonly kind: 'token'; readonly token: string }
  | { readonly kind: 'refused'; readonly reason: string };

/** Characters. A token above the default of header parsers would only fail later and elsewhere. */
const LONGEST_TOKEN = 16_384;

/** RFC 6750 §2.1 `b64token`. */
const B64_TOKEN = /^[A-Za-z0-9\-._~+/]+=*$/;

/** Reads a token. A `Bearer` prefix in any case is removed, so that the header never says it twice. */
export function readAuthorization(given: string): ReadAuthorization {
  if (/[\r\n\u0085\u2028\u2029]/.test(given))
    return { kind: 'refused', reason: 'holds a line break; give one token on one line' };
  const token = given.trim().replace(/^bearer(?:[ \t]+|$)/i, '');
  if (token === '') return { kind: 'refused', reason: 'is empty; give an OAuth access token' };
  if (token.length > LONGEST_TOKEN) return { kind: 'refused', reason: `is longer than ${LONGEST_TOKEN} characters` };
  if (/[ \t]/.test(token)) {
    return {
      kind: 'refused',
      reason: 'holds spaces; give the access token alone, of an OAuth bearer token and no other scheme',
    };
  }
  if (!B64_TOKEN.test(token)) {
    return { kind: 'refused', reason: 'has characters that no bearer token may have (RFC 6750 §2.1)' };
  }
  return { kind: 'token', token };
}

/**
 * Refuses credentials in free-form headers.
 * @param path of the headers, for the message: `servers.notes.headers`
 * @param instead the field to use
 * @throws CountersignError `AUTHORIZATION_IN_HEADERS`
 */
export function assertNoAuthorizationHeader(
  headers: Readonly<Record<string, unknown>>,
  path: string,
  instead: string,
): void {
  const name = Object.keys(headers).find((key) => key.trim().toLowerCase() === 'authorization');
  if (name === undefined) return;
  const message = `${path} must not hold an Authorization header: a token there would be the same for every call, sealed to none and ended with none. Use ${instead}.`;
  throw new CountersignError('AUTHORIZATION_IN_HEADERS', message, { path: `${path}.${name.trim()}` });
}
