/**
 * The broker chooses, by configuration, how a token for a server is obtained.
 *
 * 1. A grant for a server whose credentials take none is refused, not ignored: its sender believes that it is used.
 * 2. A configured name stands for its configured URL only: no token goes to another address under that name.
 * 3. A token of the service itself or of another server never replaces a missing one.
 * 4. A failure without a code becomes `TOKEN_UNAVAILABLE`: no call was sent, and no other grant would help.
 */
import { CountersignError } from '../../contracts/errors.ts';
import { codedFailureIn } from '../../contracts/failure.ts';
import type { Config, Credentials, ServerConfig } from '../../contracts/schemas/config.ts';
import { canonicalServerUrl } from '../../domain/text/urls.ts';
import type { Egress } from '../egress/fetch.ts';
import { faultName } from '../kit/activity.ts';
import type { ServerConnection } from '../mcp/port.ts';
import type { Vault } from '../vault/port.ts';
import { type HeaderSecrets, secretHeaderValues, takeGrant } from './configured.ts';
import { LARGEST_ANSWER_BYTES } from './exchange.ts';
import { issuedStrategy, tokenSigner } from './issued.ts';
import type { TokenSource } from './oauth-client.ts';
import { clientCredentialsStrategy, enterpriseManagedStrategy, tokenExchangeStrategy } from './oauth-strategies.ts';
import { type MintedToken, type TokenBroker, tokenError, type TokenRequest, type TokenStrategy } from './port.ts';
import { forResource, type ResourceCheck } from './resource-metadata.ts';
import { grantOpener, type PrivateKeys, sealedStrategy, type SigningKeys } from './sealed.ts';
import { createServerWords } from './proof-key.ts';
import { refreshStrategy, vaultedTokenStrategy } from './vaulted.ts';

export interface TokenBrokerOptions {
  readonly config: Pick<Config, 'servers' | 'credentials' | 'policy' | 'egress' | 'issuer' | 'trust'>;
  readonly headerSecrets?: HeaderSecrets | undefined;
  readonly keys: PrivateKeys;
  readonly vault?: Vault | undefined;
  readonly signingKeys?: SigningKeys;
  readonly warn?: TokenSource['warn'];
  readonly egress: Egress;
  /** Limit for all requests that one mint sends to an authorization server. */
  readonly timeoutMs?: number;
  readonly now?: () => number;
}

const DEFAULT_TIMEOUT_MS = 20_000;

export function createTokenBroker(options: TokenBrokerOptions): TokenBroker {
  const { config, headerSecrets, warn = () => undefined } = options;
  const { given, strategyOf } = createStrategies(options, warn);
  const servers = new Map(
    Object.entries(config.servers).map(([name, server]) => [
      name,
      { ...server, strategy: strategyOf(server.credentials) },
    ]),
  );
  const named = new Map(
    Object.entries(config.credentials).map(([name, own]) => [name, { ...own, strategy: strategyOf(own.use) }]),
  );
  const mint = async (request: TokenRequest): Promise<MintedToken> => {
    const configured = servers.get(request.server);
    if (configured !== undefined) {
      checkConfigured(configured, request);
      const minted = await configured.strategy.mint(request);
      const inHeaders = secretHeaderValues(configured.headers, headerSecrets?.get(request.server));
      return { ...minted, secrets: [...minted.secrets, ...inHeaders] };
    }
    if (request.credentials !== undefined) {
      const own = named.get(request.credentials.name);
      checkNamed(own, request.credentials, request);
      return await own.strategy.mint(request);
    }
    // The run brought this server by URL.
    return await (request.grant === undefined ? noToken : given).mint(request);
  };
  return { mint: async (request) => await mint(request).catch((error: unknown) => refuse(error, request, warn)) };
}

/** Without a code the run would believe that the call was sent. */
function refuse(error: unknown, { server }: TokenRequest, warn: TokenSource['warn']): never {
  if (codedFailureIn(error) !== undefined) throw error;
  warn('A token could not be asked for: a fault of this worker.', { server, error: faultName(error) });
  const message = `No token for ${server}: this worker failed while it asked for one. Its log names the fault.`;
  throw tokenError('TOKEN_UNAVAILABLE', message, { server });
}

