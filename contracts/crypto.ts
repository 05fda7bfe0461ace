/** How a grant is sealed: the one pair of algorithms that clients use and workers open (RFC 7518). */
export const SEALING = {
  /** §4.6: agreement with an ephemeral key wraps a fresh content key. */
  alg: 'ECDH-ES+A256KW',
  /** §5.3. */
  enc: 'A256GCM',
  /** Of the zone's key. */
  curve: 'P-256',
} as const;

/** How a message is signed: a compact JWS (RFC 7515) with Ed25519 (RFC 8037), and nothing that a header could choose. */
export const SIGNING = {
  alg: 'EdDSA',
  curve: 'Ed25519',
  /** Its own type, so that no token of another service is one of ours. */
  typ: 'countersign+jws',
  /** Characters. */
  longest: 16_384,
  /** Seconds between `iat` and `exp` at the most: a message that is caught is of use for no longer. */
  longestLife: 3_600,
  /** Seconds by which the clock of a signer may be ahead. */
  skew: 30,
  /** Seconds by which a message may be recorded after it was found good: an edit is judged first, and that may take a moment. */
  recordedWithin: 60,
} as const;

/** `typ` of a signed ledger head, so that no other signature of the same key passes for one (RFC 8725 §3.11). */
export const HEAD_TYPE = 'countersign-ledger-head+jws';
export const HEAD_ALG = 'EdDSA';
