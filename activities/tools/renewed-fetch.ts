/**
 * The requests of a session beside its call, with a token that is good when they leave: answers of people leave long after the call.
 *
 * Owns when another token is asked for. Does not own which one it is (`token-renewal.ts`).
 * 1. The call itself, and what goes before it, leaves with the token that it was given, and is not sent again here (INV-X1).
 * 2. Anything else is sent again once, after a 401, which says that nothing was done with it (RFC 6750 §3.1).
 * 3. Where no other token is to be had, it leaves with the one that there is: what the server says to that is told by whoever sends.
 */
import type { FetchLike } from '@modelcontextprotocol/client';
import type { TokenRenewal } from './port.ts';
import { IDEMPOTENCY_HEADER } from './wire.ts';

/** Of one session. */
const MOST_RENEWALS = 20;
/** Before a token ends: it has a way to go. */
const EARLY_MS = 5_000;

export function renewedFetch(fetch: FetchLike, first: string, renewal: TokenRenewal): FetchLike {
  let current: { readonly accessToken: string; readonly expiresAt?: string | undefined } = {
    accessToken: first,
    expiresAt: renewal.expiresAt,
  };
  let isCalled = false;
  let renewals = 0;
  let renewing: Promise<void> | undefined;
  const renew = async (refused?: string): Promise<void> => {
    if (renewals >= MOST_RENEWALS) return;
    renewals += 1;
    // Said by what follows.
    current = (await renewal.mint(refused).catch(() => undefined)) ?? current;
  };
  /** One at a time: whoever comes meanwhile takes the same. */
  const renewed = async (refused?: string): Promise<void> => {
    renewing ??= renew(refused).finally(() => {
      renewing = undefined;
    });
    await renewing;
  };
  const isEnding = (): boolean =>
    current.expiresAt !== undefined && Date.parse(current.expiresAt) - EARLY_MS <= Date.now();

  return async (url, init) => {
    const headers = new Headers(init?.headers);
    const isCall = headers.has(IDEMPOTENCY_HEADER);
    isCalled ||= isCall;
    if (isCall || !isCalled) return await fetch(url, init);
    const sent = async (): Promise<Response> => {
      headers.set('authorization', `Bearer ${current.accessToken}`);
      return await fetch(url, { ...init, headers });
    };
    // A farewell is worth no token.
    if (init?.method === 'DELETE') return await sent();
    if (isEnding()) await renewed();
    const { accessToken } = current;
    const response = await sent();
    if (response.status !== 401) return response;
    // Another request may have brought one meanwhile.
    if (current.accessToken === accessToken) await renewed(accessToken);
    if (current.accessToken === accessToken) return response;
    await response.body?.cancel().catch(() => undefined);
    return await sent();
  };
}
