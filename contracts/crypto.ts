/** Sealing and signing each have one fixed choice of algorithms, which clients and workers share. */

/** Algorithms with which clients seal a grant and workers open it (RFC 7518); there is no other pair. */
export const SEALING = {
  /** §4.6: agreement with an ephemeral key wraps a fresh content key. */
  alg: 'ECDH-ES+A256KW',
  /** §5.3. */
  enc: 'A256GCM',
  /** Curve of the zone's key. */
  curve: 'P-256',
} as const;

/** Form of a signed message: a compact JWS (RFC 7515) with Ed25519 (RFC 8037); a header can choose nothing. */
export const SIGNING = {
  alg: 'EdDSA',
  curve: 'Ed25519',
  /** A type of its own, so that no token of another service passes for one of ours. */
  typ: 'countersign+jws',
  /** Characters. */
  longest: 16_384,
  /** Most seconds between `iat` and `exp`: an intercepted message is of use for no longer. */
  longestLife: 3_600,
  /** Seconds by which a signer's clock may be ahead. */
  skew: 30,
  /** Seconds between verifying a message and recording it: an edit is judged first, which may take a moment. */
  recordedWithin: 60,
} as const;

/** `typ` of a signed ledger head, so that no other signature of the same key passes for one (RFC 8725 §3.11). */
export const HEAD_TYPE = 'countersign-ledger-head+jws';
export const HEAD_ALG = 'EdDSA';
