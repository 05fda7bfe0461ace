/** Makes entries of a vault, and vaults in memory. */
import type { z } from 'zod';
import type { Vault } from '../../../activities/vault/port.ts';
import { VaultEntry } from '../../../contracts/schemas/stores.ts';
import { canonicalServerUrl } from '../../../domain/text/urls.ts';

export const VAULT_KEYS = ['a', 'b'].map((id) => ({ id, key: Buffer.alloc(32, id).toString('base64') }));

export function entryOf(over: Partial<z.input<typeof VaultEntry>> = {}): VaultEntry {
  return VaultEntry.parse({
    secret: { kind: 'refresh-token', token: 'canary-refresh-1', issuer: 'https://idp.example.com' },
    bound: { initiators: ['ann'], server: canonicalServerUrl('https://notes.example.com/mcp') },
    storedAt: '2026-01-01T00:00:00.000Z',
    ...over,
  });
}

/** A vault whose faults a test chooses. It behaves like a cloud secret manager with versions. */
export interface MemoryVault extends Vault {
  /** Makes the next writes throw this error. */
  failWrites(times: number, error: Error): void;
}

export function createMemoryVault(): MemoryVault {
  const stored = new Map<string, { entry: VaultEntry | undefined; version: number }>();
  let failing = { times: 0, error: new Error() };
  const put = (ref: string, entry: VaultEntry | undefined, expected: string | undefined): string | undefined => {
    if (failing.times > 0) {
      failing = { ...failing, times: failing.times - 1 };
      throw failing.error;
    }
    const held = stored.get(ref);
    const current = held?.entry === undefined ? undefined : String(held.version);
    if (current !== expected) return undefined;
    const version = (held?.version ?? 0) + 1;
    stored.set(ref, { entry: structuredClone(entry), version });
    return String(version);
  };
  return {
    failWrites: (times, error) => {
      failing = { times, error };
    },
    read: async (ref) => {
      const held = stored.get(ref);
      return held?.entry === undefined
        ? undefined
        : { entry: structuredClone(held.entry), version: String(held.version) };
    },
    write: async (ref, entry, expected) => put(ref, entry, expected),
    remove: async (ref, expected) => put(ref, undefined, expected) !== undefined,
    list: async () =>
      [...stored]
        .toSorted(([one], [two]) => (one < two ? -1 : 1))
        .flatMap(([ref, { entry, version }]) => {
          if (entry === undefined) return [];
          const { secret, ...rest } = entry;
          return [{ ref, kind: secret.kind, version: String(version), ...rest }];
        }),
  };
}
