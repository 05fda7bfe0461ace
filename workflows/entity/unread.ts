/**
 * Handles inputs that a workflow cannot read: a message is refused, and an activity's answer counts as lost
 * (docs/adr/0046).
 *
 * 1. Encryption keys come and go, and a run is replayed under today's keys. An input that was unreadable on arrival
 *    therefore stays unread. A marker in history says so; there is none if everything was readable.
 * 2. An input that was read before and cannot be read now is no fault of the run: the workflow task fails, and waits
 *    for a worker that has the key.
 */
import { TemporalFailure } from '@temporalio/common';
import { patched, workflowInfo } from '@temporalio/workflow';
import { failureOf } from '../../contracts/failure.ts';
import { isUndecodable, Undecodable, type UndecodableReason } from '../../contracts/payload-converter.ts';
import { type Answerer, isAnswerOf } from '../../domain/shapes/inputs.ts';
import type { Unread } from '../interceptors/zone.ts';
import { UNREAD } from '../versions.ts';

/** An execution that counts the inputs it has read; the count is the same in each replay. */
export interface Reader {
  /** Returns the number of the next input, the first of which is 1. */
  nextInput(): number;
}

const KEYED: readonly UndecodableReason[] = ['sealed', 'changed'];

/** @throws ApplicationFailure if the answer cannot be read or has a wrong form: that fails no workflow task */
export function answered<T>(reader: Reader, activity: Answerer, answer: Unread<T>): T {
  const seen = seenAs(reader, answer);
  if (!isUndecodable(seen)) {
    if (!isAnswerOf(activity, seen))
      throw failureOf('INTERNAL', `What came as the answer of ${activity.replace('?', '')} is none.`);
    // Sound: it has every field that the workflow reads; the rest is only somebody's word.
    return seen as T;
  }
  const message = `The answer of an activity ${seen.says}.`;
  if (!KEYED.includes(seen.reason)) throw failureOf('INTERNAL', message);
  throw failureOf('CONFIG_INVALID', `${message} All workers need the same encryption.keys.`, {
    path: 'encryption.keys',
  });
}

/** The input as it was read on arrival, if it enters history whether it can be read or not. */
export function seenAs(reader: Reader, value: unknown): unknown {
  return seenAt(String(reader.nextInput()), value);
}

/**
 * The same for an input that is not counted. Follows history, whatever today's keys can read: there is one marker with
 * the reason given then, or none.
 * @param place of this one input, the same in each replay
 */
export function seenAt(place: string, value: unknown): unknown {
  const marker = (reason: UndecodableReason): string => `${UNREAD}${place}-${reason}`;
  const { isReplaying } = workflowInfo().unsafe;
  // In a replay, asking for a marker that is not there leaves no trace.
  const was = isReplaying ? KEYED.find((each) => patched(marker(each))) : undefined;
  if (was !== undefined) return new Undecodable(was);
  if (!isUndecodable(value) || !KEYED.includes(value.reason)) return value;
  if (isReplaying || !patched(marker(value.reason))) throw keyless(value);
  return value;
}

/** For inputs that a validator would have refused unread. @throws if this worker does not have the key */
export function assertReadable(...values: readonly unknown[]): void {
  for (const value of values) if (isUndecodable(value)) throw keyless(value);
}

/** Lets a caller continue after a failed activity, but not if this worker lacks the key. @throws any other error */
export function assertFailure(error: unknown): asserts error is TemporalFailure {
  if (!(error instanceof TemporalFailure)) throw error;
}

/** This is not a failure of Temporal's, so the workflow task fails and is tried again, perhaps by another worker. */
function keyless({ says }: Undecodable): Error {
  return new Error(
    `What this execution was given ${says}. Give this worker the encryption.keys that it was made with.`,
  );
}
