/**
 * Verifies tokens by the provider's public keys, and reads these anew when a token names one that is not known.
 *
 * 1. One read runs at a time, and an unknown key causes at most one in half a minute: tokens are made up easily.
 * 2. Keys that cannot be read anew count for a day more. After that nobody is believed: a key may have been revoked.
 */
import {
  createLocalJWKSet,
  errors,
  type FlattenedJWSInput,
  type JWSHeaderParameters,
  type JWTPayload,
  jwtVerify,
} from 'jose';
import { z } from 'zod';
import { CountersignError } from '../../contracts/errors.ts';
import type { OidcConfig } from '../../contracts/schemas/gateway.ts';

/** Clocks of providers and gateways may differ by so much: a token counts for so long after its end. */
export const SKEW_SECONDS = 30;
const FRESH_MS = 600_000;
const COOLDOWN_MS = 30_000;
const LONGEST_KEPT_MS = 86_400_000;
const DEADLINE_MS = 5_000;

const Metadata = z.looseObject({ issuer: z.string(), jwks_uri: z.url({ protocol: /^https?$/ }) });
/** Keys of unknown kinds, and those without one, are passed over when a key is looked for (RFC 7517 §5). */
const Jwks = z.looseObject({ keys: z.array(z.looseObject({})).max(100) });

/** Behaves as the standard `fetch`, and asks the provider alone. */
export type AskProvider = (url: string, init?: RequestInit) => Promise<Response>;

type KeySet = ReturnType<typeof createLocalJWKSet>;

export class ProviderKeys {
  readonly #oidc: OidcConfig;
  readonly #ask: AskProvider;
  readonly #now: () => number;
  #kept: { readonly set: KeySet; readonly at: number } | undefined;
  #triedAt = Number.NEGATIVE_INFINITY;
  #reading: Promise<void> | undefined;

  constructor(oidc: OidcConfig, ask: AskProvider, now: () => number = Date.now) {
    this.#oidc = oidc;
    this.#ask = ask;
    this.#now = now;
  }

  /** Reads the claims of a token for this audience. @throws errors of `jose`; CountersignError `TRUST_UNAVAILABLE` */
  async verified(token: string, audience: string | string[]): Promise<JWTPayload> {
    const { issuer, algorithms } = this.#oidc;
    const { payload } = await jwtVerify(token, async (header, flat) => await this.#find(header, flat), {
      issuer,
      audience,
      algorithms,
      clockTolerance: SKEW_SECONDS,
      requiredClaims: ['exp'],
    });
    return payload;
  }

  async #find(header: JWSHeaderParameters, token: FlattenedJWSInput): ReturnType<KeySet> {
    const set = await this.#current();
    try {
      return await set(header, token);
    } catch (error) {
      // A read that is under way may bring the key: of many who come with a new one, the first has begun it.
      const isWorthIt = this.#mayTry || this.#reading !== undefined;
      if (!(error instanceof errors.JWKSNoMatchingKey) || !isWorthIt) throw error;
    }
    await this.#readOnce().catch(() => undefined);
    return await (this.#kept?.set ?? set)(header, token);
  }

  get #mayTry(): boolean {
    return this.#now() - this.#triedAt >= COOLDOWN_MS;
  }

  async #current(): Promise<KeySet> {
    const age = this.#now() - (this.#kept?.at ?? Number.NEGATIVE_INFINITY);
    let cause: unknown;
    if (age >= FRESH_MS && (this.#kept === undefined || this.#mayTry))
      await this.#readOnce().catch((error: unknown) => (cause = error));
    if (this.#kept !== undefined && this.#now() - this.#kept.at < LONGEST_KEPT_MS) return this.#kept.set;
    const message = 'The keys of the identity provider cannot be read, so nobody can be recognised. Try again later.';
    throw new CountersignError('TRUST_UNAVAILABLE', message, {}, { cause });
  }

  async #readOnce(): Promise<void> {
    this.#reading ??= this.#read().finally(() => (this.#reading = undefined));
    await this.#reading;
  }

  async #read(): Promise<void> {
    // The time is taken before the question: a change during the answer counts as not seen.
    const at = this.#now();
    this.#triedAt = at;
    const { keys } = Jwks.parse(await this.#json(this.#oidc.jwksUri ?? (await this.#discovered())));
    this.#kept = { set: createLocalJWKSet({ keys }), at };
  }

  /** @returns where the keys are (OpenID Connect Discovery §4) */
  async #discovered(): Promise<string> {
    const { issuer } = this.#oidc;
    const metadata = Metadata.parse(await this.#json(`${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`));
    if (metadata.issuer !== issuer) throw new Error('the metadata are of another issuer');
    return metadata.jwks_uri;
  }

  async #json(url: string): Promise<unknown> {
    const answer = await this.#ask(url, {
      headers: { accept: 'application/json' },
      signal: AbortSignal.timeout(DEADLINE_MS),
    });
    if (!answer.ok) throw new Error(`the provider answered ${answer.status}`);
    return await answer.json();
  }
}
