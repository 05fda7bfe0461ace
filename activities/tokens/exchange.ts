/**
 * Makes one exchange with an authorization server over HTTP, and says in words of our own why one gave no token. It
 * also has the names that token exchanges use.
 *
 * 1. The exchange is bounded in time and in bytes. No redirect is followed, since the request holds the client's
 *    secret.
 * 2. The status tells a refusal from a fault, whatever the body claims to be.
 * 3. The server's text is not repeated: error descriptions echo requests, and requests hold secrets (INV-S1).
 */
import {
  HTTP_REQUEST_FORBIDDEN,
  INVALID_SERVER_METADATA,
  JSON_ATTRIBUTE_COMPARISON,
  MISSING_SERVER_METADATA,
  PARSE_ERROR,
  REQUEST_PROTOCOL_FORBIDDEN,
  RESPONSE_IS_NOT_JSON,
} from 'oauth4webapi';
import { defined } from '../../contracts/defined.ts';
import { CountersignError } from '../../contracts/errors.ts';
import { isFields } from '../../domain/shapes/inputs.ts';
import { type GuardedFetch, ResponseTooLarge } from '../egress/fetch.ts';
import { networkCodeOf, retryAfterOf } from '../kit/network.ts';
import { tokenError } from './port.ts';
import { deadlineIn } from '../kit/time-limit.ts';

/** Metadata and token answers are some kilobytes. */
export const LARGEST_ANSWER_BYTES = 262_144;

interface ExchangeOptions {
  /** Bounded by `LARGEST_ANSWER_BYTES`; follows no redirect. */
  readonly send: GuardedFetch;
  readonly timeoutMs: number;
  readonly signal: AbortSignal | undefined;
}

interface ExchangeRequest {
  readonly method: string;
  readonly headers: Record<string, string>;
  readonly body?: URLSearchParams | undefined;
}

export type Exchange = ReturnType<typeof openExchange>;

export function openExchange({ send, timeoutMs, signal }: ExchangeOptions) {
  const deadline = deadlineIn(timeoutMs);
  const ended = signal === undefined ? deadline : AbortSignal.any([signal, deadline]);
  let status: number | undefined;
  let retryAfterMs: number | undefined;
  return {
    fetch: async (url: string, { method, headers, body }: ExchangeRequest): Promise<Response> => {
      status = undefined;
      const sent = body === undefined ? {} : { body: body.toString() };
      const answer = await send(url, { method, headers, signal: ended, ...sent });
      const bytes = await answer.arrayBuffer();
      status = answer.status;
      retryAfterMs = retryAfterOf(answer);
      const empty = answer.status === 204 || answer.status === 205 || answer.status === 304;
      return new Response(empty ? null : bytes, { status: answer.status, headers: [...answer.headers] });
    },
    /** Status of the last answer; undefined if none came. */
    status: () => status,
    retryAfterMs: () => retryAfterMs,
    endedBy: () => (signal?.aborted === true ? 'caller' : deadline.aborted ? 'deadline' : undefined),
  };
}

const PREFIX = 'urn:ietf:params:oauth:token-type:';

/** RFC 8693 §3; draft-ietf-oauth-identity-assertion-authz-grant §4. */
export const TOKEN_TYPES = {
  access_token: `${PREFIX}access_token`,
  id_token: `${PREFIX}id_token`,
  jwt: `${PREFIX}jwt`,
  'id-jag': `${PREFIX}id-jag`,
} as const;

export type TokenTypeName = keyof typeof TOKEN_TYPES;

export const EXCHANGE_GRANT = 'urn:ietf:params:oauth:grant-type:token-exchange';
export const ASSERTION_GRANT = 'urn:ietf:params:oauth:grant-type:jwt-bearer';

/** `typ` of an ID-JAG. */
export const ID_JAG_TYPE = 'oauth-id-jag+jwt';

