/**
 * Is a copy of a ledger other than the run's only by times, as a query leaves it that a worker went on from?
 *
 * Pure. Such a query made a worker write entries with the clock of an earlier workflow task; handed over so, they stand in the copy,
 * and whoever rebuilds the run writes them with the clock of their own task. So a signed head does not fit, and nobody changed anything.
 * 1. It holds for each entry that differs: both times are those of workflow tasks, and that of the copy is not the later one.
 * 2. Facts are the same, save for deadlines that were counted from such a time: they differ by as much as that time does.
 * 3. The copy leaves out nothing up to its end, and has nothing that the run has not.
 */
import type { Client } from '@temporalio/client';
import type { AnyEntry } from '../contracts/schemas/ledger-record.ts';
import { canonicalJson, hashOf } from '../domain/canonical.ts';

type History = Awaited<ReturnType<ReturnType<Client['workflow']['getHandle']>['fetchHistory']>>;

export interface EarlierClock {
  /** First entry that differs. */
  readonly seq: number;
  /** Its time in the copy, and in the run. */
  readonly copy: string;
  readonly run: string;
}

interface Pair {
  readonly own: AnyEntry;
  readonly other: AnyEntry;
}

/**
 * Undefined where they differ by more, or a time is that of no workflow task.
 * @param histories of all executions of the run
 */
export function earlierClock(
  copy: readonly AnyEntry[],
  run: readonly AnyEntry[],
  histories: readonly Pick<History, 'events'>[],
): EarlierClock | undefined {
  const pairs = pairsOf(copy, run);
  const [first] = pairs ?? [];
  if (pairs === undefined || first === undefined || first.own.at === first.other.at) return undefined;
  const started = new Set(
    histories
      .flatMap(({ events }) => events ?? [])
      .flatMap((event) => (event.workflowTaskStartedEventAttributes ? [millisecond(event.eventTime)] : [])),
  );
  /** By how much the clock of the copy was behind, so far. */
  const behind = new Set([0]);
  for (const { own, other } of pairs) {
    const [at, then] = [Date.parse(own.at), Date.parse(other.at)];
    if (!(then <= at) || !started.has(then) || !started.has(at)) return undefined;
    behind.add(at - then);
    if (!isSound(other) || !isSameBut(behind, own.fact, other.fact)) return undefined;
  }
  return { seq: first.own.seq, copy: first.other.at, run: first.own.at };
}

type Time = NonNullable<History['events']>[number]['eventTime'];

/** Seconds are a `Long`, or a number where the history was read from a file. */
function millisecond(time: Time): number {
  return Number((time?.seconds ?? 0).toString()) * 1_000 + Math.floor((time?.nanos ?? 0) / 1_000_000);
}

/** Those that differ, in their order; undefined where the copy has another entry than the run, or leaves one out. */
function pairsOf(copy: readonly AnyEntry[], run: readonly AnyEntry[]): readonly Pair[] | undefined {
  const places = new Set(copy.map(({ seq }) => seq));
  const end = Math.max(-1, ...places);
  if (run.some(({ seq }) => seq <= end && !places.has(seq))) return undefined;
  const bySeq = new Map(run.map((own) => [own.seq, own]));
  const pairs: Pair[] = [];
  for (const other of copy.toSorted((one, next) => one.seq - next.seq)) {
    const own = bySeq.get(other.seq);
    if (own === undefined) return undefined;
    // Their hashes may be the same where one was changed in place.
    if (canonicalJson(own) !== canonicalJson(other)) pairs.push({ own, other });
  }
  return pairs;
}

function isSound({ hash, ...body }: AnyEntry): boolean {
  return hashOf(body) === hash;
}

/** Facts whose deadline a workflow counts from its clock. Every other instant was said by people, policy or a server. */
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
