/**
 * Encrypts every payload that leaves a worker or client: AES-256-GCM (NIST SP 800-38D), random 96-bit nonce.
 *
 * 1. The first key encrypts; every key decrypts, so that keys rotate while runs wait.
 * 2. Without keys payloads pass unchanged, and what was once encrypted is still read.
 */
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import type { DataConverter, Payload, PayloadCodec } from '@temporalio/common';
import { CountersignError } from '../contracts/errors.ts';
import type { Config } from '../contracts/schemas/config.ts';

const ENCODING = 'binary/countersign-aes256gcm';
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

export function createDataConverter(config: Pick<Config, 'encryption'>): DataConverter {
  return {
    payloadCodecs: [
      new EncryptionCodec(config.encryption.keys.map(({ id, key }) => ({ id, key: Buffer.from(key, 'base64') }))),
    ],
  };
}

export class EncryptionCodec implements PayloadCodec {
  readonly #keys: readonly { readonly id: string; readonly key: Uint8Array }[];

  constructor(keys: readonly { readonly id: string; readonly key: Uint8Array }[]) {
    this.#keys = keys;
  }

  async encode(payloads: Payload[]): Promise<Payload[]> {
    const first = this.#keys[0];
    return first === undefined ? payloads : payloads.map((payload) => seal(payload, first.id, first.key));
  }

  async decode(payloads: Payload[]): Promise<Payload[]> {
    return payloads.map((payload) => {
      if (text(payload.metadata?.['encoding']) !== ENCODING) return payload;
      const id = text(payload.metadata?.['key-id']);
      const key = this.#keys.find((entry) => entry.id === id)?.key;
      if (key === undefined) {
        throw new CountersignError(
          'CONFIG_INVALID',
          `A payload is encrypted with key ${id}, which encryption.keys does not hold; add the key.`,
          { path: 'encryption.keys' },
        );
      }
      return open(payload, key);
    });
  }
}

/** The whole payload is the plain text, so that its own metadata is hidden too. */
function seal(payload: Payload, id: string, key: Uint8Array): Payload {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv('aes-256-gcm', key, nonce);
  const metadata = Object.fromEntries(
    Object.entries(payload.metadata ?? {}).map(([name, value]) => [name, Buffer.from(value).toString('base64')]),
  );
  const head = Buffer.from(JSON.stringify(metadata));
  const length = Buffer.alloc(4);
  length.writeUInt32BE(head.length);
  const body = Buffer.concat([
    cipher.update(length),
    cipher.update(head),
    cipher.update(payload.data ?? new Uint8Array()),
    cipher.final(),
  ]);
  return {
    metadata: { encoding: bytes(ENCODING), 'key-id': bytes(id) },
    data: Buffer.concat([nonce, cipher.getAuthTag(), body]),
  };
}

function open({ data }: Payload, key: Uint8Array): Payload {
  const sealed = Buffer.from(data ?? new Uint8Array());
  const decipher = createDecipheriv('aes-256-gcm', key, sealed.subarray(0, NONCE_BYTES));
  decipher.setAuthTag(sealed.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES));
  const plain = Buffer.concat([decipher.update(sealed.subarray(NONCE_BYTES + TAG_BYTES)), decipher.final()]);
  const headLength = plain.readUInt32BE(0);
  // Sound: `seal` wrote this JSON, and the tag proves that it is unchanged.
  const metadata = JSON.parse(plain.subarray(4, 4 + headLength).toString('utf8')) as Record<string, string>;
  return {
    metadata: Object.fromEntries(Object.entries(metadata).map(([name, value]) => [name, Buffer.from(value, 'base64')])),
    data: plain.subarray(4 + headLength),
  };
}

function bytes(value: string): Uint8Array {
  return new TextEncoder().encode(value);
}

function text(value: Uint8Array | null | undefined): string {
  return value === null || value === undefined ? '' : new TextDecoder().decode(value);
}
