/**
 * Lets workers use a refresh token one at a time, however each of them ends: the intent is written, the token is used,
 * the result is written.
 *
 * 1. A token that its issuer may replace is used only by the worker that has written the intent to do so
 *    (compare-and-swap), and so once.
 * 2. A worker that finds an intent waits for its result. An intent whose time is over is a lost renewal, and not tried
 *    again: the token may be used up, and its replacement gone with a worker.
 * 3. A use that has begun is finished, even if its caller no longer wants it: an abandoned one would be lost.
 * 4. A late worker that has its answer still writes it, if nobody has put another grant meanwhile.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { defined } from '../../contracts/defined.ts';
import { codedFailureIn } from '../../contracts/failure.ts';
import { type VaultEntry, VaultSecret } from '../../contracts/schemas/stores.ts';
import type { HeldEntry, Vault } from './port.ts';

export type Used<Value> =
  /** @param token replaces the one that was used; absent: that one stays */
  | { readonly kind: 'exchanged'; readonly value: Value; readonly token?: string; readonly expiresAt?: string }
  /** The token is proven to be as good as before. */
  | { readonly kind: 'not-used'; readonly error: unknown }
  /** The issuer refused the token for good. */
  | { readonly kind: 'refused'; readonly error: unknown }
  /** The token may have been used. */
  | { readonly kind: 'uncertain'; readonly error: unknown };

export type Renewed<Value> =
  | { readonly kind: 'renewed'; readonly value: Value }
  | { readonly kind: 'failed'; readonly error: unknown }
  | { readonly kind: 'lost'; readonly since: string }
  /** Another worker was using the token all the time. */
  | { readonly kind: 'busy' };

export interface Renewing<Value> {
  readonly vault: Vault;
  readonly ref: string;
  /** Throws if the entry may not be used; called before each use. */
  readonly check: (held: HeldEntry | undefined) => { readonly entry: VaultEntry; readonly version: string };
  readonly use: (token: string) => Promise<Used<Value>>;
  /** The issuer replaces no token: nothing is written before a use, and a lost answer costs nothing. */
  readonly reusable: boolean;
  readonly leaseMs: number;
  readonly waitMs: number;
  readonly signal?: AbortSignal | undefined;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
}

const PAUSE_MS = 25;

type Intent = NonNullable<VaultEntry['renewal']>;

export async function renew<Value>(renewing: Renewing<Value>): Promise<Renewed<Value>> {
  const { vault, ref, check, reusable, waitMs, signal, now } = renewing;
  const giveUpAt = now() + waitMs;
  for (;;) {
    const held = check(await vault.read(ref));
    const { renewal } = held.entry;
    if (reusable) return await useAndKeep(renewing, held);
    // The caller is gone, so no use begins.
    if (signal?.aborted === true) return { kind: 'busy' };
    if (renewal === undefined) {
      const begun = await begin(renewing, held, giveUpAt);
      if (begun !== undefined) return await useAndKeep(renewing, begun.held, begun.intent);
    } else if (Date.parse(renewal.until) <= now()) return { kind: 'lost', since: renewal.since };
    if (now() >= giveUpAt) return { kind: 'busy' };
    // The random part keeps workers out of step.
    await pause(PAUSE_MS * (1 + 2 * Math.random()), undefined, { signal }).catch(() => undefined);
  }
}

/**
 * Writes the intent, and repeats until the vault confirms it: one that was written but not acknowledged would run out
 * as a lost grant. Returns undefined if another worker was first.
 * @throws what the vault said if nothing was written
 */
