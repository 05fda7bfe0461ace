/**
 * Outcomes of replays, and why those that failed did.
 *
 * 1. A diagnosis replays a history dozens of times, and a bad build fails thousands of them: the first few are looked at.
 * 2. The code is cleared only where every history that fails was looked at.
 */
import type { Cause, Diagnosis } from '../workers/replay-diagnosis.ts';
import type { ReplayOutcome } from '../workers/replay.ts';

export const MOST_DIAGNOSED = 10;

export interface Diagnosed extends ReplayOutcome {
  /** Absent where it replays, nothing of it does, or nobody looked. */
  readonly diagnosis?: Diagnosis;
  /** It fails, and as many as are looked at had failed before. */
  readonly notLookedAt?: true;
}

export async function* diagnosedOf(
  outcomes: AsyncIterable<ReplayOutcome>,
  diagnose: (outcome: ReplayOutcome) => Promise<Diagnosis | undefined>,
  most = MOST_DIAGNOSED,
): AsyncGenerator<Diagnosed> {
  let failed = 0;
  for await (const outcome of outcomes) {
    if (outcome.error === undefined) {
      yield outcome;
      continue;
    }
    failed += 1;
    if (failed > most) {
      yield { ...outcome, notLookedAt: true };
      continue;
    }
    const diagnosis = await diagnose(outcome);
    yield { ...outcome, ...(diagnosis && { diagnosis }) };
  }
}

/** Of those that failed. */
export type Causes = Readonly<Record<Cause | 'notLookedAt', number>>;

export function causesOf(outcomes: readonly Diagnosed[]): Causes {
  const causes = { build: 0, query: 0, unknown: 0, notLookedAt: 0 };
  for (const { error, diagnosis, notLookedAt } of outcomes)
    if (error !== undefined) causes[notLookedAt ? 'notLookedAt' : (diagnosis?.cause ?? 'unknown')] += 1;
  return causes;
}

export function causesText({ build, query, unknown, notLookedAt }: Causes): string {
  if (build + unknown + notLookedAt === 0)
    return ': each was damaged by a query, and the code is not at fault. The way out of each run: countersign recover.';
  const parts = [
    build > 0 ? `${build} by this build` : '',
    query > 0 ? `${query} damaged by a query` : '',
    unknown > 0 ? `${unknown} for a reason that cannot be told` : '',
    notLookedAt > 0 ? `${notLookedAt} not looked at: --diagnose-all does` : '',
  ].filter((part) => part !== '');
  return `; it must not be deployed over them (${parts.join(', ')}).`;
}
