/**
 * How large a message to a run may be, looked at before it leaves: what is larger than Temporal takes comes back as a fault of the
 * run, or not at all.
 */
import { CountersignError } from '../contracts/errors.ts';
import type { Decision } from '../contracts/schemas/decision.ts';
import { MOST_ARGUMENT_BYTES, MOST_SPEC_BYTES, type RunSpecInput } from '../contracts/schemas/run-spec.ts';
import { byteLength } from '../domain/canonical.ts';

/** Half of what one payload may hold (Temporal server `limit.blobSize.error`). */
const MESSAGE_BYTES = 1_048_576;

/** @throws CountersignError `ARGUMENTS_TOO_LARGE`: no run may allow more, whatever its limits are */
export function assertArgumentsFit(decision: Decision): void {
  const given = decision.kind === 'approve' ? decision.arguments : undefined;
  const bytes = given === undefined ? 0 : byteLength(JSON.stringify(given));
  if (bytes <= MOST_ARGUMENT_BYTES) return;
  throw new CountersignError(
    'ARGUMENTS_TOO_LARGE',
    `Arguments have ${bytes} bytes; no run allows more than ${MOST_ARGUMENT_BYTES}. Nothing was sent.`,
    { callId: decision.callId, path: 'arguments' },
  );
}

/** @throws CountersignError `LIMIT_REACHED` */
export function assertMessageFits(message: unknown): void {
  const bytes = byteLength(JSON.stringify(message ?? null));
  if (bytes <= MESSAGE_BYTES) return;
  throw new CountersignError(
    'LIMIT_REACHED',
    `The message has ${bytes} bytes; ${MESSAGE_BYTES} are allowed. Nothing was sent.`,
    { limit: 'message' },
  );
}

/** As a worker refuses it once the run has begun. @throws CountersignError `SPEC_INVALID` */
export function assertSpecFits(spec: RunSpecInput): void {
  const bytes = byteLength(JSON.stringify(spec));
  if (bytes <= MOST_SPEC_BYTES) return;
  throw new CountersignError(
    'SPEC_INVALID',
    `The run spec has ${bytes} bytes; ${MOST_SPEC_BYTES} are allowed. Give long texts to the tools instead. Nothing was started.`,
  );
}
