/**
 * Another token for a connection on which people are asked: the one that a call left with may end while they think.
 *
 * Owns which tokens there were: all are secret, and each ends with the call (INV-S1). Does not own when one is wanted
 * (`renewed-fetch.ts`).
 * 1. Asked for as the call's own was, without what is proven of the call: that stands in one token only (INV-S2).
 */
import type { MintedToken, TokenBroker, TokenRequest } from '../tokens/port.ts';
import type { TokenRenewal } from './port.ts';
import { secretsOf } from './server-access.ts';

export interface Renewing extends TokenRenewal {
  release(): void;
}

/** Nothing where there is no token. @param onMinted before anybody sees it */
export function renewalOf(
  broker: TokenBroker,
  { call: _, ...request }: TokenRequest,
  { accessToken, evidence: { expiresAt } }: MintedToken,
  onMinted: (token: MintedToken) => void,
): Renewing | undefined {
  if (accessToken === undefined) return undefined;
  const minted: MintedToken[] = [];
  let isOver = false;
  return {
    ...(expiresAt === undefined ? {} : { expiresAt }),
    mint: async (refused) => {
      const token = await broker.mint({ ...request, ...(refused === undefined ? {} : { refused }) });
      minted.push(token);
      onMinted(token);
      if (isOver) token.release?.();
      return token.accessToken === undefined
        ? undefined
        : { accessToken: token.accessToken, expiresAt: token.evidence.expiresAt };
    },
    secrets: () => minted.flatMap(secretsOf),
    release: () => {
      // One may still be on its way.
      isOver = true;
      for (const token of minted) token.release?.();
    },
  };
}
