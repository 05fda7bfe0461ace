/** Checks how a run began: it was started once, or continued as new. */
import { workflowInfo } from '@temporalio/workflow';
import { failureOf, final } from '../../contracts/failure.ts';
import { isUndecodable } from '../../contracts/payload-converter.ts';
import { type Carry, CARRY_VERSIONS } from '../../domain/run/carry.ts';
import { assertReadable, seenAtStart } from './unread.ts';

/**
 * Refuses any other start: only continue-as-new hands on what an earlier execution has done, and a retry or schedule
 * would repeat it.
 */
export function assertStartedOnce(spec: unknown, carry: Carry | null | undefined): void {
  const { attempt, cronSchedule, continuedFromExecutionRunId } = workflowInfo();
  // Only an execution of this service continues as new: if its carry is unreadable, the task waits for a worker that
  // has the key.
  if (continuedFromExecutionRunId !== undefined) assertReadable(spec, carry);
  if (attempt > 1 || (cronSchedule !== undefined && cronSchedule !== '')) {
    throw final(
      failureOf(
        'SPEC_INVALID',
        'A run is started once, without a retry policy or a cron schedule of Temporal: they would repeat its calls.',
        { path: 'options' },
      ),
    );
  }
  const seen = seenAtStart(spec);
  if (isUndecodable(seen))
    throw final(failureOf('SPEC_INVALID', `The run spec ${seen.says}. Nothing was done.`, { path: 'args[0]' }));
  if (carry === undefined || carry === null) return;
  if (continuedFromExecutionRunId === undefined) {
    throw final(
      failureOf(
        'SPEC_INVALID',
        'A run is started with one argument, the spec; the second belongs to continue-as-new.',
        { path: 'args[1]' },
      ),
    );
  }
  // This is not a failure of the run: after a rollback the task waits for a build that knows this version.
  if (!CARRY_VERSIONS.includes(carry.version))
    throw new Error(`carried state has version ${String(carry.version)}; this build knows another`);
}