async function begin<Value>(
  { vault, ref, leaseMs, now }: Renewing<Value>,
  held: HeldEntry,
  giveUpAt: number,
): Promise<{ readonly held: HeldEntry; readonly intent: Intent } | undefined> {
  const since = now();
  const intent: Intent = {
    id: randomUUID(),
    since: new Date(since).toISOString(),
    until: new Date(since + leaseMs).toISOString(),
  };
  let { version } = held;
  for (let tries = 0; ; tries += 1) {
    let failure: Error | undefined;
    try {
      const written = await vault.write(ref, { ...held.entry, renewal: intent }, version);
      if (written !== undefined) return { held: { ...held, version: written }, intent };
    } catch (error) {
      if (!isAway(error)) throw error;
      failure = error;
    }
    const found = await vault.read(ref).catch((error: unknown) => {
      if (isAway(error)) return 'unknown' as const;
      throw error;
    });
    if (found !== 'unknown') {
      if (found?.entry.renewal?.id !== intent.id) {
        if (failure === undefined) return undefined;
        throw failure;
      }
      ({ version } = found);
    }
    if (now() >= giveUpAt) {
      // If this fails too, the intent stays and ends by itself.
      await vault.write(ref, held.entry, version).catch(() => undefined);
      if (failure === undefined) return undefined;
      throw failure;
    }
    await pause(pauseAfter(tries));
  }
}

async function useAndKeep<Value>(renewing: Renewing<Value>, held: HeldEntry, intent?: Intent): Promise<Renewed<Value>> {
  const { use, leaseMs, now } = renewing;
  const before = held.entry;
  const until = intent === undefined ? now() + leaseMs : Date.parse(intent.until);
  const keep = async (entry: VaultEntry): Promise<boolean> =>
    await kept(renewing, entry, held.version, intent?.id, until);
  const used = await use(before.secret.token);
  switch (used.kind) {
    case 'exchanged': {
      const { value, token = before.secret.token, expiresAt = before.expiresAt } = used;
      const isSame = token === before.secret.token && expiresAt === before.expiresAt;
      if (intent === undefined && isSame) return { kind: 'renewed', value };
      const { data: secret } = VaultSecret.safeParse({ ...before.secret, token });
      // An entry that nobody can read would hide the others of its vault, too.
      if (secret === undefined)
        return intent === undefined ? { kind: 'renewed', value } : await lost(renewing, held, intent);
      const isKept = await keep({ ...before, secret, ...defined({ expiresAt }) });
      // A token whose grant is gone is not used: otherwise the next call would be the one that finds out.
      return isKept || intent === undefined ? { kind: 'renewed', value } : { kind: 'lost', since: intent.since };
    }
    case 'not-used':
      if (intent !== undefined) await keep(before);
      return { kind: 'failed', error: used.error };
    case 'refused':
      await keep({ ...before, refusedAt: new Date(now()).toISOString() });
      return { kind: 'failed', error: used.error };
    case 'uncertain':
      return intent === undefined ? { kind: 'failed', error: used.error } : await lost(renewing, held, intent);
  }
}

/** Ends the intent, which else ends by itself. */
async function lost<Value>(
  { vault, ref, now }: Renewing<Value>,
  { entry, version }: HeldEntry,
  intent: Intent,
): Promise<Renewed<Value>> {
  const renewal = { ...intent, until: new Date(now()).toISOString() };
  await vault.write(ref, { ...entry, renewal }, version).catch(() => undefined);
  return { kind: 'lost', since: intent.since };
}

/** Retries a vault that is away until the lease is over (epoch ms): what is to be written exists nowhere else. */
async function kept<Value>(
  { vault, ref, now }: Renewing<Value>,
  { renewal: _, ...entry }: VaultEntry,
  expected: string,
  intent: string | undefined,
  until: number,
): Promise<boolean> {
  let version = expected;
  for (let tries = 0; ; tries += 1) {
    try {
      if ((await vault.write(ref, entry, version)) !== undefined) return true;
      const held = await vault.read(ref);
      // Somebody has put another grant, or taken this one away: theirs stays, and the obtained token is good for this
      // call.
      if (held === undefined || intent === undefined || held.entry.renewal?.id !== intent) return true;
      ({ version } = held);
    } catch (error) {
      if (!isAway(error) || now() >= until) return false;
    }
    await pause(pauseAfter(tries));
  }
}

function pauseAfter(tries: number): number {
  return Math.min(1_000, PAUSE_MS * 2 ** tries);
}

/** Narrows soundly: a value that carries a code is an error. */
function isAway(error: unknown): error is Error {
  return codedFailureIn(error)?.code === 'VAULT_UNAVAILABLE';
}
