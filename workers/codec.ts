/**
 * Encrypts every payload that leaves a worker or client: AES-256-GCM (NIST SP 800-38D), random 96-bit nonce.
 *
 * 1. The first key encrypts; every key decrypts, so that keys rotate while runs wait.
 * 2. Without keys payloads are not encrypted. Payloads that were never encrypted are always read.
 * 3. Decoding never throws: an unreadable payload is marked, and the converter behind it turns the mark into a value.
 *    Workers treat that value as an unreadable message; clients end with `CONFIG_INVALID` (docs/adr/0046).
 */
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { DataConverter, LoadedDataConverter, Payload, PayloadCodec, PayloadConverter } from '@temporalio/common';
import { TotalFailureConverter } from '../contracts/failure.ts';
import {
  isUndecodable,
  payloadConverter,
  SEALED_ENCODING,
  undecodablePayload,
  unreadable,
} from '../contracts/payload-converter.ts';
import type { Config } from '../contracts/schemas/config.ts';
import { ZoneCodec } from './zone.ts';

const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/** Makes the converter of clients: an unreadable payload ends in an error that says so. */
export function createDataConverter(config: Pick<Config, 'encryption'>): LoadedDataConverter {
  return {
    payloadConverter: new StrictPayloadConverter(),
    failureConverter: new ClientFailureConverter(),
    payloadCodecs: [createCodec(config)],
  };
}

/**
 * Makes the converter of workers and replays; the bundle has the same two files.
 *
 * @param zone proves what workers write, before it is encrypted. Without keys it proves nothing, and removes marks that
 * claim to be proven
 * @param tell hears of each payload that cannot be decrypted
 */
export function createWorkerDataConverter(
  config: Pick<Config, 'encryption'>,
  zone: PayloadCodec = new ZoneCodec([]),
  tell?: Tell,
): DataConverter {
  return { ...CONVERTER_FILES, payloadCodecs: [zone, createCodec(config, tell)] };
}

/** Converter files, which the SDK loads by path: `.ts` in the sources, `.js` in the output of the build. */
export const CONVERTER_FILES = {
  payloadConverterPath: converterFile('payload-converter'),
  failureConverterPath: converterFile('failure'),
} as const;

function converterFile(name: string): string {
  const extension = extname(fileURLToPath(import.meta.url));
  return fileURLToPath(new URL(`../contracts/${name}${extension}`, import.meta.url));
}

export function createCodec({ encryption }: Pick<Config, 'encryption'>, tell?: Tell): EncryptionCodec {
  const keys = encryption.keys.map(({ id, key }) => ({ id, key: Buffer.from(key, 'base64') }));
  return new EncryptionCodec(keys, tell);
}

class StrictPayloadConverter implements PayloadConverter {
  toPayload: PayloadConverter['toPayload'] = (value, context, hint) => payloadConverter.toPayload(value, context, hint);

  fromPayload<T>(...[payload, context, hint]: Parameters<PayloadConverter['fromPayload']>): T {
    const value: unknown = payloadConverter.fromPayload(payload, context, hint);
    // Sound as in the SDK: nobody checks what comes over the wire against the type that is asked for.
    if (!isUndecodable(value)) return value as T;
    throw unreadable(value);
  }
}

/** Reports the code of a refusal even to a client that cannot read its details. */
class ClientFailureConverter extends TotalFailureConverter {
  override failureToError(...[failure, , context]: Parameters<TotalFailureConverter['failureToError']>): Error {
    return super.failureToError(failure, payloadConverter, context);
  }
}

type Tell = (reason: 'sealed' | 'changed') => void;

export class EncryptionCodec implements PayloadCodec {
  readonly #keys: readonly { readonly id: string; readonly key: Uint8Array }[];
  readonly #tell: Tell;

  constructor(keys: readonly { readonly id: string; readonly key: Uint8Array }[], tell: Tell = () => undefined) {
    this.#keys = keys;
    this.#tell = tell;
  }

  async encode(payloads: Payload[]): Promise<Payload[]> {
    const first = this.#keys[0];
    return first === undefined ? payloads : payloads.map((payload) => seal(payload, first.id, first.key));
  }

  async decode(payloads: Payload[]): Promise<Payload[]> {
    return payloads.map((payload) => {
      if (textOf(payload?.metadata?.['encoding']) !== SEALED_ENCODING) return payload;
      const id = textOf(payload.metadata?.['key-id']);
      const key = this.#keys.find((entry) => entry.id === id)?.key;
      if (key === undefined) return this.#unreadable('sealed');
      try {
        return open(payload, key);
      } catch {
        return this.#unreadable('changed');
      }
    });
  }

  #unreadable(reason: 'sealed' | 'changed'): Payload {
    this.#tell(reason);
    return undecodablePayload(reason);
  }
}

/** Encrypts the whole payload, so that its metadata is hidden too. */
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
    metadata: { encoding: Buffer.from(SEALED_ENCODING), 'key-id': Buffer.from(id) },
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

function textOf(value: Uint8Array | null | undefined): string {
  return Buffer.from(value ?? []).toString();
}
