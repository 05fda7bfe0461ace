/**
 * Opens, for one call, what a caller sealed into the run: with `given` the caller's own token for the server, otherwise
 * the assertion that is exchanged for one. It also loads the private keys of a zone.
 *
 * 1. Every field of the binding is computed again from the request and must equal, byte for byte, what was sealed. So a
 *    grant moved to another run, namespace, server or spec opens nothing (INV-S1).
 * 2. Old private keys stay usable, so that keys rotate while runs wait.
 * 3. With `given`, no scope is recorded, since the caller states none; organisation policy may forbid this strategy.
 */
import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { CompactSign, type CryptoKey, decodeProtectedHeader, flattenedDecrypt, importPKCS8 } from 'jose';
import { readAuthorization } from '../../contracts/access-token.ts';
import { SEALING } from '../../contracts/crypto.ts';
import { CountersignError } from '../../contracts/errors.ts';
import type { Config, PrivateKeyFile } from '../../contracts/schemas/config.ts';
import type { SigningKey } from '../../contracts/schemas/credentials.ts';
import type { GrantBinding, SealedGrant } from '../../contracts/schemas/run-spec.ts';
import { canonicalJson } from '../../domain/text/canonical.ts';
import { canonicalServerUrl } from '../../domain/text/urls.ts';
import { fieldsOf, parsedJson } from '../kit/json.ts';
import { unverifiedEvidence } from './asked.ts';
import { clientsOf } from './configured.ts';
import { type MintedToken, tokenError, type TokenRequest, type TokenStrategy } from './port.ts';

interface SealedGrants {
  readonly keys: PrivateKeys;
  readonly now: () => number;
  readonly vaulted?: TokenStrategy | undefined;
  readonly givenTokens: 'allow' | 'deny';
}

/** Opens the grant of a request. Throws `GRANT_MISSING | GRANT_INVALID | GRANT_EXPIRED`. */
export type OpenGrant = ReturnType<typeof grantOpener>;

export function sealedStrategy(grants: SealedGrants): TokenStrategy {
  const openGrant = grantOpener(grants);
  return {
    async mint(request): Promise<MintedToken> {
      const { server } = request;
      if (grants.givenTokens === 'deny') {
        const message = `Organisation policy forbids tokens given by callers (policy.givenTokens: deny), and ${server} is set to take one. Configure other credentials for it.`;
        throw tokenError('GRANT_FORBIDDEN', message, { server });
      }
      if (grants.vaulted !== undefined && request.grant !== undefined && 'ref' in request.grant)
        return await grants.vaulted.mint(request);
      const { token, expiresAt } = await openGrant(request);
      if (token === request.refused) {
        const message = `${server} refused the authorization that was given to the run. Give this run a fresh one, and the next run one that lasts as long as it may wait.`;
        throw tokenError('TOKEN_REFUSED', message, { server });
      }
      return {
        accessToken: token,
        evidence: unverifiedEvidence('given', token, [token]),
        secrets: [token],
        grantExpiresAt: expiresAt,
      };
    },
  };
}

