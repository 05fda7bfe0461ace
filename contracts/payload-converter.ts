/**
 * Temporal payloads are converted as the SDK does, so that Temporal UI and other SDKs read them. The sandbox and the
 * worker load this file by path.
 *
 * 1. Reading never throws, which would stop a run for good: an unreadable payload becomes an `Undecodable`
 *    (docs/adr/0046). It holds nothing that the sender wrote.
 * 2. A registered symbol marks an `Undecodable`, not `instanceof`: code that is loaded twice has two classes.
 */
import { DefaultPayloadConverter, type Payload, type PayloadConverter } from '@temporalio/common';
import { CountersignError } from './errors.ts';

/** Marks a payload that a codec could not read. A sender who uses it has sent an unreadable payload. */
export const UNDECODABLE_ENCODING = 'countersign/undecodable';
/** Encoding of payloads that `encryption.keys` encrypts. */
export const SEALED_ENCODING = 'binary/countersign-aes256gcm';

const READ_HERE = new Set(['binary/null', 'binary/plain', 'json/plain']);
/** Deeper values would overflow the stack of recursive code: that of zod below two thousand levels. */
export const MOST_LEVELS = 1_000;

export function undecodablePayload(reason: UndecodableReason): Payload {
  return { metadata: { encoding: asciiBytes(UNDECODABLE_ENCODING), reason: asciiBytes(reason) } };
}

export class TotalPayloadConverter implements PayloadConverter {
  readonly #sdk = new DefaultPayloadConverter();

  toPayload: PayloadConverter['toPayload'] = (value, context, hint) =>
    // An unreadable value stays unreadable when it is passed on.
    isUndecodable(value) ? undecodablePayload(value.reason) : this.#sdk.toPayload(value, context, hint);

  fromPayload<T>(...[payload, context, hint]: Parameters<PayloadConverter['fromPayload']>): T {
    const reason = whyNot(payload);
    // Sound as in the SDK: values from the wire are not checked against the requested type; handlers parse them.
    if (reason !== undefined) return new Undecodable(reason) as T;
    try {
      return this.#sdk.fromPayload(payload, context, hint) as T;
    } catch {
      // Sound: as above.
      return new Undecodable('json') as T;
    }
  }
}

export const payloadConverter: PayloadConverter = new TotalPayloadConverter();

function whyNot(payload: Payload | null | undefined): UndecodableReason | undefined {
  const encoding = textOf(payload, 'encoding');
  if (encoding === undefined) return 'metadata';
  if (encoding === UNDECODABLE_ENCODING) {
    const reason = textOf(payload, 'reason');
    return isUndecodableReason(reason) ? reason : 'encoding';
  }
  if (encoding === SEALED_ENCODING) return 'sealed';
  if (!READ_HERE.has(encoding)) return 'encoding';
  if (encoding === 'binary/null') return undefined;
  const data = payload?.data;
  if (data === null || data === undefined) return 'data';
  return encoding === 'json/plain' && isTooDeep(data) ? 'depth' : undefined;
}

/** Known names are ASCII; any other bytes match none of them. */
function textOf(payload: Payload | null | undefined, name: string): string | undefined {
  const value = payload?.metadata?.[name];
  return value === null || value === undefined || value.length > 100 ? undefined : String.fromCharCode(...value);
}

function asciiBytes(text: string): Uint8Array {
  return Uint8Array.from(text, (character) => character.charCodeAt(0));
}

/** Counts brackets outside of strings. UTF-8 has no such bytes within other characters. */
function isTooDeep(data: Uint8Array): boolean {
  if (data.length < MOST_LEVELS) return false;
  let levels = 0;
  let isText = false;
  for (let at = 0; at < data.length; at += 1) {
    const byte = data[at];
    if (isText) {
      if (byte === BACKSLASH) at += 1;
      else if (byte === QUOTE) isText = false;
    } else if (byte === QUOTE) isText = true;
    else if (byte === BRACKET || byte === BRACE) {
      levels += 1;
      if (levels > MOST_LEVELS) return true;
    } else if (byte === BRACKET_END || byte === BRACE_END) levels -= 1;
  }
  return false;
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const BRACKET = 0x5b;
const BRACKET_END = 0x5d;
const BRACE = 0x7b;
const BRACE_END = 0x7d;

/** Reasons, as they follow "The message …". */
export const UNDECODABLE = {
  metadata: 'names no encoding',
  encoding: 'is in an encoding that is not read here',
  data: 'has no data',
  json: 'is not JSON',
  depth: 'is JSON of too many levels',
  sealed: 'is encrypted, and encryption.keys does not have its key',
  changed: 'is encrypted and was changed or cut off',
} as const;

export type UndecodableReason = keyof typeof UNDECODABLE;

const BRAND = Symbol.for('countersign.undecodable');

export class Undecodable {
  readonly reason: UndecodableReason;

  constructor(reason: UndecodableReason) {
    this.reason = reason;
  }

  /** The brand is on the prototype, so that a copy of the fields does not pass for an `Undecodable`. */
  get [BRAND](): true {
    return true;
  }

  /** The reason as it follows "The message …". */
  get says(): string {
    return UNDECODABLE[this.reason];
  }
}

export function isUndecodable(value: unknown): value is Undecodable {
  return typeof value === 'object' && value !== null && BRAND in value;
}

function isUndecodableReason(value: unknown): value is UndecodableReason {
  return typeof value === 'string' && Object.hasOwn(UNDECODABLE, value);
}

/** Makes the error for clients, which names the missing setting. */
export function unreadable({ says }: Undecodable): CountersignError {
  const message = `What Temporal answered cannot be read: a payload ${says}. Give this client the encryption.keys that the workers have.`;
  return new CountersignError('CONFIG_INVALID', message, { path: 'encryption.keys' });
}
