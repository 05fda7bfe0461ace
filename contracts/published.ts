/** What a worker's health port answers, frozen in `test/pins/names.test.ts`: probes and tool servers have these paths. */
export const PUBLISHED_PATHS = {
  alive: '/healthz',
  /** RFC 7517: public keys of the issuer. */
  keys: '/.well-known/jwks.json',
  /** RFC 8414. */
  metadata: '/.well-known/oauth-authorization-server',
} as const;
