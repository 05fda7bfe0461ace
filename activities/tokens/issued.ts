/**
 * `issued`: a token of our own making for one call, for servers that trust this deployment as an issuer (RFC 9068).
 *
 * 1. It names one call with the hash of its arguments, and who countersigned it: a server that compares them knows that exactly
 *    this call was approved.
 * 2. For one server, one tool's scopes, at most 120 s (INV-S2).
 */
import type { Config } from '../../contracts/schemas/config.ts';
import type { IssuedTokens, Issuer } from '../../contracts/schemas/credentials.ts';
import type { Initiator } from '../../contracts/schemas/run-spec.ts';
import { askedFor, parametersOf } from './asked.ts';
import { expiry } from './evidence.ts';
import type { SignToken } from './issuer.ts';
import type { MintedToken, TokenStrategy } from './port.ts';

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
        sub: initiator === undefined ? issuer.clientId : subjectOf(initiator, issuer.clientId),
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

/** How the subject of somebody of another tenant than `default` begins; an encoded name holds nothing else. */
export const TENANT_PREFIX = /^[\w.!~*'()%-]+\//;

/**
 * Unique within the issuer (RFC 7519 §4.1.2): the id itself for people of the tenant `default`, `TENANT/ID` for others, and for
 * ids that would be read as that or as the service itself.
 */
function subjectOf({ id, tenant }: Pick<Initiator, 'id' | 'tenant'>, clientId: string): string {
  const isPlain = tenant === 'default' && id !== clientId && !TENANT_PREFIX.test(id);
  return isPlain ? id : `${encodeURIComponent(tenant)}/${id}`;
}
