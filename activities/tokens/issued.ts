/**
 * The strategy `issued` signs a token of our own for one call, for servers that trust this deployment as an issuer (RFC
 * 9068).
 *
 * 1. The token names one call with the hash of its arguments, and who countersigned it: a server that compares them
 *    knows that exactly this call was approved.
 * 2. The token is for one server and one tool's scopes, and lasts at most 120 s (INV-S2).
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

/** How the subject of a person begins whose tenant is not `default`; an encoded name holds no other characters. */
export const TENANT_PREFIX = /^[\w.!~*'()%-]+\//;

/**
 * Returns a subject that is unique within the issuer (RFC 7519 §4.1.2): the id itself for people of the tenant
 * `default`, and `TENANT/ID` for others. Ids that could be read as `TENANT/ID` or as the service itself also get the
 * long form.
 */
function subjectOf({ id, tenant }: Pick<Initiator, 'id' | 'tenant'>, clientId: string): string {
  const isPlain = tenant === 'default' && id !== clientId && !TENANT_PREFIX.test(id);
  return isPlain ? id : `${encodeURIComponent(tenant)}/${id}`;
}
