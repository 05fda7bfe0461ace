/**
 * Who signs for a client: a key that a service holds, or one person's own.
 *
 * 1. The private key stays behind `sign`: an HSM, an agent or a browser may hold it.
 */
import { createPrivateKey, type JsonWebKey, type KeyObject, sign } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { z } from 'zod';
import { CountersignError } from '../contracts/errors.ts';
import { Name } from '../contracts/schemas/json.ts';
import { Assertion } from '../contracts/schemas/trust.ts';
import { SIGNING } from '../contracts/signing.ts';

export interface Signer {
  /** As the trusted keys of the workers have it. */
  readonly kid: string;
  /** Ed25519 (RFC 8032) over these very bytes. */
  sign(bytes: Uint8Array): Uint8Array | Promise<Uint8Array>;
  /** Claimed for messages that name none themselves: `say` and `stop`. */
  readonly groups?: readonly string[];
}

/** @param key private Ed25519 key: a JWK with `d` (RFC 8037), or PKCS #8 in PEM. @throws CountersignError `USAGE` */
export function createSigner(kid: string, key: JsonWebKey | string, groups?: readonly string[]): Signer {
  const privateKey = importKey(key);
  return {
    kid,
    sign: (bytes) => sign(null, bytes, privateKey),
    ...(groups === undefined ? {} : { groups }),
  };
}

/**
 * A private JWK with its `kid`, as `countersign keys new` writes it; one of a person claims that person's groups.
 *
 * @param shown names the file in errors
 * @param groups are claimed in place of them
 * @throws CountersignError `USAGE`
 */
export async function readSigner(path: string, shown: string = path, groups?: readonly string[]): Promise<Signer> {
  const text = await readFile(path, 'utf8').catch(() => '');
  const read = PrivateJwk.safeParse(jsonIn(text));
  // The cause is left out: it may quote the file.
  if (!read.success)
    throw new CountersignError(
      'USAGE',
      `The signing key ${shown} is no private JWK with a kid. Make one with: countersign keys new`,
    );
  const { kid, countersign, ...key } = read.data;
  return createSigner(kid, key, groups ?? (countersign?.kind === 'person' ? countersign.groups : undefined));
}

const PrivateJwk = z.looseObject({
  kty: z.string(),
  kid: Name,
  countersign: Assertion.optional(),
});

function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function importKey(key: JsonWebKey | string): KeyObject {
  let imported: KeyObject;
  try {
    imported = typeof key === 'string' ? createPrivateKey(key) : createPrivateKey({ key, format: 'jwk' });
  } catch {
    // The cause is left out: it may quote the key.
    throw new CountersignError('USAGE', 'The signing key is no private key: a JWK with d, or PKCS #8 in PEM.');
  }
  if (imported.asymmetricKeyType === 'ed25519') return imported;
  throw new CountersignError(
    'USAGE',
    `The signing key is not of curve ${SIGNING.curve}; make one with: countersign keys new`,
  );
}