export function grantOpener({ keys, now }: Pick<SealedGrants, 'keys' | 'now'>) {
  return async (request: TokenRequest) => {
    const { server, grant } = request;
    if (grant === undefined) {
      const message = `${server} needs an authorization and the run was started without one. Start the run with a grant for ${server}.`;
      throw tokenError('GRANT_MISSING', message, { server });
    }
    if (!('jwe' in grant)) throw invalid(server, 'names a vault entry, and none is taken for this server here (vault)');
    if (grant.server !== server) throw invalid(server, 'is for another server of the run');
    return await open(grant.jwe, request);
  };

  async function open(jwe: SealedGrant, request: TokenRequest) {
    const { server } = request;
    if (!Object.values(jwe).every(isCanonicalBase64url)) throw invalid(server, 'is damaged');
    const key = keys.get(keyIdOf(jwe, server));
    if (key === undefined) throw unknownKey(server);
    const { protected: header, encrypted_key, iv, ciphertext, tag, aad } = jwe;
    // Members are named: one that the schema does not know, such as an unprotected header, has no effect.
    const opened = await flattenedDecrypt({ protected: header, encrypted_key, iv, ciphertext, tag, aad }, key, {
      keyManagementAlgorithms: [SEALING.alg],
      contentEncryptionAlgorithms: [SEALING.enc],
    }).catch(() => undefined);
    if (opened?.additionalAuthenticatedData === undefined)
      throw invalid(server, 'does not open: it was changed after sealing');
    const expiresAt = boundUntil(opened.additionalAuthenticatedData, request);
    const read = readAuthorization(new TextDecoder().decode(opened.plaintext));
    if (read.kind === 'refused') throw invalid(server, `holds an authorization that ${read.reason}`);
    return { token: read.token, expiresAt };
  }

  function boundUntil(sealed: Uint8Array, request: TokenRequest): string {
    const { server, run } = request;
    const stated = fieldsOf(parsedJson(new TextDecoder().decode(sealed)));
    const { exp } = stated;
    const expected: GrantBinding = {
      namespace: run.namespace,
      workflowId: run.workflowId,
      serverUrl: canonicalServerUrl(request.serverUrl),
      specHash: run.specHash,
      exp: typeof exp === 'number' && Number.isSafeInteger(exp) ? exp : 0,
    };
    const different = Object.entries(expected).find(([field, value]) => stated[field] !== value)?.[0];
    if (different !== undefined) throw invalid(server, `was sealed for another ${different}`);
    if (Buffer.compare(sealed, new TextEncoder().encode(canonicalJson(expected))) !== 0)
      throw invalid(server, 'states a binding that is not in canonical form');
    const expiredAt = isoOf(expected.exp);
    if (now() >= expected.exp * 1_000) {
      const message = `The grant for ${server} expired at ${expiredAt}. Give this run a fresh one, and the next run one that lasts as long as it may wait.`;
      throw tokenError('GRANT_EXPIRED', message, { server, expiredAt });
    }
    return expiredAt;
  }
}

function invalid(server: string, reason: string): CountersignError {
  const message = `The grant for ${server} ${reason}. Give this run a fresh grant.`;
  return tokenError('GRANT_INVALID', message, { server });
}

/** The grant is good: a key was removed from a worker too early, or the client seals to another zone's key. */
function unknownKey(server: string): CountersignError {
  const message = `The grant for ${server} is sealed to a key that this worker does not have (grants.keys). If the key was removed, put it back as the last on all workers, so that other runs go on; this run is given a fresh grant.`;
  return tokenError('GRANT_INVALID', message, { server });
}

/** RFC 7516 §4: accepts only the header that our client writes; others may ask for processing nobody reviewed. */
function keyIdOf(jwe: SealedGrant, server: string): string {
  let header: Record<string, unknown>;
  try {
    header = decodeProtectedHeader({ protected: jwe.protected });
  } catch {
    throw invalid(server, 'is damaged');
  }
  const strange = Object.keys(header).some((name) => !['alg', 'enc', 'kid', 'epk'].includes(name));
  const { alg, enc, kid } = header;
  if (strange || alg !== SEALING.alg || enc !== SEALING.enc || typeof kid !== 'string') {
    throw invalid(server, `is not sealed with ${SEALING.alg} and ${SEALING.enc} to a named key`);
  }
  return kid;
}

/** Refuses other encodings of the same bytes (RFC 4648 §3.5, unused bits): only one text is what was sealed. */
function isCanonicalBase64url(text: unknown): boolean {
  return typeof text === 'string' && Buffer.from(text, 'base64url').toString('base64url') === text;
}

function isoOf(seconds: number): string {
  const date = new Date(seconds * 1_000);
  return Number.isNaN(date.valueOf()) ? 'an impossible time' : date.toISOString();
}

/** By key id. */
export type PrivateKeys = ReadonlyMap<string, CryptoKey>;

