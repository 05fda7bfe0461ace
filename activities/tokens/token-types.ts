/** Names of RFC 8693 §3 and of the ID-JAG draft (draft-ietf-oauth-identity-assertion-authz-grant §4). */
import type { SubjectTokenType } from '../../contracts/schemas/credentials.ts';

const PREFIX = 'urn:ietf:params:oauth:token-type:';

export const TOKEN_TYPES = {
  access_token: `${PREFIX}access_token`,
  id_token: `${PREFIX}id_token`,
  jwt: `${PREFIX}jwt`,
  'id-jag': `${PREFIX}id-jag`,
} as const;

export type TokenTypeName = keyof typeof TOKEN_TYPES;

export const EXCHANGE_GRANT = 'urn:ietf:params:oauth:grant-type:token-exchange';
export const ASSERTION_GRANT = 'urn:ietf:params:oauth:grant-type:jwt-bearer';

/** `typ` of an ID-JAG. */
export const ID_JAG_TYPE = 'oauth-id-jag+jwt';

export function tokenType(name: SubjectTokenType): string {
  return TOKEN_TYPES[name];
}