function checkConfigured({ url, credentials }: ServerConfig, { server, serverUrl, grant }: TokenRequest): void {
  if (canonicalServerUrl(url) !== canonicalServerUrl(serverUrl)) {
    const message = `The run calls ${server} at another address than its configured one, so no token is handed out. Give a server of the run's own another name.`;
    throw tokenError('TOKEN_REFUSED', message, { server });
  }
  if (grant !== undefined && !takeGrant(credentials)) {
    const message = `The run gives an authorization for ${server}, whose credentials are configured as ${credentials.kind}. Start it without that grant.`;
    throw tokenError('GRANT_INVALID', message, { server });
  }
}

function checkNamed<Named extends Config['credentials'][string]>(
  named: Named | undefined,
  { name, tenant }: NonNullable<TokenRequest['credentials']>,
  { server, serverUrl, grant }: TokenRequest,
): asserts named is Named {
  const refused = (message: string): Error => tokenError('TOKEN_REFUSED', message, { server });
  if (named === undefined)
    throw refused(
      `The catalog names credentials ${name} for ${server}, which this worker's configuration does not have.`,
    );
  const { origin } = new URL(serverUrl);
  if (!named.origins.some((allowed) => new URL(allowed).origin === origin))
    throw refused(
      `Credentials ${name} may not be sent to ${origin}, where the catalog has ${server} (credentials.${name}.origins).`,
    );
  if (!named.tenants.includes(tenant))
    throw refused(
      `Credentials ${name} are not for tenant ${tenant}, whose catalog names them for ${server} (credentials.${name}.tenants).`,
    );
  if (grant !== undefined && !takeGrant(named.use)) {
    const message = `The run gives an authorization for ${server}, whose catalog names credentials of its own. Start it without that grant.`;
    throw tokenError('GRANT_INVALID', message, { server });
  }
}

/**
 * Makes strategies by the kind of their credentials. One function, because every kind is made of the same parts, and a
 * reader compares the kinds here.
 */
function createStrategies(
  {
    config,
    keys,
    egress,
    vault,
    signingKeys = noKeys,
    timeoutMs = DEFAULT_TIMEOUT_MS,
    now = Date.now,
  }: TokenBrokerOptions,
  warn: TokenSource['warn'],
) {
  const { issuerEndpoints } = config.egress;
  const words = createServerWords(now);
  const common = { words, signingKeys, timeoutMs, now, warn };
  const openGrant = grantOpener({ keys, now });
  const given = sealedStrategy({
    keys,
    get givenTokens() {
      return config.policy.givenTokens;
    },
    vaulted: vault === undefined ? undefined : vaultedTokenStrategy(vault, now),
    now,
  });
  const sourceAt = (...issuers: readonly string[]): TokenSource => {
    const what = `Issuer ${issuers.join(', ')}`;
    const to = [...issuers, ...issuerEndpoints];
    // Unshared: an unanswered refresh request loses the grant, even if the issuer only closed an idle connection.
    const outlet = egress.outlet({ what, to, maxBytes: LARGEST_ANSWER_BYTES, unshared: true });
    return { ...common, send: outlet.fetch };
  };
  const checked = (check: ResourceCheck, strategy: TokenStrategy): TokenStrategy =>
    forResource(check, strategy, { egress, now, words });
  const strategyOf = (credentials: Credentials): TokenStrategy => {
    switch (credentials.kind) {
      case 'none':
        return noToken;
      case 'given':
        return given;
      case 'issued': {
        const { issuer, trust } = config;
        if (issuer === undefined) throw unusable('Credentials of the kind issued need an issuer in the configuration.');
        const sign = tokenSigner(issuer, signingKeys, now);
        const strategy = issuedStrategy(credentials, { issuer, sign, trust: trust.mode, words });
        return checked({ ...credentials, issuer: issuer.url }, strategy);
      }
      case 'client-credentials':
        return checked(credentials, clientCredentialsStrategy(credentials, sourceAt(credentials.issuer)));
      case 'refresh':
        if (vault === undefined) return noVault;
        return checked(credentials, refreshStrategy(credentials, sourceAt(credentials.issuer), vault));
      case 'token-exchange':
        return checked(credentials, tokenExchangeStrategy(credentials, openGrant, sourceAt(credentials.issuer)));
      case 'enterprise-managed': {
        const source = sourceAt(credentials.identityProvider.issuer, credentials.issuer);
        return checked(credentials, enterpriseManagedStrategy(credentials, openGrant, source));
      }
    }
  };
  return { given, strategyOf };
}

