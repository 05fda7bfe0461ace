/** `typ` of a signed ledger head, so that no other signature of the same key passes for one (RFC 8725 §3.11). */
export const HEAD_TYPE = 'countersign-ledger-head+jws';
export const HEAD_ALG = 'EdDSA';
