/**
 * A vault keeps secrets that outlive a call, each under the reference by which a run's grant names it.
 *
 * 1. A secret that was read never leaves the activity, or the command that was asked to put it (INV-S1).
 * 2. A write names the version that it replaces and changes nothing if another writer was first. This is
 *    compare-and-swap, as in Vault's KV store (`cas`) and the cloud secret managers (etag, version id). A lease is an
 *    entry with a `renewal` that ends by its own time, so no store needs locks.
 * 3. A version that was read is never handed out again for other content.
 * 4. Failures are `CountersignError`s: `VAULT_UNAVAILABLE` (may pass), `VAULT_CORRUPT`, `VAULT_READ_ONLY`,
 *    `CONFIG_INVALID`.
 */
import type { VaultEntry } from '../../contracts/schemas/stores.ts';

/** Opaque; compared by equality alone. */
export type VaultVersion = string;

export interface HeldEntry {
  readonly entry: VaultEntry;
  readonly version: VaultVersion;
}

/** An entry as people see it: without its secret. */
export interface ListedEntry extends Omit<VaultEntry, 'secret'> {
  readonly ref: string;
  readonly kind: VaultEntry['secret']['kind'];
  readonly version: VaultVersion;
  /** Id of the key that encrypts the entry, if the adapter encrypts. */
  readonly keyId?: string;
}

export interface Vault {
  /** Returns undefined if there is no entry under the reference. */
  read(ref: string): Promise<HeldEntry | undefined>;
  /**
   * @param expected the version that was read; undefined if there must be none
   * @returns the new version; undefined if another writer was first
   */
  write(ref: string, entry: VaultEntry, expected: VaultVersion | undefined): Promise<VaultVersion | undefined>;
  /** @returns false if another writer was first */
  remove(ref: string, expected: VaultVersion): Promise<boolean>;
  /** Returns the entries in order of their references. */
  list(): Promise<readonly ListedEntry[]>;
}
