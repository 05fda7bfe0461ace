/**
 * Delivers a stretch of a ledger to every sink, in records of a bounded size, each with its signed head.
 *
 * 1. When it returns, every sink has all of it.
 * 2. The cuts of a stretch depend on its first entries only: a longer stretch that is sent again begins with the same
 *    records.
 */
import type { LedgerEntry, LedgerHead } from '../../contracts/schemas/ledger.ts';
import { byteLength } from '../../domain/text/canonical.ts';
import type { LedgerSink, SignHead } from './port.ts';

/** Bytes of the entries in one record; a receiver should be ready for twice as much. */
const MOST_BYTES = 524_288;

/** The run whose ledger it is, and the execution that recorded the stretch. */
export type LedgerStream = Pick<LedgerHead, 'namespace' | 'workflowId' | 'firstRunId' | 'runId' | 'resetOf'>;

export type DeliverLedger = (stream: LedgerStream, entries: readonly LedgerEntry[]) => Promise<void>;

export function createDelivery(sign: SignHead, sinks: readonly LedgerSink[]): DeliverLedger {
  return async (stream, entries) => {
    for (const part of partsOf(entries)) {
      const [first, last] = [part[0], part.at(-1)];
      if (first === undefined || last === undefined) continue;
      const head: LedgerHead = {
        ...stream,
        from: first.seq,
        to: last.seq + 1,
        previousHead: first.prev,
        head: last.hash,
      };
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
