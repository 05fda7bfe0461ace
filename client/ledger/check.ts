/**
 * Checks whether a ledger is what was recorded, and reports each entry that is not, with the reason.
 *
 * Owns: the hash chain, its branches, and whether signed heads name it. Does not own: signatures (`heads.ts`),
 * Temporal's history (`history.ts`), or where lines come from.
 * 1. Lines are read in the order in which they stand. The check goes on after a fault, so one fault hides no other.
 */
import type { AnyEntry, LedgerHead } from '../../contracts/schemas/ledger.ts';
import type { Message } from '../../contracts/schemas/transcript.ts';
import { EMPTY_DIGEST, extendDigest, GENESIS } from '../../domain/run/journal.ts';
import { hashOf } from '../../domain/text/canonical.ts';

export type FaultKind =
  /** The entry's hash is not the hash of its content. */
  | 'altered'
  /** Valid in itself, but another entry stood here, or before it, when the next was written or the head was signed. */
  | 'rewritten'
  | 'missing'
  | 'reordered'
  /** Signed entries at the end are cut off. */
  | 'truncated'
  /** A second entry stands in the same place, and no reset explains it. */
  | 'forked'
  /** A head belongs to another run, is signed with an unknown key, or has an invalid signature. */
  | 'foreign-head'
  | 'unsigned'
  /** Temporal's history and the ledger disagree. */
  | 'history'
  | 'unreadable'
  /** A decision or the start has no signature. */
  | 'proof-unsigned'
  /** The signed content is not what the entry or the message says. */
  | 'proof-altered'
  /** The signing key is not trusted for the tenant. */
  | 'proof-foreign-key'
  /** The signing key may not speak for that person or group, or had been replaced by then. */
  | 'proof-not-entitled'
  /** The message was accepted when its signature was not valid. */
  | 'proof-expired';

export interface LedgerFault {
  readonly kind: FaultKind;
  /** Number of the entry; for a range of entries, of the first. */
  readonly seq: number;
  /** Continues a sentence that begins with "entry 7". */
  readonly reason: string;
}

export interface CheckedHead extends LedgerHead {
  readonly kid: string;
  /** False if no keys were given. */
  readonly verified: boolean;
}

export type LedgerReport = ReturnType<typeof checkLedger>;

export function checkLedger(entries: readonly AnyEntry[], heads: readonly CheckedHead[] = [], mustBeSigned = false) {
  const chain = new Chain(entries);
  const faults = [...chain.faults, ...headFaults(chain, heads), ...forkFaults(chain, heads)];
  const tips = chain.tips();
  const signed = new Set(heads.map(({ head }) => head));
  if (mustBeSigned) faults.push(...tips.flatMap((tip) => unsignedFault(chain, tip, signed)));
  const longest = tips.toSorted((one, other) => other.seq - one.seq)[0];
  return {
    faults: faults.toSorted((one, other) => one.seq - other.seq),
    /** Number of entries in the longest branch. */
    length: longest === undefined ? 0 : longest.seq + 1,
    head: longest?.hash ?? GENESIS,
    /** 1 if the workflow was never reset after something was recorded. */
    branches: tips.length,
    /** Number of entries of the longest branch that a head covers; a verified head, if keys were given. */
    signedTo: longest === undefined ? 0 : chain.signedTo(longest, signed),
    /** True if the longest branch ends with the end of the run. */
    ended: longest !== undefined && longest.fact.kind === 'run.ended',
  };
}

class Chain {
  readonly faults: LedgerFault[] = [];
  readonly byHash = new Map<string, AnyEntry>();
  readonly #after = new Map<string, AnyEntry[]>();
  #highest = -1;

  constructor(entries: readonly AnyEntry[]) {
    const everywhere = new Set(entries.map(({ hash }) => hash));
    for (const entry of entries) this.#add(entry, everywhere);
  }

