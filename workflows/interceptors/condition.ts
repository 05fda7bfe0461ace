/**
 * `condition` for all workflow code of this project: a refused update makes none of them true (docs/adr/0088).
 *
 * The SDK evaluates every condition after each message, a refused update too, which no replay does: what a condition
 * began there would not replay (INV-D1).
 *
 * 1. A condition is evaluated from the first job of a task that a replay has, too: an event, or an accepted update. The
 *    SDK goes through updates before answers of activities and timers. After a refused update at the beginning, nothing
 *    is evaluated until the first answer.
 * 2. In a replay every update was accepted, so conditions are evaluated as without this module.
 * 3. The first task after a reset brings a new random seed. The SDK tells no interceptor, so the seeds are compared.
 * 4. `handleUpdate` must be reached while the SDK goes through the jobs: an interceptor that waits before it calls the
 *    next one must stand behind this one (`workers/bundle.ts`).
 * 5. The state belongs to one run in one worker's memory, as each run has its own copy of this module (INV-D4).
 */
import type { Duration } from '@temporalio/common';
import {
  type ActivateInput,
  condition as sdkCondition,
  type TimerOptions,
  type WorkflowInterceptors,
} from '@temporalio/workflow';

/** True from the first job of the present task that a replay has, too. */
let isRecorded = true;

export function interceptors(): WorkflowInterceptors {
  let seed = randomSeed();
  return {
    internals: [
      {
        activate: (input, next) => {
          const isReset = randomSeed() !== seed;
          seed = randomSeed();
          const jobs = input.activation.jobs ?? [];
          const first = jobs.findIndex(({ doUpdate }) => !doUpdate);
          const updates = first === -1 ? jobs : jobs.slice(0, first);
          const others = jobs.slice(updates.length);
          isRecorded = false;
          if (updates.length > 0) next(withJobs(input, updates));
          isRecorded ||= isReset || updates.length === 0 || others.length > 0;
          if (updates.length === 0 || others.length > 0) next(withJobs(input, others));
          // Then the SDK evaluates all conditions once more.
        },
      },
    ],
    inbound: [
      {
        handleUpdate: (input, next) => {
          isRecorded = true;
          return next(input);
        },
      },
    ],
  };
}

/** The SDK makes a new one for a run that was reset. */
function randomSeed(): unknown {
  // Sound: the SDK keeps it there for the running workflow (its lib/global-attributes).
  const { __TEMPORAL_ACTIVATOR__: activator } = globalThis as {
    readonly __TEMPORAL_ACTIVATOR__?: { readonly randomnessSeed: unknown };
  };
  return activator?.randomnessSeed;
}

type Jobs = NonNullable<ActivateInput['activation']['jobs']>;

function withJobs(input: ActivateInput, jobs: Jobs): ActivateInput {
  return { ...input, activation: { ...input.activation, jobs } };
}

/** Returns a condition that is false as long as the present task has only had updates that were refused. */
export function onRecord(isMet: () => boolean): () => boolean {
  return () => isRecorded && isMet();
}

/** Like `condition` of the SDK. Not `async`: one more promise would change the order of recorded commands (INV-D1). */
export function condition(isMet: () => boolean): Promise<void>;
export function condition(isMet: () => boolean, timeout: Duration, options: TimerOptions): Promise<boolean>;
export function condition(
  isMet: () => boolean,
  timeout?: Duration,
  options: TimerOptions = {},
): Promise<boolean | void> {
  return timeout === undefined ? sdkCondition(onRecord(isMet)) : sdkCondition(onRecord(isMet), timeout, options);
}
