/**
 * Why a ledger is not as it should be, as far as Temporal's history can tell: somebody changed it, a query damaged its run, or the
 * build that is asked is at fault.
 *
 * 1. It is asked only where a copy differs from its run (`isRecordInDoubt`): a key, a missing signature or a head that was noted
 *    elsewhere says nothing of who wrote what.
 * 2. That somebody changed it is said only where the history is consistent, and nothing else explains it.
 */
import { type ExecutionChain, executionChain } from '../client/execution-chain.ts';
import type { FaultKind, LedgerFault } from '../client/ledger-check.ts';
import { earlierClock } from '../client/query-clock.ts';
import type { AnyEntry } from '../contracts/schemas/ledger-record.ts';
import { canonicalJson } from '../domain/canonical.ts';
import type { ReplayOptions } from '../workers/replay.ts';
import { readingOptions } from './replayed.ts';
import type { Session } from './session.ts';

export interface BrokenBy {
  readonly cause: 'somebody' | 'query' | 'build' | 'unknown';
  readonly certainty: 'shown' | 'likely';
  readonly text: string;
}

/** Is a fault about what was recorded, rather than about who may have signed it? */
const OF_RECORD: Readonly<Record<FaultKind, boolean>> = {
  altered: true,
  rewritten: true,
  missing: true,
  reordered: true,
  truncated: true,
  forked: true,
  history: true,
  // A line that a copy may have been left with; what is not there for it is a fault of its own.
  unreadable: false,
  'foreign-head': false,
  unsigned: false,
  'proof-unsigned': false,
  'proof-altered': false,
  'proof-foreign-key': false,
  'proof-not-entitled': false,
  'proof-expired': false,
};

/** @param copy absent where the run alone was read, which cannot differ from itself */
export function isRecordInDoubt(
  faults: readonly LedgerFault[],
  { copy, run }: { readonly copy: readonly AnyEntry[] | undefined; readonly run: readonly AnyEntry[] },
): boolean {
  return copy !== undefined && faults.some(({ kind }) => OF_RECORD[kind]) && !isPartOf(copy, run);
}

/** Is it the run's own, whole or up to some entry? */
function isPartOf(copy: readonly AnyEntry[], run: readonly AnyEntry[]): boolean {
  // Whole entries: one that was changed in place still has its hash.
  const kept = new Set(copy.map(canonicalJson));
  const own = run.slice(0, kept.size).map(canonicalJson);
  return own.length === kept.size && own.every((entry) => kept.has(entry));
}

/** @param compared `run`: its own ledger, from which `copy` differs */
export async function brokenBy(
  { client, settings, deadlineMs }: Session,
  runId: string,
  compared: Compared,
): Promise<BrokenBy> {
  const chain = await client.connection.withDeadline(
    Date.now() + deadlineMs,
    async () => await executionChain(client, runId),
  );
  return await brokenIn(runId, chain, compared, await readingOptions(settings, client.options.namespace));
}

interface Compared {
  readonly copy: readonly AnyEntry[];
  readonly run: readonly AnyEntry[];
}

/** @param options `bundle` is one of `bundleForReading` */
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
    return {
      cause: 'unknown',
      certainty: 'likely',
      text: `A query damaged the run, and the copy differs from it by more than the times that a query changes: somebody may have changed the record as well. Keep it as it is. ${fault.text}`,
    };
  if (clock !== undefined)
    return {
      cause: 'query',
      certainty: 'likely',
      text: `A query damaged the run, by all signs: from entry ${clock.seq} on the two differ in times alone, all of them times of workflow tasks and never later in the copy: ${clock.copy} there, ${clock.run} in the run. Nobody needs to have changed anything.`,
    };
  if (!isWhole)
    return {
      cause: 'unknown',
      certainty: 'likely',
      text: 'No query explains the difference, but the first histories of the run are not retained any more: it cannot be told whether somebody changed the record. Keep it as it is.',
    };
  return {
    cause: 'somebody',
    certainty: 'likely',
    text: "The run's history is consistent, this build replays all of it, and no query explains the difference: somebody changed the record. Keep it as it is.",
  };
}

/** What is carried into an execution is taken as it is: a damaged one does not make the next ones differ. */
async function firstFault(
  runId: string,
  histories: ExecutionChain['histories'],
  options: ReplayOptions,
): Promise<BrokenBy | undefined> {
  const [{ soundnessOf }, { diagnosisOf }] = await Promise.all([
    import('../workers/replayed-run.ts'),
    import('../workers/replay-diagnosis.ts'),
  ]);
  for (const history of histories) {
    const soundness = await soundnessOf(runId, history, options);
    if (soundness.kind === 'whole') continue;
    const { cause, certainty, text } = await diagnosisOf(runId, history, soundness, options);
    return { cause, certainty, text };
  }
  return undefined;
}
