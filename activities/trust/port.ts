/**
 * Where the trusted keys stand: a JWK Set (RFC 7517) that the operator writes.
 *
 * 1. `read` gives the document as it is now, or throws. The same object again means that it has not changed.
 */
export interface TrustStore {
  /** For messages: the file or URL as the configuration names it. */
  readonly name: string;
  /** How long a change may go unnoticed, in milliseconds: reading costs something. */
  readonly freshMs: number;
  read(): Promise<unknown>;
}
