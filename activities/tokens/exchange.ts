/**
 * Makes one exchange with an authorization server over HTTP, and has the names that token exchanges use.
 *
 * 1. The exchange is bounded in time and in bytes. No redirect is followed, since the request holds the client's
 *    secret.
 * 2. The status is remembered: it tells a refusal from a fault, whatever the body claims to be.
 * 3. Token type names are those of RFC 8693 §3 and of draft-ietf-oauth-identity-assertion-authz-grant §4.
 */
import type { SubjectTokenType } from '../../contracts/schemas/credentials.ts';
import { ResponseTooLarge } from '../egress/byte-cap.ts';
import type { GuardedFetch } from '../egress/fetch.ts';

/** Metadata and token answers are some kilobytes. */
export const LARGEST_ANSWER_BYTES = 262_144;
const LONGEST_RETRY_AFTER_SECONDS = 3_600;

export interface ExchangeOptions {
  /** Bounded by `LARGEST_ANSWER_BYTES`; follows no redirect. */
  readonly send: GuardedFetch;
  readonly timeoutMs: number;
  readonly signal: AbortSignal | undefined;
}

/** The arguments with which oauth4webapi calls `fetch`. */
interface ExchangeRequest {
  readonly method: string;
  readonly headers: Record<string, string>;
  readonly body?: URLSearchParams | undefined;
}

export interface Exchange {
  readonly fetch: (url: string, request: ExchangeRequest) => Promise<Response>;
  /** Status of the last answer; undefined if none came. */
  readonly status: () => number | undefined;
  readonly retryAfterMs: () => number | undefined;
  /** Set if the exchange ended early: by its caller, or by its own time limit. */
  readonly endedBy: () => 'caller' | 'deadline' | undefined;
}

export class AnswerTooLarge extends Error {}

export function openExchange({ send, timeoutMs, signal }: ExchangeOptions): Exchange {
  const deadline = AbortSignal.timeout(timeoutMs);
  const ended = signal === undefined ? deadline : AbortSignal.any([signal, deadline]);
  let status: number | undefined;
  let retryAfterMs: number | undefined;
  return {
    fetch: async (url, { method, headers, body }) => {
      status = undefined;
      const answer = await send(url, {
        method,
        headers,
        signal: ended,
        ...(body === undefined ? {} : { body: body.toString() }),
      });
      const bytes = await bytesOf(answer);
      status = answer.status;
      retryAfterMs = retryAfter(answer.headers.get('retry-after'));
      const empty = answer.status === 204 || answer.status === 205 || answer.status === 304;
      return new Response(empty ? null : bytes, { status: answer.status, headers: [...answer.headers] });
    },
    status: () => status,
    retryAfterMs: () => retryAfterMs,
    endedBy: () => (signal?.aborted === true ? 'caller' : deadline.aborted ? 'deadline' : undefined),
  };
}

async function bytesOf(answer: Response): Promise<ArrayBuffer> {
  try {
    return await answer.arrayBuffer();
  } catch (error) {
    throw error instanceof ResponseTooLarge ? new AnswerTooLarge() : error;
  }
}

/** RFC 9110 §10.2.3, seconds only: a date depends on whose clock is right. */
function retryAfter(header: string | null): number | undefined {
  if (header === null || !/^\d{1,9}$/.test(header)) return undefined;
  return Math.min(Number(header), LONGEST_RETRY_AFTER_SECONDS) * 1_000;
}

const PREFIX = 'urn:ietf:params:oauth:token-type:';

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

export function tokenType(name: SubjectTokenType): string {
  return TOKEN_TYPES[name];
}
