/** Makes the secrets of the canary deployment. */
import { randomBytes } from 'node:crypto';

/** An argument that policy redacts: it stands in histories, and in no message. */
export const WITHHELD = `withheld-${randomBytes(20).toString('hex')}`;

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
    MESSAGE_SECRET: `whsec_${randomBytes(33).toString('base64')}`,
    MAIL_PASSWORD: `mail "${random()}" %+/&=`,
    WEBHOOK_SECRET: `whsec_${randomBytes(33).toString('base64')}`,
  };
}
