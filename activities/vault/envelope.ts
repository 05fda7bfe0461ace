/**
 * Encrypts bytes at rest: AES-256-GCM (NIST SP 800-38D) with a random 96-bit nonce and the id of its key
 * beside it.
 *
 * 1. The first key encrypts; every key decrypts, so that keys rotate while entries stay.
 * 2. The tag also covers place and version: an envelope that is copied to another reference, or back over a newer
 *    version, does not open.
 */
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { z } from 'zod';
import { CountersignError } from '../../contracts/errors.ts';
import type { CodecKey } from '../../contracts/schemas/json.ts';
import { canonicalJson } from '../../domain/text/canonical.ts';

const NONCE_BYTES = 12;
const TAG_BYTES = 16;

const Envelope = z.strictObject({
  format: z.literal('countersign-vault-1'),
  keyId: z.string(),
  /** Nonce, tag and ciphertext, base64. */
  data: z.base64(),
});

/** The place of an envelope. */
export interface Place {
  readonly folder: string;
  readonly version: number;
}

export interface Opened {
  readonly text: string;
  readonly keyId: string;
}

export class Envelopes {
  readonly #keys: readonly { readonly id: string; readonly key: Uint8Array }[];

  /** @param keys not empty, as the configuration's schema requires */
  constructor(keys: readonly CodecKey[]) {
    this.#keys = keys.map(({ id, key }) => ({ id, key: Buffer.from(key, 'base64') }));
  }

  seal(text: string, place: Place): string {
    const [first] = this.#keys;
    if (first === undefined) throw noKey('the first one');
    const nonce = randomBytes(NONCE_BYTES);
    const cipher = createCipheriv('aes-256-gcm', first.key, nonce);
    cipher.setAAD(placeBytes(place, first.id));
    const body = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()]);
    const data = Buffer.concat([nonce, cipher.getAuthTag(), body]).toString('base64');
    return JSON.stringify({ format: 'countersign-vault-1', keyId: first.id, data });
  }

  /** @throws CountersignError `VAULT_CORRUPT`, or `CONFIG_INVALID` if its key is missing */
  open(envelope: string, place: Place): Opened {
    const { keyId, data } = parse(envelope, place);
    const key = this.#keys.find(({ id }) => id === keyId)?.key;
    if (key === undefined) throw noKey(keyId);
    const sealed = Buffer.from(data, 'base64');
    try {
      const decipher = createDecipheriv('aes-256-gcm', key, sealed.subarray(0, NONCE_BYTES), {
        authTagLength: TAG_BYTES,
      });
      decipher.setAAD(placeBytes(place, keyId));
      decipher.setAuthTag(sealed.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES));
      const text = Buffer.concat([decipher.update(sealed.subarray(NONCE_BYTES + TAG_BYTES)), decipher.final()]);
      return { text: text.toString('utf8'), keyId };
    } catch {
      // The cause is left out: nothing of the read content is reported.
      throw corrupt(place, 'it was changed, moved, or encrypted with another key of the same id');
    }
  }
}

export function corrupt({ folder, version }: Place, reason: string): CountersignError {
  return new CountersignError(
    'VAULT_CORRUPT',
    `Version ${version} of the vault entry in ${folder} does not open: ${reason}. Put the secret anew, or restore the file from a backup.`,
  );
}

function parse(envelope: string, place: Place): z.infer<typeof Envelope> {
  try {
    return Envelope.parse(JSON.parse(envelope));
  } catch {
    throw corrupt(place, 'it is no envelope');
  }
}

function placeBytes({ folder, version }: Place, keyId: string): Uint8Array {
  return new TextEncoder().encode(canonicalJson({ folder, version, keyId }));
}

function noKey(id: string): CountersignError {
  return new CountersignError(
    'CONFIG_INVALID',
    `A vault entry is encrypted with key ${id}, which vault.keys does not hold; add the key.`,
    { path: 'vault.keys' },
  );
}
