/**
 * `condition` for all workflow code of this project: a refused update makes none of them true (docs/adr/0088).
 *
 * The SDK evaluates every condition after each message, a refused update too, and with the time and `workflowInfo()` of
 * its task. No history knows of that task, so what a condition began there would not replay (INV-D1).
 *
 * 1. A condition is evaluated from the first job of a task that its history will have: an event, or an accepted update.
 * 2. The SDK gives updates before answers of activities and timers. Updates that begin a task are handed on one by one,
 *    because each may be refused.
 * 3. In a replay every update was accepted, so all conditions are evaluated as without this module.
 */
import type { Duration } from '@temporalio/common';
import {
  type ActivateInput,
  condition as sdkCondition,
  type TimerOptions,
  type WorkflowInterceptors,
} from '@temporalio/workflow';

/** True from the first job of the present task that its history will have. */
let isRecorded = true;

export function interceptors(): WorkflowInterceptors {
  return {
    internals: [
      {
        activate: (input, next) => {
          const jobs = input.activation.jobs ?? [];
          const other = jobs.findIndex(({ doUpdate }) => !doUpdate);
          const updates = other === -1 ? jobs : jobs.slice(0, other);
          isRecorded = false;
          for (const update of updates) next(withJobs(input, [update]));
          if (other === -1 && jobs.length > 0) return;
          isRecorded = true;
          next(updates.length === 0 ? input : withJobs(input, jobs.slice(other)));
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

type Jobs = NonNullable<ActivateInput['activation']['jobs']>;

function withJobs(input: ActivateInput, jobs: Jobs): ActivateInput {
  return { ...input, activation: { ...input.activation, jobs } };
}

/** Returns a condition that is false as long as the present task has only had updates that were refused. */
export function onRecord(isMet: () => boolean): () => boolean {
  return () => isRecorded && isMet();
}

/** As in the SDK. Not `async`: one more promise would change the order of commands in recorded runs (INV-D1). */
export function condition(isMet: () => boolean): Promise<void>;
export function condition(isMet: () => boolean, timeout: Duration, options: TimerOptions): Promise<boolean>;
export function condition(
  isMet: () => boolean,
  timeout?: Duration,
  options: TimerOptions = {},
): Promise<boolean | void> {
  return timeout === undefined ? sdkCondition(onRecord(isMet)) : sdkCondition(onRecord(isMet), timeout, options);
}
