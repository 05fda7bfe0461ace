/**
 * A vault keeps secrets that outlive a call, each under the reference by which a run's grant names it.
 *
 * 1. A secret that was read never leaves the activity, or the command that was asked to put it (INV-S1).
 * 2. A write names the version that it replaces and changes nothing if another writer was first (compare-and-swap). A
 *    lease is an entry with a `renewal` that ends by its own time, so no store needs locks.
 * 3. A version that was read is never handed out again for other content.
 * 4. Failures are `CountersignError`s: `VAULT_UNAVAILABLE` (may pass), `VAULT_CORRUPT`, `VAULT_READ_ONLY`,
 *    `CONFIG_INVALID`.
 */
import { CountersignError, type ErrorCode } from '../../contracts/errors.ts';
import { VaultEntry } from '../../contracts/schemas/stores.ts';
import { sha256Hex } from '../../domain/text/canonical.ts';
import { ownValue, parsedJson } from '../kit/json.ts';

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
  readonly keyId?: string;
}

export interface Vault {
  read(ref: string): Promise<HeldEntry | undefined>;
  /**
   * @param expected the version that was read; undefined if there must be none
   * @returns the new version; undefined if another writer was first
   */
  write(ref: string, entry: VaultEntry, expected: VaultVersion | undefined): Promise<VaultVersion | undefined>;
  /** @returns false if another writer was first */
  remove(ref: string, expected: VaultVersion): Promise<boolean>;
  /**
   * Sorted by reference.
   * @param onUnread hears of each entry that cannot be read; without it, the first fails the list
   */
  list(onUnread?: OnUnread): Promise<readonly ListedEntry[]>;
}

type OnUnread = (fault: CountersignError) => void;

type FoundEntry = HeldEntry & Pick<ListedEntry, 'ref' | 'keyId'>;
export async function listedAt(
  places: readonly string[],
  read: (place: string) => Promise<FoundEntry | undefined>,
  onUnread: OnUnread | undefined,
): Promise<readonly ListedEntry[]> {
  const listed: ListedEntry[] = [];
  for (const place of places) {
    try {
      const found = await read(place);
      if (found === undefined) continue;
      const { entry, ...named } = found;
      const { secret, ...rest } = entry;
      listed.push({ ...named, kind: secret.kind, ...rest });
    } catch (error) {
      if (onUnread === undefined || !(error instanceof CountersignError) || !OF_ONE_ENTRY.includes(error.code))
        throw error;
      onUnread(error);
    }
  }
  return listed.toSorted((one, other) => (one.ref < other.ref ? -1 : 1));
}

/** A damaged entry, and one that is encrypted with a key that the configuration does not hold. */
const OF_ONE_ENTRY: readonly ErrorCode[] = ['VAULT_CORRUPT', 'CONFIG_INVALID'];

/**
 * Reads entries from environment variables, one each, as JSON of `VaultEntry`. This vault is read-only. A variable that
 * is not set is no entry.
 * @param variables reference → variable
 */
export function createVaultEnvironment(
  variables: Readonly<Record<string, string>>,
  environment: Readonly<Record<string, string | undefined>>,
): Vault {
  const found = async (ref: string): Promise<FoundEntry | undefined> => {
    const variable = ownValue(variables, ref);
    const text = variable === undefined ? undefined : environment[variable];
    if (variable === undefined || text === undefined || text === '') return undefined;
    const entry = VaultEntry.safeParse(parsedJson(text));
    if (!entry.success) {
      // Only paths of fields are reported: a schema's message about a value may quote it.
      const at = entry.error.issues.map(({ path }) => path.join('.') || 'its form').slice(0, 5);
      const message = `The environment variable ${variable} holds no vault entry (${at.join(', ')}). Correct it and restart the worker.`;
      throw new CountersignError('VAULT_CORRUPT', message);
    }
    return { ref, entry: entry.data, version: sha256Hex(text) };
  };
  return {
    read: found,
    write: async (ref) => await readOnly(ref),
    remove: async (ref) => await readOnly(ref),
    list: async (onUnread) => await listedAt(Object.keys(variables), found, onUnread),
  };
}

async function readOnly(ref: string): Promise<never> {
  const message = `Vault entry ${ref} stands in the environment of the worker and cannot be changed. Change the variable, or use a vault of kind directory.`;
  throw new CountersignError('VAULT_READ_ONLY', message);
}