export function oauthFailure(
  error: unknown,
  asked: {
    readonly server: string;
    readonly issuer: string;
    /** Absent if no token was asked for yet. */
    readonly grantType?: string | undefined;
    readonly exchange: Exchange;
  },
): CountersignError {
  const { server, issuer, grantType, exchange } = asked;
  if (error instanceof CountersignError) return error;
  const { code, reason } = explain(error, exchange);
  const mayPass = code === 'TOKEN_UNAVAILABLE';
  const retryAfterMs = mayPass ? exchange.retryAfterMs() : undefined;
  const check = `Check servers.${server}.credentials and the client at its issuer.`;
  // RFC 6749 §5.2: what is wrong is the refresh token or the assertion, and mostly not the configuration. A client that
  // asks in its own name has shown neither.
  const isSpent = reason === 'answered invalid_grant' && grantType !== 'client_credentials';
  const next = mayPass
    ? 'It may pass: try again.'
    : isSpent
      ? `What it was shown has ended, was revoked, or was used before: its owner authorizes anew, and a fresh one goes to the vault or the run. If that does not help: ${check}`
      : check;
  return tokenError(code, `No token for ${server}: its authorization server ${issuer} ${reason}. ${next}`, {
    server,
    issuer,
    ...defined({ retryAfterMs }),
  });
}

/** Errors of RFC 6749 §4.1.2.1 and §5.2, RFC 8707 §2 and RFC 9449 §5; others get no name in the message. */
const REFUSALS: ReadonlySet<string> = new Set([
  'invalid_request',
  'invalid_client',
  'invalid_grant',
  'unauthorized_client',
  'unsupported_grant_type',
  'invalid_scope',
  'invalid_target',
  'access_denied',
  'invalid_dpop_proof',
]);
const PASSING: ReadonlySet<string> = new Set([
  'temporarily_unavailable',
  'server_error',
  'slow_down',
  'use_dpop_nonce',
]);

const LIBRARY_REFUSALS: ReadonlyMap<unknown, string> = new Map([
  [HTTP_REQUEST_FORBIDDEN, 'has a token endpoint without TLS'],
  [REQUEST_PROTOCOL_FORBIDDEN, 'has a token endpoint without TLS'],
  [MISSING_SERVER_METADATA, 'publishes no usable token endpoint'],
  [INVALID_SERVER_METADATA, 'publishes no usable token endpoint'],
  [JSON_ATTRIBUTE_COMPARISON, 'publishes metadata of another issuer (RFC 8414 §3.3)'],
]);

const refused = (reason: string) => ({ code: 'TOKEN_REFUSED', reason }) as const;
const unavailable = (reason: string) => ({ code: 'TOKEN_UNAVAILABLE', reason }) as const;

function explain(error: unknown, exchange: Exchange): ReturnType<typeof refused | typeof unavailable> {
  const code = isFields(error) ? error['code'] : undefined;
  const found = LIBRARY_REFUSALS.get(code);
  if (found !== undefined) return refused(found);
  if (error instanceof ResponseTooLarge) return refused(`answered with more than ${LARGEST_ANSWER_BYTES} bytes`);
  const status = exchange.status();
  if (status === undefined) return unavailable(noAnswer(error, exchange));
  if (status >= 500 || status === 429 || status === 408) return unavailable(`answered HTTP ${status}`);
  // `error` of an OAuth error response (RFC 6749 §5.2).
  const said = isFields(error) ? String(error['error']) : '';
  if (PASSING.has(said)) return unavailable(`answered ${said}`);
  if (REFUSALS.has(said)) return refused(`answered ${said}`);
  if (status !== 200) return refused(`answered HTTP ${status}`);
  // The answer is a page of a proxy or a body cut on the way.
  if (code === PARSE_ERROR || code === RESPONSE_IS_NOT_JSON)
    return unavailable('answered with something that is no JSON');
  return refused('answered with something that is no token response (RFC 6749 §5.1)');
}

function noAnswer(error: unknown, exchange: Exchange): string {
  const endedBy = exchange.endedBy();
  if (endedBy === 'caller') return 'had not answered when the call was ended';
  if (endedBy === 'deadline') return 'did not answer in time';
  const code = networkCodeOf(error);
  return code === undefined ? 'could not be reached' : `could not be reached (${code})`;
}
