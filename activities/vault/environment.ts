/**
 * This `Vault` reads its entries from environment variables, one each, as JSON of `VaultEntry`; the person who starts
 * the worker sets them.
 *
 * 1. The vault is read-only: a secret that its issuer replaces with each use cannot be kept here.
 * 2. A variable that is not set is no entry. One that cannot be read as an entry is `VAULT_CORRUPT`, and never shown.
 */
import { createHash } from 'node:crypto';
import { CountersignError } from '../../contracts/errors.ts';
import { VaultEntry } from '../../contracts/schemas/stores.ts';
import type { HeldEntry, Vault } from './port.ts';

/** @param variables reference → variable */
export function createVaultEnvironment(
  variables: Readonly<Record<string, string>>,
  environment: Readonly<Record<string, string | undefined>>,
): Vault {
  const held = (ref: string): HeldEntry | undefined => {
    const variable = Object.hasOwn(variables, ref) ? variables[ref] : undefined;
    const text = variable === undefined ? undefined : environment[variable];
    if (variable === undefined || text === undefined || text === '') return undefined;
    const entry = VaultEntry.safeParse(plain(text));
    if (!entry.success) {
      // Only paths of fields are reported: a schema's message about a value may quote it.
      const at = entry.error.issues.map(({ path }) => path.join('.') || 'its form').slice(0, 5);
      throw new CountersignError(
        'VAULT_CORRUPT',
        `The environment variable ${variable} holds no vault entry (${at.join(', ')}). Correct it and restart the worker.`,
      );
    }
    return { entry: entry.data, version: createHash('sha256').update(text).digest('hex') };
  };
  return {
    read: async (ref) => held(ref),
    write: async (ref) => await readOnly(ref),
    remove: async (ref) => await readOnly(ref),
    list: async () =>
      Object.keys(variables)
        .toSorted()
        .flatMap((ref) => {
          const found = held(ref);
          if (found === undefined) return [];
          const { secret, ...rest } = found.entry;
          return [{ ref, kind: secret.kind, version: found.version, ...rest }];
        }),
  };
}

async function readOnly(ref: string): Promise<never> {
  throw new CountersignError(
    'VAULT_READ_ONLY',
    `Vault entry ${ref} stands in the environment of the worker and cannot be changed. Change the variable, or use a vault of kind directory.`,
  );
}

function plain(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
