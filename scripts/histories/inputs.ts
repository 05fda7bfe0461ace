/**
 * Gives the shape of the file beside a recorded history: messages sent to the run at that point, and its
 * answers.
 */
import type { ErrorCode } from '../../contracts/errors.ts';

export interface Attempt {
  /** Says in words what is wrong with the message. */
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
  /** `run`: the run's validator refused. `engine`: the run was over, so nobody asked it. */
  readonly answeredBy: 'run' | 'engine';
  /** Time of sending; a refusal may depend on it. */
  readonly at: string;
}

export interface AcceptedAttempt extends Attempt {
  readonly at: string;
}

export interface RecordedInputs {
  readonly workflowId: string;
  /** The Temporal run that was asked. */
  readonly runId: string;
  readonly refused: readonly RefusedAttempt[];
  /**
   * Messages that were sent after the history was taken, and accepted. They show that the run does not refuse
   * everything.
   */
  readonly accepted: readonly AcceptedAttempt[];
}
