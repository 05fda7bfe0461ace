/**
 * Why a ledger is not as it should be, as far as Temporal's history can tell: somebody changed it, a query damaged its run, or the
 * build that is asked is at fault.
 *
 * 1. That somebody changed it is said only where the history is consistent, and nothing else explains it.
 */
import { earlierClock } from '../client/query-clock.ts';
import { livingHistory } from '../client/recovery.ts';
import type { AnyEntry } from '../contracts/schemas/ledger-record.ts';
import { readingOptions } from './replayed.ts';
import type { Session } from './session.ts';

export interface BrokenBy {
  readonly cause: 'somebody' | 'query' | 'build' | 'unknown';
  readonly certainty: 'shown' | 'likely';
  readonly text: string;
}

/** @param run its own ledger, with which `copy` was compared */
export async function brokenBy(
  { client, settings, deadlineMs }: Session,
  runId: string,
  { copy, run }: { readonly copy: readonly AnyEntry[]; readonly run: readonly AnyEntry[] },
): Promise<BrokenBy> {
  const { history } = await client.connection.withDeadline(
    Date.now() + deadlineMs,
    async () => await livingHistory(client, runId),
  );
  const options = await readingOptions(settings, client.options.namespace);
  const [{ soundnessOf }, { diagnosisOf }] = await Promise.all([
    import('../workers/replayed-run.ts'),
    import('../workers/replay-diagnosis.ts'),
  ]);
  const soundness = await soundnessOf(runId, history, options);
  if (soundness.kind === 'part') {
    const { cause, certainty, text } = await diagnosisOf(runId, history, soundness, options);
    return { cause, certainty, text };
  }
  const clock = earlierClock(copy, run, history);
  if (clock !== undefined)
    return {
      cause: 'query',
      certainty: 'likely',
      text: `A query damaged the run before queries were guarded, by all signs: from entry ${clock.seq} on the two differ in times alone, and ${clock.copy} and ${clock.run} are both times of workflow tasks, the earlier one in the copy. Nobody needs to have changed anything.`,
    };
  return {
    cause: 'somebody',
    certainty: 'likely',
    text: "The run's history is consistent, this build replays all of it, and no query explains the difference: somebody changed the record. Keep it as it is.",
  };
}
