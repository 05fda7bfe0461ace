/**
 * Finds out why a ledger is broken, or why histories do not replay, as far as Temporal's history tells. Somebody
 * changed the ledger, a query damaged the run, or this build is at fault.
 *
 * 1. The cause of a broken ledger is sought only if a copy differs from its run (`isRecordInDoubt`). An unknown key, a
 *    missing signature or a head noted elsewhere does not say who wrote what.
 * 2. Somebody is said to have changed the ledger only if the history is consistent and nothing else explains the
 *    difference.
 * 3. A diagnosis replays a history dozens of times, and a bad build fails thousands of them. Only the first few
 *    failures are diagnosed.
 * 4. The code is cleared only if every failed history was diagnosed.
 */
import { CountersignError } from '../../contracts/errors.ts';
import { type ExecutionChain, executionChain } from '../../client/engine/executions.ts';
import type { FaultKind, LedgerFault } from '../../client/ledger/check.ts';
import { earlierClock } from '../../client/ledger/query-clock.ts';
import { defined } from '../../contracts/defined.ts';
import type { AnyEntry } from '../../contracts/schemas/ledger.ts';
import { canonicalJson } from '../../domain/text/canonical.ts';
import type { Cause, Diagnosis } from '../../workers/replay/diagnosis.ts';
import type { ReplayOptions, ReplayOutcome } from '../../workers/replay/replay.ts';
import type { Session } from './session.ts';
import { readingOptions } from './stuck-run.ts';

export interface BrokenBy {
  readonly cause: 'somebody' | 'query' | 'build' | 'unknown';
  readonly certainty: 'shown' | 'likely';
  readonly text: string;
}

/**
 * Faults in the entries themselves; others are in who may have signed them. A crash may have left an `unreadable` line
 * in a copy; an entry that is missing for that reason has a fault of its own.
 */
const OF_RECORD: ReadonlySet<FaultKind> = new Set<FaultKind>([
  'altered',
  'rewritten',
  'missing',
  'reordered',
  'truncated',
  'forked',
  'history',
]);

export function isRecordInDoubt(faults: readonly LedgerFault[], { copy, run }: Compared): boolean {
  return faults.some(({ kind }) => OF_RECORD.has(kind)) && !isPartOf(copy, run);
}

/** True if the copy is the run's own ledger, whole or up to some entry. */
function isPartOf(copy: readonly AnyEntry[], run: readonly AnyEntry[]): boolean {
  // Whole entries are compared, because one that was changed in place still has its hash.
  const kept = new Set(copy.map(canonicalJson));
  const own = run.slice(0, kept.size).map(canonicalJson);
  return own.length === kept.size && own.every((entry) => kept.has(entry));
}

export async function brokenBy(
  { client, settings, deadlineMs }: Session,
  runId: string,
  compared: Compared,
): Promise<BrokenBy> {
  const chain = await executionChain(client, runId, deadlineMs);
  return await brokenIn(runId, chain, compared, await readingOptions(settings, client.options.namespace));
}

interface Compared {
  readonly copy: readonly AnyEntry[];
  readonly run: readonly AnyEntry[];
}

function likely(cause: BrokenBy['cause'], text: string): BrokenBy {
  return { cause, certainty: 'likely', text };
}

/** @param options its `bundle` comes from `bundleForReading` */
export async function brokenIn(
  runId: string,
  { histories, isWhole }: ExecutionChain,
  { copy, run }: Compared,
  options: ReplayOptions,
): Promise<BrokenBy> {
  const clock = earlierClock(copy, run, histories);
  const fault = await firstFault(runId, histories, options);
  if (fault !== undefined && (fault.cause !== 'query' || clock !== undefined)) return fault;
  if (fault !== undefined)
    return likely(
      'unknown',
      `A query damaged the run, and the copy differs from it by more than the times that a query changes: somebody may have changed the record as well. Keep it as it is. ${fault.text}`,
    );
  if (clock !== undefined)
    return likely(
      'query',
      `A query damaged the run, by all signs: from entry ${clock.seq} on the two differ in times alone, all of them times of workflow tasks and never later in the copy: ${clock.copy} there, ${clock.run} in the run. Nobody needs to have changed anything.`,
    );
  if (!isWhole)
    return likely(
      'unknown',
      'No query explains the difference, but the first histories of the run are not retained any more: it cannot be told whether somebody changed the record. Keep it as it is.',
    );
  return likely(
    'somebody',
    "The run's history is consistent, this build replays all of it, and no query explains the difference: somebody changed the record, unless Temporal's database was restored from an older copy (docs/operations/backups.md). Keep it as it is.",
  );
}

