/**
 * `issued`: a token of our own making for one call, for servers that trust this deployment as an issuer (RFC 9068).
 *
 * 1. It names one call with the hash of its arguments, and who countersigned it: a server that compares them knows that exactly
 *    this call was approved.
 * 2. For one server, one tool's scopes, at most 120 s (INV-S2).
 */
import type { Config } from '../../contracts/schemas/config.ts';
import type { IssuedTokens, Issuer } from '../../contracts/schemas/credentials.ts';
import { askedFor, parametersOf } from './asked.ts';
import { expiry } from './evidence.ts';
import type { SignToken } from './issuer.ts';
import type { MintedToken } from './port.ts';
import type { TokenStrategy } from './strategy.ts';

export interface IssuedSource {
  readonly issuer: Issuer;
  readonly sign: SignToken;
  readonly trust: Config['trust']['mode'];
}

export function issuedStrategy(credentials: IssuedTokens, { issuer, sign, trust }: IssuedSource): TokenStrategy {
  return {
    async mint(request): Promise<MintedToken> {
      const { run, initiator, call } = request;
      const asked = askedFor(credentials, request);
      const { resource, scope } = parametersOf(asked);
      const { token, jti, expiresAtMs } = await sign({
        sub: initiator?.id ?? issuer.clientId,
        aud: resource,
        ...(scope === undefined ? {} : { scope }),
        ...(initiator === undefined ? {} : { act: { sub: issuer.clientId } }),
        countersign: {
          namespace: run.namespace,
          run: run.workflowId,
          trust,
          ...(initiator === undefined ? {} : { tenant: initiator.tenant }),
          ...(call === undefined ? {} : { call }),
        },
      });
      return {
        accessToken: token,
        evidence: {
          strategy: credentials.kind,
          issuer: issuer.url,
          jti,
          scopes: [...asked.scopes],
          ...expiry(expiresAtMs),
        },
        secrets: [token],
      };
    },
  };
}