  #add(entry: AnyEntry, everywhere: ReadonlySet<string>): void {
    const { seq, prev, hash } = entry;
    const { hash: _, ...body } = entry;
    if (hashOf(body) !== hash) this.#fault('altered', seq, 'was changed after it was written');
    // An entry that was delivered twice may stand there twice.
    if (this.byHash.has(hash)) return;
    const before = this.byHash.get(prev);
    if (seq === 0 ? prev !== GENESIS : before?.seq !== seq - 1) this.#misplaced(entry, everywhere.has(prev));
    this.byHash.set(hash, entry);
    this.#after.set(prev, [...(this.#after.get(prev) ?? []), entry]);
    this.#highest = Math.max(this.#highest, seq);
  }

  #misplaced({ seq, prev }: AnyEntry, isElsewhere: boolean): void {
    const next = this.#highest + 1;
    if (isElsewhere) return this.#fault('reordered', seq, 'does not stand after the entry that it follows');
    if (seq > next) return this.#fault('missing', next, seq === next + 1 ? 'is missing' : `to ${seq - 1} are missing`);
    const what = seq === 0 ? 'does not begin a chain' : `does not follow entry ${seq - 1}`;
    this.#fault('rewritten', seq, `${what} (it names ${prev.slice(0, 12)}…): one of them was written anew`);
  }

  #fault(kind: FaultKind, seq: number, reason: string): void {
    this.faults.push({ kind, seq, reason });
  }

  tips(): AnyEntry[] {
    return [...this.byHash.values()].filter(({ hash }) => !this.#after.has(hash));
  }

  /** Returns the entries that share a place, for each place that has several. */
  forks(): (readonly AnyEntry[])[] {
    return [...this.#after.values()].filter(({ length }) => length > 1);
  }

  holds(seq: number): boolean {
    return seq <= this.#highest;
  }

  /** Yields the entries on the way back from this one, itself first. */
  *#back(last: AnyEntry): Generator<AnyEntry> {
    for (let at: AnyEntry | undefined = last; at !== undefined; at = this.byHash.get(at.prev)) yield at;
  }

  /** Returns the entry of this number on the way back from `last`. */
  at(seq: number, last: AnyEntry): AnyEntry | undefined {
    for (const entry of this.#back(last)) if (entry.seq <= seq) return entry.seq === seq ? entry : undefined;
    return undefined;
  }

  /** Returns how many entries the newest head covers, going back from this tip. */
  signedTo(tip: AnyEntry, signed: ReadonlySet<string>): number {
    for (const { hash, seq } of this.#back(tip)) if (signed.has(hash)) return seq + 1;
    return 0;
  }
}

function headFaults(chain: Chain, heads: readonly CheckedHead[]): LedgerFault[] {
  return heads.flatMap(({ from, to, head, previousHead, kid }): LedgerFault[] => {
    const last = chain.byHash.get(head);
    if (last === undefined && !chain.holds(to - 1))
      return [{ kind: 'truncated', seq: to - 1, reason: `was signed by ${kid} and is cut off at the end` }];
    // Only another copy can tell which entry was written anew.
    if (last?.seq !== to - 1) {
      const reason = `is not the one that ${kid} signed: an entry from ${from} to ${to - 1}, or one before them, was written anew`;
      return [{ kind: 'rewritten', seq: to - 1, reason }];
    }
    const before = chain.at(from, last)?.prev;
    if (before === previousHead || before === undefined) return [];
    return [{ kind: 'rewritten', seq: from, reason: `does not follow the one that ${kid} signed` }];
  });
}

function forkFaults(chain: Chain, heads: readonly CheckedHead[]): LedgerFault[] {
  const ofResets = heads
    .filter(({ resetOf }) => resetOf !== undefined)
    .flatMap(({ head, from }) => ({ last: chain.byHash.get(head), from }));
  const isOfReset = (entry: AnyEntry): boolean =>
    ofResets.some(
      ({ last, from }) => last !== undefined && from <= entry.seq && chain.at(entry.seq, last)?.hash === entry.hash,
    );
  // One of them was there before the reset. It need not stand first: files of a record are in the order of their names.
  return chain
    .forks()
    .flatMap((entries) => entries.filter((entry) => !isOfReset(entry)).slice(1))
    .map(({ seq }) => ({ kind: 'forked', seq, reason: 'stands there twice, and no reset of the run explains it' }));
}

function unsignedFault(chain: Chain, tip: AnyEntry, signed: ReadonlySet<string>): LedgerFault[] {
  const signedTo = chain.signedTo(tip, signed);
  if (signedTo > tip.seq) return [];
  return [{ kind: 'unsigned', seq: signedTo, reason: `to ${tip.seq} stand under no signed head` }];
}

/**
 * Compares a copy with the ledger of its run; the first entry that differs was written anew.
 * @param stored number of entries that the copy must have while the run goes on
 */
export function copyFaults(
  copy: readonly AnyEntry[],
  run: readonly AnyEntry[],
  { ended, stored = 0 }: { readonly ended: boolean; readonly stored?: number },
): LedgerFault[] {
  const hashes = new Set(copy.map(({ hash }) => hash));
  const first = run.find(({ hash }) => !hashes.has(hash));
  if (first === undefined) return [];
  const { seq } = first;
  if (copy.some((entry) => entry.seq === seq))
    return [{ kind: 'rewritten', seq, reason: 'is another one in the copy than in the run' }];
  const why = ended
    ? 'the run has ended, and goes on to more'
    : `the run has stored its first ${stored} entries, and continued as new`;
  return ended || seq < stored ? [{ kind: 'truncated', seq, reason: `is cut off in the copy: ${why}` }] : [];
}

/** Checks the stored conversation against every digest that the ledger names. @param messages the whole conversation */
export function conversationFaults(entries: readonly AnyEntry[], messages: readonly Message[]): LedgerFault[] {
  const digests = [EMPTY_DIGEST];
  for (const message of messages) digests.push(extendDigest(digests.at(-1) ?? EMPTY_DIGEST, message));
  return entries.flatMap(({ seq, fact }): LedgerFault[] => {
    const { conversation } = fact;
    if (typeof conversation !== 'object' || conversation === null) return [];
    // Sound: an object may be read at any name; what comes out is unknown.
    const { length, digest } = conversation as { length?: unknown; digest?: unknown };
    if (digests[Number(length)] === digest) return [];
    const reason = `names another conversation than is stored: a message before ${Number(length)} was changed`;
    return [{ kind: 'altered', seq, reason }];
  });
}
