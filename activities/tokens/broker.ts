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
import type { Config, ServerConfig } from '../../contracts/schemas/config.ts';
import type { Issuer } from '../../contracts/schemas/credentials.ts';
import { canonicalServerUrl } from '../../domain/text/urls.ts';
import type { Egress } from '../egress/fetch.ts';
import { faultName } from '../kit/activity.ts';
import { createAuthorizationServers, type TokenSource } from './oauth-client.ts';
import { clientCredentialsStrategy, enterpriseManagedStrategy, tokenExchangeStrategy } from './oauth-strategies.ts';
import { secretHeaderValues, takeGrant } from './configured.ts';
import { LARGEST_ANSWER_BYTES } from './exchange.ts';
import { issuedStrategy, tokenSigner } from './issued.ts';
import { type MintedToken, type TokenBroker, tokenError, type TokenRequest, type TokenStrategy } from './port.ts';
import { grantOpener, type OpenGrant, type PrivateKeys, sealedStrategy, type SigningKeys } from './sealed.ts';
import { refreshStrategy, vaultedTokenStrategy } from './vaulted.ts';
import { type CheckSource, forResource } from './resource-metadata.ts';
import type { Vault } from '../vault/port.ts';

export interface TokenBrokerOptions {
  readonly config: Pick<Config, 'servers' | 'credentials' | 'policy' | 'egress' | 'issuer' | 'trust'>;
  readonly keys: PrivateKeys;
  readonly vault?: Vault | undefined;
  /** Required if a client or the issuer signs. */
  readonly signingKeys?: SigningKeys;
  readonly warn?: TokenSource['warn'];
  readonly egress: Egress;
  /** Limit for all requests that one mint sends to an authorization server. */
  readonly timeoutMs?: number;
  /** Milliseconds since the epoch. */
  readonly now?: () => number;
}

const DEFAULT_TIMEOUT_MS = 20_000;

export function createTokenBroker({ config, keys, egress, ...options }: TokenBrokerOptions): TokenBroker {
  const { now = Date.now, timeoutMs = DEFAULT_TIMEOUT_MS, vault } = options;
  const given = sealedStrategy({
    keys,
    get givenTokens() {
      return config.policy.givenTokens;
    },
    vaulted: vault === undefined ? undefined : vaultedTokenStrategy(vault, now),
    now,
  });
  const { signingKeys = noKeys, warn = () => undefined } = options;
  const { allowInsecure, issuerEndpoints } = config.egress;
  const common = { servers: createAuthorizationServers(now), signingKeys, timeoutMs, allowInsecure, now, warn };
  const parts: StrategyParts = {
    given,
    openGrant: grantOpener({ keys, now }),
    vault,
    sourceAt: (...issuers) => {
      const to = [...issuers, ...issuerEndpoints];
      const outlet = egress.outlet({
        what: `Issuer ${issuers.join(', ')}`,
        to,
        maxBytes: LARGEST_ANSWER_BYTES,
        // An unanswered refresh request loses the grant, even if the issuer only closed an idle connection; so
        // connections are not shared.
        unshared: true,
      });
      return { ...common, send: outlet.fetch };
    },
    check: { egress, now },
    sign: (issuer) => tokenSigner(issuer, signingKeys, now),
    issuer: config.issuer,
    trust: config.trust.mode,
  };
  const strategies = new Map(
    Object.entries(config.servers).map(([name, { credentials }]) => [name, strategyOf(credentials, parts)]),
  );
  const named = new Map(Object.entries(config.credentials).map(([name, { use }]) => [name, strategyOf(use, parts)]));

  const broker: TokenBroker = {
    async mint(request): Promise<MintedToken> {
      const configured = Object.hasOwn(config.servers, request.server) ? config.servers[request.server] : undefined;
      if (configured === undefined && request.credentials !== undefined)
        return await mintNamed(named, config.credentials, request.credentials, request);
      // The run brought this server by URL: nothing is known about it but what the run gives.
      if (configured === undefined) return (request.grant === undefined ? noToken : given).mint(request);
      checkAddress(configured, request);
      const { credentials, headers } = configured;
      if (request.grant !== undefined && !takeGrant(credentials)) {
        const message = `The run gives an authorization for ${request.server}, whose credentials are configured as ${credentials.kind}. Start it without that grant.`;
        throw tokenError('GRANT_INVALID', message, { server: request.server });
      }
      const minted = await (strategies.get(request.server) ?? noToken).mint(request);
      return { ...minted, secrets: [...minted.secrets, ...secretHeaderValues(headers)] };
    },
  };
  return {
    mint: async (request) => await broker.mint(request).catch((error: unknown) => refuse(error, request, warn)),
  };
}

