/**
 * Is a copy of a ledger other than the run's only by times, as a query leaves it that was answered before queries were guarded?
 *
 * Pure. Such a query made a worker write entries with the clock of an earlier workflow task; handed over so, they stand in the copy,
 * and whoever rebuilds the run writes them with the clock of their own task. So a signed head does not fit, and nobody changed anything.
 */
import type { Client } from '@temporalio/client';
import { tsToMs } from '@temporalio/common/lib/time.js';
import type { AnyEntry } from '../contracts/schemas/ledger-record.ts';
import { canonicalJson } from '../domain/canonical.ts';

type History = Awaited<ReturnType<ReturnType<Client['workflow']['getHandle']>['fetchHistory']>>;

export interface EarlierClock {
  /** First entry that differs. */
  readonly seq: number;
  /** Its time in the copy, and in the run. */
  readonly copy: string;
  readonly run: string;
}

/** Undefined where they differ by more, or a time is that of no workflow task. */
export function earlierClock(
  copy: readonly AnyEntry[],
  run: readonly AnyEntry[],
  { events }: Pick<History, 'events'>,
): EarlierClock | undefined {
  const started = new Set(
    (events ?? []).flatMap((event) =>
      event.workflowTaskStartedEventAttributes ? [Math.floor(tsToMs(event.eventTime))] : [],
    ),
  );
  const kept = new Map(copy.map((entry) => [entry.seq, entry]));
  const pairs = run.flatMap((own) => {
    const other = kept.get(own.seq);
    return other === undefined || other.hash === own.hash ? [] : [{ own, other }];
  });
  const [first] = pairs;
  if (first === undefined) return undefined;
  const areSame = pairs.every(({ own, other }) => timeless(own) === timeless(other));
  const [at, then] = [first.own.at, first.other.at].map((time) => Date.parse(time));
  if (!areSame || at === undefined || then === undefined) return undefined;
  if (!(then < at) || !started.has(then) || !started.has(at)) return undefined;
  return { seq: first.own.seq, copy: first.other.at, run: first.own.at };
}

const INSTANT = /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z/g;

function timeless({ seq, fact }: AnyEntry): string {
  return `${seq} ${canonicalJson(fact).replaceAll(INSTANT, '')}`;
}
