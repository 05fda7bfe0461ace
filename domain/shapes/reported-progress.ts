/** Reads the progress of calls in heartbeats, which any writer of the namespace can send. */
import { defined } from '../../contracts/defined.ts';
import type { ReportedProgress } from '../../contracts/wire/stretch.ts';
import { isCallId, isFields, isFiniteNumber, isInstant } from './inputs.ts';

export const MOST_REPORTED = 20;

export function progressIn(details: unknown): ReportedProgress | undefined {
  if (!isFields(details)) return undefined;
  const { callId, sentAt, progress, total } = details;
  if (!isCallId(callId) || !isInstant(sentAt) || !isFiniteNumber(progress)) return undefined;
  return { callId, sentAt, progress, ...defined({ total: isFiniteNumber(total) ? total : undefined }) };
}

export function progressOfStretch(beat: unknown): readonly ReportedProgress[] {
  const reported = isFields(beat) ? beat['progress'] : undefined;
  if (!Array.isArray(reported)) return [];
  return reported.slice(0, MOST_REPORTED).flatMap((each) => progressIn(each) ?? []);
}
