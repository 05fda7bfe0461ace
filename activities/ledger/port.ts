/**
 * A ledger sink keeps ledgers outside Temporal: longer than its retention, and out of reach of those who may write to
 * it.
 *
 * 1. `deliver` returns only when every entry of the record is durable in the sink.
 * 2. Entries that the sink has already add nothing: the same record twice, an overlap, two workers at once.
 * 3. A gap, or another entry in the place of a known one, is refused with `LEDGER_CONFLICT`, and nothing is kept of the
 *    record. Only a run that a reset made (`head.resetOf`) may continue from an earlier entry; both branches are kept.
 * 4. An unreachable sink is `LEDGER_UNAVAILABLE`. Both codes are retried: the run waits and loses nothing.
 * 5. No error quotes the record: entries hold comments of people.
 */
import { CompactSign } from 'jose';
import { HEAD_ALG, HEAD_TYPE } from '../../contracts/crypto.ts';
import { CountersignError, type ErrorFacts } from '../../contracts/errors.ts';
import type { PrivateKeyFile } from '../../contracts/schemas/config.ts';
import type { LedgerEntry, LedgerHead, LedgerRecord } from '../../contracts/schemas/ledger.ts';
import { byteLength, canonicalJson } from '../../domain/text/canonical.ts';
import { readKey } from '../tokens/sealed.ts';

export interface LedgerSink {
  deliver(record: LedgerRecord): Promise<void>;
}

/** @param reason continues "Entry 7 of the ledger of run-1" */
export function conflict({ head: { workflowId } }: LedgerRecord, seq: number, reason: string): CountersignError {
  return new CountersignError(
    'LEDGER_CONFLICT',
    `Entry ${seq} of the ledger of ${workflowId} ${reason}. The run waits and its record is kept as it is: compare the two with countersign verify-ledger.`,
    { runId: workflowId, seq },
  );
}

export function unavailable(
  { head: { workflowId } }: LedgerRecord,
  reason: string,
  facts: ErrorFacts = {},
  cause?: unknown,
): CountersignError {
  return new CountersignError(
    'LEDGER_UNAVAILABLE',
    `The ledger of ${workflowId} was not stored: ${reason}. It is tried again until it is.`,
    { runId: workflowId, ...facts },
    { cause },
  );
}

/**
 * Signs the head of a ledger's chain, as a compact JWS, with a worker's own key, which those who write to Temporal do
 * not have. The same head gives the same text.
 */
export type SignHead = (head: LedgerHead) => Promise<string>;

export async function createHeadSigner(
  { kid, privateKeyFile: file }: PrivateKeyFile,
  baseDirectory: string,
): Promise<SignHead> {
  const kind = `Ed25519 private key in PEM. Make one: openssl genpkey -algorithm ed25519 -out ${file}`;
  const key = await readKey({ file, baseDirectory, path: 'ledger.sign.privateKeyFile', alg: HEAD_ALG, kind });
  return async (head) =>
    await new CompactSign(new TextEncoder().encode(canonicalJson(head)))
      .setProtectedHeader({ alg: HEAD_ALG, kid, typ: HEAD_TYPE })
      .sign(key);
}

/** Bytes of the entries in one record; a receiver should be ready for twice as much. */
const MOST_BYTES = 524_288;

/** The run whose ledger it is, and the execution that recorded the stretch. */
export type LedgerStream = Pick<LedgerHead, 'namespace' | 'workflowId' | 'firstRunId' | 'runId' | 'resetOf'>;

/** Delivers a stretch of a ledger; when it returns, every sink has all of it. */
export type DeliverLedger = (stream: LedgerStream, entries: readonly LedgerEntry[]) => Promise<void>;

/** Records have a bounded size; a longer stretch that is sent again begins with the same records. */
export function createDelivery(sign: SignHead, sinks: readonly LedgerSink[]): DeliverLedger {
  return async (stream, entries) => {
    for (const part of partsOf(entries)) {
      const [first, last] = [part[0], part.at(-1)];
      if (first === undefined || last === undefined) continue;
      const range = { from: first.seq, to: last.seq + 1, previousHead: first.prev };
      const head: LedgerHead = { ...stream, ...range, head: last.hash };
      const record = { head, signedHead: await sign(head), entries: [...part] };
      for (const sink of sinks) await sink.deliver(record);
    }
  };
}

function* partsOf(entries: readonly LedgerEntry[]): Generator<readonly LedgerEntry[]> {
  let part: LedgerEntry[] = [];
  let bytes = 0;
  for (const entry of entries) {
    const size = byteLength(JSON.stringify(entry));
    if (part.length > 0 && bytes + size > MOST_BYTES) {
      yield part;
      [part, bytes] = [[], 0];
    }
    part.push(entry);
    bytes += size;
  }
  yield part;
}
