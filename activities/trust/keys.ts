/**
 * The trusted keys as this worker knows them.
 *
 * 1. A set is taken whole or not at all: one that is not valid, or cannot be read, leaves the one before it in place (INV-G4).
 * 2. Not for ever: after a day nothing is believed any more, or a key could be kept alive by keeping its revocation from us.
 * 3. One reading at a time.
 */
import { CountersignError } from '../../contracts/errors.ts';
import { parseAs } from '../../contracts/schemas/parse.ts';
import { type TrustConfig, type TrustedJwk, TrustedJwks, type TrustSet } from '../../contracts/schemas/trust.ts';
import { byteLength, canonicalJson } from '../../domain/text/canonical.ts';
import { doubledIn, trustedKeysFor } from '../../domain/signing/keys.ts';
import type { TrustStore } from './key-sources.ts';

export interface TrustedKeys {
  /**
   * What runs of a tenant believe. `kept`: as it was seconds ago; `new`: as it is now, where it can be read.
   * @throws CountersignError `TRUST_UNAVAILABLE`, `CONFIG_INVALID`
   */
  setFor(tenant: string, age: 'kept' | 'new'): Promise<TrustSet>;
}

const LONGEST_KEPT_MS = 86_400_000;
/** What a run is given, records and carries. */
const MOST_BYTES = 65_536;

export type SignedTrust = Extract<TrustConfig, { mode: 'signed' }>;

export function createTrustedKeys(
  { may, maxAgeSeconds }: Pick<SignedTrust, 'may' | 'maxAgeSeconds'>,
  store: TrustStore,
  now: () => number = Date.now,
): TrustedKeys {
  let kept: { readonly document: unknown; readonly jwks: readonly TrustedJwk[]; readonly at: number } | undefined;
  let reading: Promise<void> | undefined;
  const read = async (): Promise<void> => {
    // Before the question: what changes while it is answered counts as not seen.
    const at = now();
    const document = await store.read();
    const jwks = kept !== undefined && kept.document === document ? kept.jwks : validJwks(document, store.name);
    kept = { document, jwks, at };
  };
  const readOnce = async (): Promise<void> => {
    reading ??= read().finally(() => {
      reading = undefined;
    });
    await reading;
  };
  return {
    async setFor(tenant, age) {
      if (age === 'new' || kept === undefined || now() - kept.at >= store.freshMs) {
        try {
          await readOnce();
        } catch (error) {
          if (kept === undefined || now() - kept.at >= LONGEST_KEPT_MS) throw unavailable(store.name, error);
        }
      }
      const keys = trustedKeysFor(kept?.jwks ?? [], tenant);
      const bytes = byteLength(canonicalJson(keys));
      if (bytes > MOST_BYTES)
        throw new CountersignError(
          'CONFIG_INVALID',
          `trust.jwks has ${keys.length} keys for tenant ${tenant}, ${bytes} bytes of at most ${MOST_BYTES} that a run can hold. Let people sign through a service key instead.`,
          { path: 'trust.jwks' },
        );
      return { keys, may, maxAgeSeconds };
    },
  };
}

/** As they stand there now. @throws CountersignError `TRUST_UNAVAILABLE`, `CONFIG_INVALID` */
export async function readTrusted(store: TrustStore): Promise<readonly TrustedJwk[]> {
  try {
    return validJwks(await store.read(), store.name);
  } catch (error) {
    throw unavailable(store.name, error);
  }
}

function validJwks(value: unknown, name: string): readonly TrustedJwk[] {
  const { keys } = parseAs(TrustedJwks, value, 'CONFIG_INVALID', `trusted keys of ${name}`);
  const path = doubledIn(keys);
  if (path === undefined) return keys;
  throw new CountersignError(
    'CONFIG_INVALID',
    `The trusted keys of ${name} are not valid: ${path} stands there twice; one key is one voice.`,
    { path },
  );
}

function unavailable(name: string, cause: unknown): CountersignError {
  // What is wrong in the document names its path; anything else may quote what it met.
  if (cause instanceof CountersignError) return cause;
  return new CountersignError(
    'TRUST_UNAVAILABLE',
    `The trusted keys of ${name} (trust.jwks) cannot be read, so nobody is believed. Is the file there, valid JSON, or the address right?`,
    {},
    { cause },
  );
}