function noKeys(): never {
  throw unusable('No signing keys were loaded.');
}

function unusable(message: string): CountersignError {
  return new CountersignError('CONFIG_INVALID', message, { path: 'issuer' });
}

const noVault: TokenStrategy = {
  async mint({ server }) {
    const message = `${server} needs a refresh token from the vault, and this worker has none (vault in countersign.yaml).`;
    throw tokenError('TOKEN_REFUSED', message, { server });
  },
};

const noToken: TokenStrategy = {
  async mint({ server, refused }) {
    if (refused !== undefined) {
      const message = `${server} wants a token and is configured without credentials. Set servers.${server}.credentials.`;
      throw tokenError('TOKEN_REFUSED', message, { server });
    }
    return { evidence: { strategy: 'none' }, secrets: [] };
  },
};

// Uses a server with a token that is minted for this use.
//
// 1. A 401 proves that nothing ran, so one other token is tried, once (RFC 6750 §3.1).
// 2. A token ends with its use, whatever the result, and also if it is not used (`MintedToken.release`).
// 3. A fault of a use is thrown, and a missing token is a value: only in the first case may a call have been sent
//    (INV-X1).

/** Lists all secrets that a holder of the connection must not pass on. */
export function secretsOf({
  accessToken,
  binding,
  secrets,
}: Pick<MintedToken | ServerConnection, 'accessToken' | 'binding' | 'secrets'>): readonly string[] {
  const proofs = binding?.secrets() ?? [];
  return accessToken === undefined ? secrets : [...secrets, accessToken, ...proofs];
}

interface TokenUse<Used> {
  /** @param known secrets that this use has shown to the server before: it may echo them now */
  readonly use: (token: MintedToken, known: readonly string[]) => Promise<Used>;
  /** Tells whether the server has refused the token, and nothing else is wrong. */
  readonly isRefused: (used: Used) => boolean;
}

export type WithToken<Used> =
  | { readonly kind: 'none'; readonly error: unknown }
  /** `token` is the one used last; it has ended. `noOther` says why there was no other for a refused one. */
  | { readonly kind: 'used'; readonly used: Used; readonly token: MintedToken; readonly noOther?: unknown };

export async function withToken<Used>(
  broker: TokenBroker,
  request: TokenRequest,
  { use, isRefused }: TokenUse<Used>,
): Promise<WithToken<Used>> {
  const usedWith = async (token: MintedToken, known: readonly string[]): Promise<Used> => {
    try {
      return await use(token, known);
    } finally {
      token.release?.();
    }
  };
  let token: MintedToken;
  try {
    token = await broker.mint(request);
  } catch (error) {
    return { kind: 'none', error };
  }
  const used = await usedWith(token, []);
  const { accessToken: refused, binding } = token;
  if (refused === undefined || !isRefused(used)) return { kind: 'used', used, token };
  let other: MintedToken;
  try {
    other = await broker.mint({ ...request, refused, ...(binding?.isDeclined() === true ? { declined: true } : {}) });
  } catch (noOther) {
    return { kind: 'used', used, token, noOther };
  }
  if (other.accessToken !== refused)
    return { kind: 'used', used: await usedWith(other, secretsOf(token)), token: other };
  other.release?.();
  return { kind: 'used', used, token };
}
