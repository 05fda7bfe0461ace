/**
 * Holds the trusted keys as this worker knows them.
 *
 * 1. A set is taken whole or not at all: one that is invalid or unreadable leaves the earlier one in place (INV-G4).
 * 2. An earlier set lasts one day, or somebody could keep a key alive by hiding its revocation from us. Until then the
 *    log says that revocations go unseen.
 * 3. One read runs at a time.
 */
import { readFile } from 'node:fs/promises';
import { CountersignError, nodeCodeOf } from '../../contracts/errors.ts';
import { parseAs } from '../../contracts/schemas/parse.ts';
import { type TrustConfig, type TrustedJwk, TrustedJwks, type TrustSet } from '../../contracts/schemas/trust.ts';
import { doubledIn, trustedKeysFor } from '../../domain/signing/jws.ts';
import { byteLength, canonicalJson } from '../../domain/text/canonical.ts';
import type { Egress } from '../egress/fetch.ts';

export interface TrustedKeys {
  /**
   * Returns the keys that runs of a tenant believe. `kept`: as of seconds ago; `new`: as of now, if they can be read.
   * @throws CountersignError `TRUST_UNAVAILABLE`, `CONFIG_INVALID`
   */
  setFor(tenant: string, age: 'kept' | 'new'): Promise<TrustSet>;
}

const LONGEST_KEPT_MS = 86_400_000;
const TOLD_EVERY_MS = 900_000;
/** Bound of the set that a run carries. */
const MOST_BYTES = 65_536;

export type SignedTrust = Extract<TrustConfig, { mode: 'signed' }>;

/** @param warn is told, now and then, that an earlier set stands in for one that cannot be read */
export function createTrustedKeys(
  { may, maxAgeSeconds }: Pick<SignedTrust, 'may' | 'maxAgeSeconds'>,
  store: TrustStore,
  now: () => number = Date.now,
  warn: (message: string, facts: Readonly<Record<string, string>>) => void = () => undefined,
): TrustedKeys {
  let told = Number.NEGATIVE_INFINITY;
  const tell = (since: number, error: unknown): void => {
    if (now() - told < TOLD_EVERY_MS) return;
    told = now();
    const [from, until] = [since, since + LONGEST_KEPT_MS].map((at) => new Date(at).toISOString());
    // An error about the document names its path; any other error may quote what it met.
    const why = error instanceof CountersignError ? ` ${error.message}` : '';
    warn(
      `The trusted keys of ${store.name} (trust.jwks) cannot be read (${nodeCodeOf(error) ?? 'error'}). Those of ${from} count until ${until}, with every key that was revoked since.${why}`,
      { path: 'trust.jwks' },
    );
  };
  let kept: { readonly text: string; readonly jwks: readonly TrustedJwk[]; readonly at: number } | undefined;
  let reading: Promise<void> | undefined;
  const read = async (): Promise<void> => {
    // The time is taken before the question: a change during the answer counts as not seen.
    const at = now();
    const text = await store.read();
    const jwks = kept !== undefined && kept.text === text ? kept.jwks : validJwks(text, store.name);
    kept = { text, jwks, at };
    told = Number.NEGATIVE_INFINITY;
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
          tell(kept.at, error);
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

/** Checks by the keys as they are kept, and once more by new ones: a key may be newer than the last read. */
export async function checkedByKeys<Checked>(
  keys: TrustedKeys,
  tenant: string,
  check: (trust: TrustSet) => Checked,
  mayBeNewer: (checked: Checked) => boolean = (checked) => checked !== undefined,
): Promise<{ readonly trust: TrustSet; readonly checked: Checked }> {
  const kept = await keys.setFor(tenant, 'kept');
  const checked = check(kept);
  if (!mayBeNewer(checked)) return { trust: kept, checked };
  const trust = await keys.setFor(tenant, 'new');
  return { trust, checked: check(trust) };
}

/** Reads the trusted keys as they are now. @throws CountersignError `TRUST_UNAVAILABLE`, `CONFIG_INVALID` */
export async function readTrusted(store: TrustStore): Promise<readonly TrustedJwk[]> {
  try {
    return validJwks(await store.read(), store.name);
  } catch (error) {
    throw unavailable(store.name, error);
  }
}

function validJwks(text: string, name: string): readonly TrustedJwk[] {
  const { keys } = parseAs(TrustedJwks, JSON.parse(text), 'CONFIG_INVALID', `trusted keys of ${name}`);
  const path = doubledIn(keys);
  if (path === undefined) return keys;
  throw new CountersignError(
    'CONFIG_INVALID',
    `The trusted keys of ${name} are not valid: ${path} stands there twice; one key is one voice.`,
    { path },
  );
}

function unavailable(name: string, cause: unknown): CountersignError {
  // An error about the document names its path; any other error may quote what it met.
  if (cause instanceof CountersignError) return cause;
  return new CountersignError(
    'TRUST_UNAVAILABLE',
    `The trusted keys of ${name} (trust.jwks) cannot be read, so nobody is believed. Is the file there, valid JSON, or the address right?`,
    {},
    { cause },
  );
}

// Reads the trusted keys: a JWK Set (RFC 7517) in a file or at a URL, which the operator writes. A URL is asked by a
// guarded request that follows no redirect: its answer says who may countersign.

export interface TrustStore {
  /** The file or URL as the configuration names it, for messages. */
  readonly name: string;
  /** Milliseconds for which a change may go unnoticed. */
  readonly freshMs: number;
  /** Returns the document as it is now, as JSON, or throws. */
  read(): Promise<string>;
}

/** @param path absolute. @param shown the path as the configuration names it */
export function createTrustFile(path: string, shown: string): TrustStore {
  return { name: shown, freshMs: 0, read: async () => await readFile(path, 'utf8') };
}

const FRESH_MS = 15_000;
const TIMEOUT_MS = 5_000;
const MOST_KEY_BYTES = 4_194_304;

export function createTrustUrl(url: string, egress: Egress): TrustStore {
  const { fetch } = egress.outlet({ what: 'trust.jwks', to: [url], maxBytes: MOST_KEY_BYTES });
  return {
    name: url,
    freshMs: FRESH_MS,
    read: async () => {
      const response = await fetch(url, {
        headers: { accept: 'application/jwk-set+json, application/json' },
        signal: AbortSignal.timeout(TIMEOUT_MS),
      });
      if (response.status !== 200) {
        await response.body?.cancel();
        throw new Error(`answered ${response.status}`);
      }
      return await response.text();
    },
  };
}