/** Returns the first damage: executions after a damaged one take what it carried as it is, and look consistent. */
async function firstFault(
  runId: string,
  histories: ExecutionChain['histories'],
  options: ReplayOptions,
): Promise<BrokenBy | undefined> {
  const { soundnessOf } = await import('../../workers/replay/replayed-run.ts');
  const { diagnosisOf } = await import('../../workers/replay/diagnosis.ts');
  const { isKeyless } = await import('../../workers/replay/replay.ts');
  let doubt: BrokenBy | undefined;
  for (const history of histories) {
    try {
      const soundness = await soundnessOf(runId, history, options);
      if (soundness.kind === 'whole') continue;
      const { cause, certainty, text } = await diagnosisOf(runId, history, soundness, options);
      // A build tells the entries of a closed execution to nobody: at fault there, it explains no difference.
      if (cause === 'query' || history === histories.at(-1)) return { cause, certainty, text };
      doubt ??= inDoubt(text);
    } catch (error) {
      if (!(error instanceof CountersignError)) throw error;
      if (error.code !== 'REPLAY_FAILED' && !isKeyless(error)) throw error;
      doubt ??= inDoubt(error.message);
    }
  }
  return doubt;
}

function inDoubt(why: string): BrokenBy {
  return likely(
    'unknown',
    `An execution of the run cannot be replayed, which does not explain the difference: it cannot be told whether somebody changed the record. Keep it as it is. ${why}`,
  );
}

export const MOST_DIAGNOSED = 10;

export interface Diagnosed extends ReplayOutcome {
  /** Absent if the history replays, if nothing of it does, or if it was not diagnosed. */
  readonly diagnosis?: Diagnosis;
  /** Set if the history fails and the limit of diagnoses was reached before. */
  readonly notLookedAt?: true;
}

export async function* diagnosedOf(
  outcomes: AsyncIterable<ReplayOutcome>,
  diagnose: (outcome: ReplayOutcome) => Promise<Diagnosis | undefined>,
  most = MOST_DIAGNOSED,
): AsyncGenerator<Diagnosed> {
  let failed = 0;
  for await (const outcome of outcomes) {
    const isFailed = outcome.error !== undefined && !outcome.isUnread;
    if (isFailed) failed += 1;
    const diagnosis = isFailed && failed <= most ? await diagnose(outcome) : undefined;
    const notLookedAt: true | undefined = isFailed && failed > most ? true : undefined;
    yield { ...outcome, ...defined({ diagnosis, notLookedAt }) };
  }
}

type Causes = Readonly<Record<Cause | 'unread' | 'notLookedAt', number>>;

export function causesOf(outcomes: readonly Diagnosed[]): Causes {
  const causes = { build: 0, query: 0, unknown: 0, unread: 0, notLookedAt: 0 };
  for (const { error, diagnosis, isUnread, notLookedAt } of outcomes) {
    if (error === undefined) continue;
    const other = isUnread ? 'unread' : 'unknown';
    causes[notLookedAt ? 'notLookedAt' : (diagnosis?.cause ?? other)] += 1;
  }
  return causes;
}

export function replayFailureText(failed: number, replayed: number, causes: Causes): string {
  const { build, query, unknown, unread, notLookedAt } = causes;
  if (unread === failed)
    return `${unread} of ${replayed} histories could not be read, so it is not known whether this code replays them. The reason stands under each.`;
  const failing = `${failed - unread} of ${replayed} histories do not replay with this code`;
  if (query === failed)
    return `${failing}: each was damaged by a query, and the code is not at fault. The way out of each run: countersign recover.`;
  const parts = [
    build > 0 ? `${build} by this build` : '',
    query > 0 ? `${query} damaged by a query` : '',
    unknown > 0 ? `${unknown} for a reason that cannot be told` : '',
    unread > 0 ? `${unread} could not be read` : '',
    notLookedAt > 0 ? `${notLookedAt} not looked at: --diagnose-all does` : '',
  ].filter((part) => part !== '');
  return `${failing}; it must not be deployed over them (${parts.join(', ')}).`;
}
