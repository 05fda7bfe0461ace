/**
 * A value whose payload cannot be read: what a workflow or an activity gets in place of it, since a converter that throws would stop
 * a run for good (docs/adr/0046).
 *
 * 1. It says why by one of these words, and holds nothing that the sender wrote.
 * 2. It is told by a registered symbol and not by `instanceof`: code that is loaded twice has two classes.
 */

import { CountersignError } from './errors.ts';

/** Why, as it follows "The message …". */
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

  /** On the prototype, so that no copy of the fields passes for one. */
  get [BRAND](): true {
    return true;
  }

  /** As it follows "The message …". */
  get says(): string {
    return UNDECODABLE[this.reason];
  }
}

export function isUndecodable(value: unknown): value is Undecodable {
  return typeof value === 'object' && value !== null && BRAND in value;
}

export function isUndecodableReason(value: unknown): value is UndecodableReason {
  return typeof value === 'string' && Object.hasOwn(UNDECODABLE, value);
}

/** For clients, who are told which setting is missing. */
export function unreadable({ says }: Undecodable): CountersignError {
  return new CountersignError(
    'CONFIG_INVALID',
    `What Temporal answered cannot be read: a payload ${says}. Give this client the encryption.keys that the workers have.`,
    { path: 'encryption.keys' },
  );
}
