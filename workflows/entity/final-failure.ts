/** A failure with which a run ends for good. */
import { ApplicationFailure } from '@temporalio/common';

/** Whether a code may pass is said of what failed: a run as a whole is never repeated, since its calls have been made (INV-X1). */
export function final({ message, type, details }: ApplicationFailure): ApplicationFailure {
  return ApplicationFailure.nonRetryable(message, type, ...(details ?? []));
}