/**
 * Gives every library failure a code: without one the run would believe that the call was sent, and its outcome
 * unknown.
 */
function refuse(error: unknown, { server }: TokenRequest, warn: TokenSource['warn']): never {
  if (codedFailureIn(error) !== undefined) throw error;
  warn('A token could not be asked for: a fault of this worker.', { server, error: faultName(error) });
  const message = `No token for ${server}: this worker failed while it asked for one. Its log names the fault.`;
  throw tokenError('TOKEN_UNAVAILABLE', message, { server });
}

/**
 * Mints with named credentials. The operator decides to which addresses they may go, wherever a catalog places its
 * server.
 */
async function mintNamed(
  strategies: ReadonlyMap<string, TokenStrategy>,
  credentials: Config['credentials'],
  { name, tenant }: NonNullable<TokenRequest['credentials']>,
  request: TokenRequest,
): Promise<MintedToken> {
  const { server, serverUrl } = request;
  const named = Object.hasOwn(credentials, name) ? credentials[name] : undefined;
  const strategy = strategies.get(name);
  if (named === undefined || strategy === undefined) {
    const message = `The catalog names credentials ${name} for ${server}, which this worker's configuration does not have.`;
    throw tokenError('TOKEN_REFUSED', message, { server });
  }
  const { origin } = new URL(serverUrl);
  if (!named.origins.some((allowed) => new URL(allowed).origin === origin)) {
    const message = `Credentials ${name} may not be sent to ${origin}, where the catalog has ${server} (credentials.${name}.origins).`;
    throw tokenError('TOKEN_REFUSED', message, { server });
  }
  if (!named.tenants.includes(tenant)) {
    const message = `Credentials ${name} are not for tenant ${tenant}, whose catalog names them for ${server} (credentials.${name}.tenants).`;
    throw tokenError('TOKEN_REFUSED', message, { server });
  }
  if (request.grant !== undefined && !takeGrant(named.use)) {
    const message = `The run gives an authorization for ${server}, whose catalog names credentials of its own. Start it without that grant.`;
    throw tokenError('GRANT_INVALID', message, { server });
  }
  return await strategy.mint(request);
}

interface StrategyParts {
  readonly given: TokenStrategy;
  readonly openGrant: OpenGrant;
  readonly vault: Vault | undefined;
  /** The source for credentials of these issuers: its egress leads to them alone. */
  readonly sourceAt: (...issuers: readonly string[]) => TokenSource;
  readonly check: CheckSource;
  readonly sign: (issuer: Issuer) => ReturnType<typeof tokenSigner>;
  readonly issuer: Config['issuer'];
  readonly trust: Config['trust']['mode'];
}

function strategyOf(credentials: ServerConfig['credentials'], parts: StrategyParts): TokenStrategy {
  const { given, openGrant, sourceAt, check } = parts;
  switch (credentials.kind) {
    case 'none':
      return noToken;
    case 'given':
      return given;
    case 'client-credentials':
      return forResource(credentials, clientCredentialsStrategy(credentials, sourceAt(credentials.issuer)), check);
    case 'refresh': {
      if (parts.vault === undefined) return noVault;
      const strategy = refreshStrategy(credentials, sourceAt(credentials.issuer), parts.vault);
      return forResource(credentials, strategy, check);
    }
    case 'token-exchange':
      return forResource(
        credentials,
        tokenExchangeStrategy(credentials, openGrant, sourceAt(credentials.issuer)),
        check,
      );
    case 'enterprise-managed': {
      const source = sourceAt(credentials.identityProvider.issuer, credentials.issuer);
      return forResource(credentials, enterpriseManagedStrategy(credentials, openGrant, source), check);
    }
    case 'issued': {
      const { issuer, trust } = parts;
      if (issuer === undefined) throw unusable('Credentials of the kind issued need an issuer in the configuration.');
      const strategy = issuedStrategy(credentials, {
        issuer,
        sign: parts.sign(issuer),
        trust,
      });
      return forResource({ ...credentials, issuer: issuer.url }, strategy, check);
    }
  }
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

function checkAddress(configured: ServerConfig, { server, serverUrl }: TokenRequest): void {
  if (canonicalServerUrl(configured.url) === canonicalServerUrl(serverUrl)) return;
  const message = `The run calls ${server} at another address than its configured one, so no token is handed out. Give a server of the run's own another name.`;
  throw tokenError('TOKEN_REFUSED', message, { server });
}
