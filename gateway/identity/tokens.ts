/**
 * Verifies bearer tokens: access tokens of the configured provider, and those of the development login.
 *
 * 1. Signature, issuer, audience and time are checked before a claim is read; what is missing is refused (INV-G4).
 * 2. A refusal says what to correct, and repeats nothing of the token.
 * 3. A token that is bound to a key is no bearer token (RFC 9449 §7.2, RFC 8705 §3), so it counts for nothing.
 */
import { randomBytes } from 'node:crypto';
import { decodeJwt, errors, type JWTPayload, jwtVerify, SignJWT } from 'jose';
import { CountersignError } from '../../contracts/errors.ts';
import type { GatewayConfig, OidcConfig } from '../../contracts/schemas/gateway.ts';
import { isOfGate } from './audiences.ts';
import { type AskProvider, ProviderKeys } from './keys.ts';
import { type Asker, type Claimed, type People, SIGN_IN_AGAIN, signIn } from './person.ts';

const LONGEST_TOKEN = 16_384;

/** Who sends a token, and by which client; an empty name if the token does not say. */
export interface TokenCaller {
  readonly asker: Asker;
  readonly client: string;
}

type Config = Pick<GatewayConfig, 'oidc' | 'development' | 'gate' | 'signIn'>;

export class Tokens {
  /** The provider's keys; undefined without a provider. */
  readonly keys: ProviderKeys | undefined;
  readonly #people: People;
  readonly #development: Development | undefined;
  readonly #config: Config;

  constructor(config: Config, people: People, ask: AskProvider, now?: () => number) {
    const { oidc, development } = config;
    this.#config = config;
    this.#people = people;
    this.keys = oidc && new ProviderKeys(oidc, ask, now);
    this.#development = development && new Development();
  }

  get isDevelopment(): boolean {
    return this.#development !== undefined;
  }

  /** @throws CountersignError `SIGN_IN_REQUIRED`, `TRUST_UNAVAILABLE` */
  async askerOf(authorization: string | undefined): Promise<Asker> {
    const isOther = (audience: string): boolean => isOfGate(this.#config, audience);
    return (await this.#callerOf(authorization, this.#config.oidc?.audience ?? '', isOther)).asker;
  }

  /** For the gate. @throws CountersignError `SIGN_IN_REQUIRED`, `TRUST_UNAVAILABLE` */
  async callerOf(authorization: string | undefined, audience: string[]): Promise<TokenCaller> {
    return await this.#callerOf(authorization, audience, (other) => other === this.#config.oidc?.audience);
  }

  /** @param isOther true for an audience beside which the token counts for nothing here */
  async #callerOf(
    authorization: string | undefined,
    audience: string | string[],
    isOther: (audience: string) => boolean,
  ): Promise<TokenCaller> {
    const token = bearerIn(authorization);
    if (this.#development !== undefined && issuerOf(token) === DEVELOPMENT_ISSUER)
      return { asker: this.#people.personOf(await this.#development.claimsOf(token)), client: 'development' };
    const { oidc } = this.#config;
    if (oidc === undefined || this.keys === undefined) throw signIn('The token is not one of this server.');
    const payload = await this.keys.verified(token, audience).catch((error: unknown) => {
      throw error instanceof CountersignError ? error : signIn(refusalOf(error));
    });
    if (payload['cnf'] !== undefined)
      throw signIn('The token is bound to a key, and proofs of keys are not taken here: ask for a bearer token.');
    if ([payload.aud ?? []].flat().some(isOther))
      throw signIn('The token is for the API and for the gate at once, and so counts for neither.');
    return { asker: this.#people.personOf(claimedIn(payload, oidc)), client: clientIn(payload) };
  }

  /** Issues a token of the development login. @throws CountersignError `ROUTE_UNKNOWN` where there is none */
  async signInAs(claimed: Omit<Claimed, 'exp'>): Promise<{ token: string; expiresAt: string; asker: Asker }> {
    if (this.#development === undefined)
      throw new CountersignError('ROUTE_UNKNOWN', 'This gateway has no development login.');
    const issued = await this.#development.issue(claimed);
    return { ...issued, asker: this.#people.personOf({ ...claimed, exp: Date.parse(issued.expiresAt) / 1_000 }) };
  }
}

/** Reads the token of a header. @throws CountersignError `SIGN_IN_REQUIRED` */
export function bearerIn(authorization: string | undefined): string {
  const token = /^Bearer +([A-Za-z0-9_.~+/-]+=*)$/i.exec(authorization ?? '')?.[1];
  if (token === undefined || token.length > LONGEST_TOKEN) throw signIn('There is no bearer token.');
  return token;
}

/** Names the client by RFC 9068 §2.2, or as OpenID Connect does. */
function clientIn({ client_id: id, azp }: JWTPayload): string {
  if (typeof id === 'string') return id;
  return typeof azp === 'string' ? azp : '';
}

function refusalOf(error: unknown): string {
  if (error instanceof errors.JWTExpired) return 'The token has expired.';
  if (error instanceof errors.JWTClaimValidationFailed)
    return error.claim === 'aud'
      ? 'The token is for another audience.'
      : error.claim === 'iss'
        ? 'The token is of another issuer.'
        : `The token has no valid claim ${error.claim}.`;
  return 'The token is not valid.';
}

/** Reads the issuer of a token that is not verified yet: it only chooses by what the token is verified. */
function issuerOf(token: string): string | undefined {
  try {
    return decodeJwt(token).iss;
  } catch {
    return undefined;
  }
}

export function claimedIn(payload: JWTPayload, { claims, tenant }: OidcConfig): Claimed {
  return {
    id: claimAt(payload, claims.id),
    groups: claimAt(payload, claims.groups),
    tenant: claimAt(payload, claims.tenant) ?? tenant,
    exp: payload.exp,
  };
}

/** A claim of that very name comes first: names of claims may hold dots, as URLs do. */
function claimAt(payload: JWTPayload, name: string): unknown {
  if (Object.hasOwn(payload, name)) return payload[name];
  return name.split('.').reduce<unknown>((at, part) => {
    if (typeof at !== 'object' || at === null || !Object.hasOwn(at, part)) return undefined;
    // Sound: an object may be read at any of its own keys; what comes out is unknown.
    return (at as Readonly<Record<string, unknown>>)[part];
  }, payload);
}

// The development login issues tokens to everybody who asks, under a key that ends with the process.

const DEVELOPMENT_ISSUER = 'countersign-development';
const LIFE_SECONDS = 43_200;

class Development {
  readonly #key = randomBytes(32);

  async issue({ id, groups, tenant }: Omit<Claimed, 'exp'>): Promise<{ token: string; expiresAt: string }> {
    const exp = Math.floor(Date.now() / 1_000) + LIFE_SECONDS;
    const token = await new SignJWT({ groups, tenant })
      .setProtectedHeader({ alg: 'HS256' })
      .setIssuer(DEVELOPMENT_ISSUER)
      .setSubject(String(id))
      .setExpirationTime(exp)
      .sign(this.#key);
    return { token, expiresAt: new Date(exp * 1_000).toISOString() };
  }

  async claimsOf(token: string): Promise<Claimed> {
    try {
      const { payload } = await jwtVerify(token, this.#key, { issuer: DEVELOPMENT_ISSUER, algorithms: ['HS256'] });
      return { id: payload.sub, groups: payload['groups'], tenant: payload['tenant'], exp: payload.exp };
    } catch {
      throw signIn('The development token is not of this process.', SIGN_IN_AGAIN);
    }
  }
}
