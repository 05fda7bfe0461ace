/**
 * Tells whether a copy of a ledger differs from the run's only in times. A query can cause that, and nobody: entries
 * are written, and copied, with the clock of an earlier workflow task than a worker that rebuilds the run has.
 *
 * 1. For each entry that differs, both times are those of workflow tasks, and the copy's time is not the later one.
 * 2. The facts are the same, but for deadlines that were counted from such a time, which differ by as much.
 * 3. The copy leaves out no entry up to its end, and has no entry that the run does not have.
 */
import type { AnyEntry } from '../../contracts/schemas/ledger.ts';
import { canonicalJson, hashOf } from '../../domain/text/canonical.ts';
import type { History, HistoryEvent } from '../engine/executions.ts';

/**
 * Returns the first entry that differs, with its time in the copy and in the run; undefined if the ledgers differ by
 * more, or if a time is that of no workflow task.
 * @param histories of all executions of the run
 */
export function earlierClock(
  copy: readonly AnyEntry[],
  run: readonly AnyEntry[],
  histories: readonly Pick<History, 'events'>[],
) {
  const pairs = pairsOf(copy, run);
  const [first] = pairs ?? [];
  if (pairs === undefined || first === undefined || first.own.at === first.other.at) return undefined;
  const started = new Set(
    histories
      .flatMap(({ events }) => events ?? [])
      .flatMap((event) => (event.workflowTaskStartedEventAttributes ? [millisecond(event.eventTime)] : [])),
  );
  /** Milliseconds by which the copy's clock has been behind so far. */
  const behind = new Set([0]);
  for (const { own, other } of pairs) {
    const [at, then] = [Date.parse(own.at), Date.parse(other.at)];
    if (!(then <= at) || !started.has(then) || !started.has(at)) return undefined;
    behind.add(at - then);
    const { hash, ...body } = other;
    if (hashOf(body) !== hash || !isSameBut(behind, own.fact, other.fact)) return undefined;
  }
  return { seq: first.own.seq, copy: first.other.at, run: first.own.at };
}

/** Seconds are a `Long`, or a number if the history was read from a file. */
function millisecond(time: HistoryEvent['eventTime']): number {
  return Number((time?.seconds ?? 0).toString()) * 1_000 + Math.floor((time?.nanos ?? 0) / 1_000_000);
}

/** Returns the entries that differ, in order; undefined if the copy has an extra entry or leaves one out. */
function pairsOf(copy: readonly AnyEntry[], run: readonly AnyEntry[]) {
  const places = new Set(copy.map(({ seq }) => seq));
  const end = Math.max(-1, ...places);
  if (run.some(({ seq }) => seq <= end && !places.has(seq))) return undefined;
  const bySeq = new Map(run.map((own) => [own.seq, own]));
  const pairs: { readonly own: AnyEntry; readonly other: AnyEntry }[] = [];
  for (const other of copy.toSorted((one, next) => one.seq - next.seq)) {
    const own = bySeq.get(other.seq);
    if (own === undefined) return undefined;
    // An entry that was changed in place may still have its old hash, so the whole entries are compared.
    if (canonicalJson(own) !== canonicalJson(other)) pairs.push({ own, other });
  }
  return pairs;
}

/** Facts whose deadline a workflow counts from its clock. Every other instant comes from people, policy or a server. */
const COUNTED: readonly string[] = ['request.opened', 'request.reminded', 'catalog.change-opened'];

function isSameBut(behind: ReadonlySet<number>, own: AnyEntry['fact'], other: AnyEntry['fact']): boolean {
  if (!COUNTED.includes(own.kind)) return canonicalJson(own) === canonicalJson(other);
  const { deadline, ...fact } = own;
  const { deadline: earlier, ...same } = other;
  return (
    canonicalJson(fact) === canonicalJson(same) &&
    behind.has(Date.parse(String(deadline)) - Date.parse(String(earlier)))
  );
}
