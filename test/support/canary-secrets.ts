/** Makes the secrets of the canary deployment. */
import { randomBytes } from 'node:crypto';

/** Secrets contain characters that JSON, URLs and base64 encode, as far as their kind allows. */
export function newSecrets() {
  const random = (): string => randomBytes(20).toString('hex');
  return {
    GIVEN: `given~${random()}+/x==`,
    REFRESH: `refresh.${random()}`,
    STORED: `stored.${random()}`,
    VAULT_KEY: randomBytes(32).toString('base64'),
    CLIENT_SECRET: `client "${random()}" %+/&=`,
    API_KEY: `sk-${random()}-key`,
    HEADER_KEY: `header ${random()} "q" \\ %41 +/=`,
    HEADER_SCHEMED: `scheme-${random()}`,
    HEADER_PADDED: `padded-${random()}`,
    WEBHOOK_SECRET: `whsec_${randomBytes(33).toString('base64')}`,
  };
}

/** Makes an access token that nobody has signed. */
export function jwtOf(claims: object): string {
  const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url');
  const exp = Math.floor(Date.now() / 1_000) + 90;
  return `${part({ alg: 'RS256', typ: 'at+jwt' })}.${part({ ...claims, exp })}.${randomBytes(64).toString('base64url')}`;
}
