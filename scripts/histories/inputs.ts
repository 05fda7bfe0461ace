/** What lies beside a recorded history: what was sent to the run at that point, and what it answered. */
import type { ErrorCode } from '../../contracts/errors.ts';

export interface Attempt {
  /** What is wrong with it, in words. */
  readonly name: string;
  readonly update:
    | 'decide'
    | 'say'
    | 'inputAsked'
    | 'stop'
    | 'forget'
    | 'resolveOutcome'
    | 'provideInput'
    | 'authorize'
    | 'connect'
    | 'refresh'
    | 'setToolPolicies'
    | 'disconnect';
  readonly input: unknown;
}

export interface RefusedAttempt extends Attempt {
  readonly code: ErrorCode;
  /** `run`: its validator. `engine`: the run was over, so nobody asked it. */
  readonly answeredBy: 'run' | 'engine';
  /** When it was sent; what was refused may depend on it. */
  readonly at: string;
}

export interface AcceptedAttempt extends Attempt {
  readonly at: string;
}

export interface RecordedInputs {
  readonly workflowId: string;
  /** Temporal run that was asked. */
  readonly runId: string;
  readonly refused: readonly RefusedAttempt[];
  /** Sent after the history was taken, and accepted: so that a run that refuses everything is noticed. */
  readonly accepted: readonly AcceptedAttempt[];
}
