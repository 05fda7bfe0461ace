/** How a ledger leaves Temporal: what a sink of the ledger port is given, and what it writes. */
import { z } from 'zod';
import { Sha256Hex } from './json.ts';
import { LedgerEntry } from './ledger.ts';

const place = {
  namespace: z.string(),
  workflowId: z.string(),
  /** Temporal run id of the first execution of the chain: tells two runs of one workflow id apart. */
  firstRunId: z.string().regex(/^[0-9A-Za-z-]{1,100}$/),
};

/** What a worker signs: where the chain stood after a stretch of it, half-open. */
export const LedgerHead = z.strictObject({
  ...place,
  /** Temporal run that delivered the stretch. */
  runId: z.string(),
  /** That run was made by a reset of this one: what follows may differ from what an earlier record says. */
  resetOf: z.string().optional(),
  from: z.int().nonnegative(),
  to: z.int().positive(),
  /** `prev` of entry `from`. */
  previousHead: Sha256Hex,
  /** `hash` of entry `to - 1`. */
  head: Sha256Hex,
});
export type LedgerHead = z.infer<typeof LedgerHead>;

/** JWS compact serialization (RFC 7515) over the canonical JSON of a `LedgerHead`: `alg` EdDSA, `typ` as in `HEAD_TYPE`. */
const SignedHead = z.string().regex(/^[\w-]+\.[\w-]+\.[\w-]+$/);

/** Body of a webhook. Made of the same entries it is the same, byte for byte. */
export const LedgerRecord = z.strictObject({
  head: LedgerHead,
  signedHead: SignedHead,
  entries: z.array(LedgerEntry).min(1),
});
export type LedgerRecord = z.infer<typeof LedgerRecord>;

/** An entry whatever its fact is: a newer worker may have recorded it. */
export const AnyEntry = z.strictObject({
  seq: z.int().nonnegative(),
  at: z.string(),
  prev: Sha256Hex,
  fact: z.looseObject({ kind: z.string() }),
  hash: Sha256Hex,
});
export type AnyEntry = z.infer<typeof AnyEntry>;

/** Sinks write all of it; an export leaves out what it does not know. */
const linePlace = { ...place, namespace: place.namespace.optional(), firstRunId: place.firstRunId.optional() };

/** A line of a JSONL record or export: an entry, or the signed head of entries before it. */
export const LedgerLine = z.union([
  z.strictObject({ ...linePlace, entry: AnyEntry }),
  z.strictObject({ ...linePlace, signedHead: SignedHead }),
]);
export type LedgerLine = z.infer<typeof LedgerLine>;
