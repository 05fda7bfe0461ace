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
