/** Lists the credentials, clients and secret headers of a configuration, for code that loads, checks or hides them. */
import type { Config, Credentials } from '../../contracts/schemas/config.ts';
import type { OAuthClient } from '../../contracts/schemas/credentials.ts';
import { pathText } from '../../contracts/schemas/parse.ts';
import { hashOf } from '../../domain/text/canonical.ts';
import { ownValue } from '../kit/json.ts';

export function credentialsOf(config: Pick<Config, 'servers' | 'credentials'>) {
  const servers = Object.entries(config.servers).map(([name, { credentials }]) => {
    return { path: ['servers', name, 'credentials'], name, credentials };
  });
  const named = Object.entries(config.credentials).map(([name, { use }]) => {
    return { path: ['credentials', name, 'use'], name, credentials: use };
  });
  return [...servers, ...named];
}

export function clientsOf(
  config: Pick<Config, 'servers' | 'credentials'>,
): { readonly path: string; readonly client: OAuthClient }[] {
  return credentialsOf(config).flatMap(({ path, credentials }) => {
    if (!('clientId' in credentials)) return [];
    const own = { path: pathText(path), client: credentials };
    if (!('identityProvider' in credentials)) return [own];
    return [own, { path: pathText([...path, 'identityProvider']), client: credentials.identityProvider }];
  });
}

/** True if what callers seal for such a server is exchanged, and never sent to it. */
export function isExchanged({ kind }: Credentials): boolean {
  return kind === 'token-exchange' || kind === 'enterprise-managed';
}

export function takeGrant(credentials: Credentials): boolean {
  return credentials.kind === 'given' || credentials.kind === 'refresh' || isExchanged(credentials);
}

/**
 * Hashes how this configuration reaches a server, without secrets and values of headers: a rotated one is the same way.
 * @param named the credentials that a catalog names, in place of the server's own
 */
export function reachHash(
  { servers, credentials }: Pick<Config, 'servers' | 'credentials'>,
  { name, url }: { readonly name: string; readonly url: string },
  named?: string,
): string {
  const server = ownValue(servers, name);
  const use = named === undefined ? server?.credentials : ownValue(credentials, named)?.use;
  return hashOf({
    url,
    use: use === undefined ? null : withoutSecrets(use),
    headers: Object.keys(server?.headers ?? {}).toSorted(),
  });
}

function withoutSecrets(credentials: Credentials): unknown {
  return JSON.parse(
    JSON.stringify(credentials, (name, value: unknown) => (name === 'clientSecret' ? undefined : value)),
  );
}

const SECRET_NAME = /key|token|secret|auth|cookie|password|credential|signature/i;
/** Only where they stand alone: compass and opinion hold them, too. */
const SECRET_WORD = /(?<![a-z0-9])(?:pass|pwd|pin)(?![a-z0-9])/i;
/** The same, of values that are long enough: `X-Access: read` and `X-Session: true` hold no secret. */
const PERHAPS_SECRET_WORD = /(?<![a-z0-9])(?:session|access)(?![a-z0-9])/i;
/** Shorter values from the environment are words such as `eu`, `prod` and `true`, which stand in ordinary text. */
const SHORTEST_GIVEN = 8;

/** By server: values from the environment. */
export type HeaderSecrets = ReadonlyMap<string, readonly string[]>;

/**
 * Returns the texts in headers that are to be scrubbed. `Authorization` itself is refused.
 * @param given what the environment put into them: secret whatever their names, if it is long enough
 */
export function secretHeaderValues(
  headers: Readonly<Record<string, string>>,
  given: readonly string[] | undefined,
): string[] {
  // HTTP has no white space around a value (RFC 9110 §5.5), so a server echoes the value without it.
  const sent = Object.entries(headers).map(([name, value]) => [name, value.trim()] as const);
  const told = sent.filter((header) => isTold(...header)).map(([, value]) => value);
  const foreign = (given ?? []).map((text) => text.trim()).filter(({ length }) => length >= SHORTEST_GIVEN);
  return [...new Set([...told, ...foreign])];
}

function isTold(name: string, value: string): boolean {
  if (SECRET_NAME.test(name) || SECRET_WORD.test(name) || looksRandom(value)) return true;
  return PERHAPS_SECRET_WORD.test(name) && value.length >= SHORTEST_GIVEN;
}

/** A long value that mixes letters and digits without spaces is no prose. */
export function looksRandom(value: string): boolean {
  return /^[\x21-\x7e]{16,}$/.test(value) && /\d/.test(value) && /[A-Za-z]/.test(value) && !URL.canParse(value);
}
