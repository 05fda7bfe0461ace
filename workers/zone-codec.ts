/**
 * Makes and verifies the MAC of what workers of a zone write (docs/adr/0047).
 *
 * Owns the key and what the MAC covers. Does not own who gives a payload claims, nor whether they are those that a workflow waits for.
 * 1. Only workers have one; a client's codecs leave these fields as they are, and nobody reads them there.
 * 2. A mark in memory is set here alone: one that comes in is taken off.
 * 3. The MAC is over claims, encoding and data, each with its length, and for this purpose alone. The first key makes it, all verify.
 */
import { createHmac, timingSafeEqual } from 'node:crypto';
import type { Payload, PayloadCodec } from '@temporalio/common';
import type { CodecKey } from '../contracts/schemas/codec-key.ts';
import { CLAIMS_FIELD, KEY_FIELD, MAC_FIELD, PROVEN_FIELD, UNKNOWN_KEY_FIELD } from '../contracts/zone.ts';

const PURPOSE = 'countersign/zone/v1';

type Metadata = NonNullable<Payload['metadata']>;

export class ZoneCodec implements PayloadCodec {
  readonly #keys: ReadonlyMap<string, Uint8Array>;

  constructor(keys: readonly CodecKey[]) {
    this.#keys = new Map(keys.map(({ id, key }) => [id, Buffer.from(key, 'base64')]));
  }

  async encode(payloads: Payload[]): Promise<Payload[]> {
    const [newest] = this.#keys;
    return payloads.map((payload) => {
      const { [CLAIMS_FIELD]: claims } = payload.metadata ?? {};
      const bare = without(payload, MAC_FIELD, KEY_FIELD, PROVEN_FIELD, UNKNOWN_KEY_FIELD);
      if (claims === undefined || newest === undefined) return without(bare, CLAIMS_FIELD);
      const [id, key] = newest;
      const proof = { [KEY_FIELD]: Buffer.from(id), [MAC_FIELD]: macOf(key, claims, payload) };
      return { ...bare, metadata: { ...bare.metadata, ...proof } };
    });
  }

  async decode(payloads: Payload[]): Promise<Payload[]> {
    return payloads.map((payload) => marked(payload, (claims, id, mac) => this.#verify(payload, claims, id, mac)));
  }

  #verify(payload: Payload, claims: Uint8Array, id: string, mac: Uint8Array): Verdict {
    const key = this.#keys.get(id);
    if (key === undefined) return 'unknown-key';
    const own = macOf(key, claims, payload);
    return own.length === mac.length && timingSafeEqual(own, mac) ? 'proven' : 'unproven';
  }
}

/** For replays without keys: what has a MAC counts as it did where it was recorded, if it was not forged. */
export class UncheckedZoneCodec implements PayloadCodec {
  async encode(payloads: Payload[]): Promise<Payload[]> {
    return payloads;
  }

  async decode(payloads: Payload[]): Promise<Payload[]> {
    return payloads.map((payload) => marked(payload, () => 'proven'));
  }
}

type Verdict = 'proven' | 'unproven' | 'unknown-key';

function marked(payload: Payload, verify: (claims: Uint8Array, id: string, mac: Uint8Array) => Verdict): Payload {
  // Whoever sends anything may send a payload without metadata.
  const { [CLAIMS_FIELD]: claims, [MAC_FIELD]: mac, [KEY_FIELD]: id } = payload?.metadata ?? {};
  const bare = without(payload, CLAIMS_FIELD, MAC_FIELD, KEY_FIELD, PROVEN_FIELD, UNKNOWN_KEY_FIELD);
  if (!claims || !mac || !id) return bare;
  const verdict = verify(claims, Buffer.from(id).toString('utf8'), mac);
  if (verdict === 'unproven') return bare;
  const mark = verdict === 'proven' ? { [PROVEN_FIELD]: claims } : { [UNKNOWN_KEY_FIELD]: id };
  return { ...bare, metadata: { ...bare.metadata, ...mark } };
}

function without(payload: Payload, ...names: readonly string[]): Payload {
  const { metadata } = payload ?? {};
  if (!metadata || !names.some((name) => name in metadata)) return payload;
  const kept: Metadata = Object.fromEntries(Object.entries(metadata).filter(([name]) => !names.includes(name)));
  return { ...payload, metadata: kept };
}

function macOf(key: Uint8Array, claims: Uint8Array, { metadata, data }: Payload): Buffer {
  const hmac = createHmac('sha256', key).update(`${PURPOSE}\0`);
  for (const part of [claims, metadata?.['encoding'] ?? new Uint8Array(), data ?? new Uint8Array()]) {
    const length = Buffer.alloc(8);
    length.writeBigUInt64BE(BigInt(part.length));
    hmac.update(length).update(part);
  }
  return hmac.digest();
}
