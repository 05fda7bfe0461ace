/** How a grant is sealed: the one pair of algorithms that clients use and workers open (RFC 7518). */
export const SEALING = {
  /** §4.6: agreement with an ephemeral key wraps a fresh content key. */
  alg: 'ECDH-ES+A256KW',
  /** §5.3. */
  enc: 'A256GCM',
  /** Of the zone's key. */
  curve: 'P-256',
} as const;
