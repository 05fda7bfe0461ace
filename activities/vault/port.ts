/**
 * Secrets that outlive a call, each under the reference by which a run's grant names it.
 *
 * 1. What is read never leaves the activity, or the command that was asked to put it (INV-S1).
 * 2. A write names the version that it replaces and changes nothing where another was first: compare-and-swap, as Vault's KV
 *    store (`cas`) and the cloud secret managers have it (etag, version id). A lease is an entry written so (`renewal`), and ends
 *    by its own time: no store needs locks.
 * 3. A version that was read is never handed out again for other content.
 * 4. Failures are `CountersignError`s: `VAULT_UNAVAILABLE` (may pass), `VAULT_CORRUPT`, `VAULT_READ_ONLY`, `CONFIG_INVALID`.
 */
import type { VaultEntry } from '../../contracts/schemas/stores.ts';

/** Opaque; told apart by equality alone. */
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
  /** Of the key that it is encrypted with, where the adapter encrypts. */
  readonly keyId?: string;
}

export interface Vault {
  /** Undefined where nothing stands under the reference. */
  read(ref: string): Promise<HeldEntry | undefined>;
  /**
   * @param expected what was read; undefined where nothing must stand there
   * @returns the new version; undefined where somebody else was first
   */
  write(ref: string, entry: VaultEntry, expected: VaultVersion | undefined): Promise<VaultVersion | undefined>;
  /** @returns false where somebody else was first */
  remove(ref: string, expected: VaultVersion): Promise<boolean>;
  /** By reference. */
  list(): Promise<readonly ListedEntry[]>;
}