export async function loadPrivateKeys(keys: readonly PrivateKeyFile[], baseDirectory: string): Promise<PrivateKeys> {
  const loaded = new Map<string, CryptoKey>();
  for (const [index, { kid, privateKeyFile: file }] of keys.entries()) {
    const path = `grants.keys[${index}]`;
    if (loaded.has(kid)) throw invalidKey(`${path}.kid`, `repeats the key id ${kid}; each key needs its own`);
    const kind = 'PKCS #8 private key in PEM. Convert it with: openssl pkcs8 -topk8 -nocrypt';
    const key = await readKey({ file, baseDirectory, path: `${path}.privateKeyFile`, alg: SEALING.alg, kind });
    // Sound: an imported elliptic-curve key has the algorithm parameters of one (Web Cryptography API, EcKeyAlgorithm).
    const { namedCurve } = key.algorithm as { namedCurve?: string };
    if (namedCurve !== SEALING.curve)
      throw invalidKey(`${path}.privateKeyFile`, `names the file ${file}, whose key is not of curve ${SEALING.curve}`);
    loaded.set(kid, key);
  }
  return loaded;
}

export interface KeyFile {
  /** Relative to the folder of the configuration file. */
  readonly file: string;
  readonly baseDirectory: string;
  /** Path in the configuration, for errors. */
  readonly path: string;
  readonly alg: string;
  /** Continues "which is no". */
  readonly kind: string;
}

/** Imports a key as not extractable. No error has a cause, which may quote the file. @throws `CONFIG_INVALID` */
export async function readKey({ file, baseDirectory, path, alg, kind }: KeyFile): Promise<CryptoKey> {
  const pem = await readFile(resolve(baseDirectory, file), 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw invalidKey(path, `names the file ${file}, which cannot be read (${error.code ?? 'error'})`);
  });
  return await importPKCS8(pem.trim(), alg).catch(() => {
    throw invalidKey(path, `names the file ${file}, which is no ${kind}`);
  });
}

function invalidKey(path: string, reason: string): CountersignError {
  return new CountersignError('CONFIG_INVALID', `The configuration is not valid: ${path} ${reason}.`, { path });
}

export type SigningKeys = (key: SigningKey) => CryptoKey;

interface PlacedKey {
  readonly path: string;
  readonly key: SigningKey;
}

export function signingKeysOf(config: Pick<Config, 'servers' | 'credentials' | 'issuer'>): readonly PlacedKey[] {
  return [
    ...clientsOf(config).flatMap(({ path, client }) =>
      client.clientKey === undefined ? [] : [{ path: `${path}.clientKey`, key: client.clientKey }],
    ),
    ...(config.issuer?.keys ?? []).map((key, index) => ({ path: `issuer.keys[${index}]`, key })),
  ];
}

export async function loadSigningKeys(keys: readonly PlacedKey[], baseDirectory: string): Promise<SigningKeys> {
  const loaded = new Map<string, CryptoKey>();
  for (const { path, key } of keys)
    if (!loaded.has(nameOf(key)))
      loaded.set(nameOf(key), await loadSigningKey(key, baseDirectory, `${path}.privateKeyFile`));
  return (key) => {
    const found = loaded.get(nameOf(key));
    if (found === undefined) throw new Error(`the key ${key.kid} was not loaded`);
    return found;
  };
}

function nameOf({ privateKeyFile, alg }: SigningKey): string {
  return `${alg} ${privateKeyFile}`;
}

async function loadSigningKey(
  { privateKeyFile: file, alg }: SigningKey,
  baseDirectory: string,
  path: string,
): Promise<CryptoKey> {
  const key = await readKey({ file, baseDirectory, path, alg, kind: `private key for ${alg} (PKCS #8 in PEM)` });
  // A key that is too short fails only when it signs (RFC 7518 §3.3): here, before the first approved call.
  await new CompactSign(new Uint8Array())
    .setProtectedHeader({ alg })
    .sign(key)
    .catch(() => {
      throw invalidKey(path, `names the file ${file}, which cannot sign with ${alg}: RSA needs 2048 bits`);
    });
  return key;
}
