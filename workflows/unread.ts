/**
 * What a workflow is given and cannot read: a message is refused, an answer of an activity counts as lost (docs/adr/0046).
 *
 * 1. Keys of encryption come and go, and a run is replayed under those of today: what could not be read when it came is not read
 *    later either. A marker in history says so; there is none where nothing was unreadable.
 * 2. What was read and cannot be now is no fault of the run: the workflow task fails, and waits for a worker that has the key.
 */
import { TemporalFailure } from '@temporalio/common';
import { patched, workflowInfo } from '@temporalio/workflow';
import { failureOf } from '../contracts/failure.ts';
import { isUndecodable, Undecodable, type UndecodableReason } from '../contracts/undecodable.ts';
import { type Answerer, isAnswerOf } from '../domain/answer-shapes.ts';
import { UNREAD } from './versions.ts';

/** An execution that counts what it has looked at, which is the same in each replay. */
export interface Reader {
  looked: number;
}

declare const unread: unique symbol;

/** What an activity answered, before anybody has looked whether it can be read. */
export interface Unread<T> {
  readonly [unread]: T;
}

/** Activities as workflows see them. */
export type Answering<Activities> = {
  readonly [Name in keyof Activities]: Activities[Name] extends (...input: infer Input) => Promise<infer Answer>
    ? (...input: Input) => Promise<Unread<Answer>>
    : never;
};

/** Whether these can be read depends on `encryption.keys`. */
const KEYED: readonly UndecodableReason[] = ['sealed', 'changed'];

/** The answer of an activity. @throws ApplicationFailure where it cannot be read, or is none: not a cause of a workflow task that fails */
export function answered<T>(reader: Reader, activity: Answerer, answer: Unread<T>): T {
  const seen = seenAs(reader, answer);
  if (!isUndecodable(seen)) {
    if (!isAnswerOf(activity, seen))
      throw failureOf('INTERNAL', `What came as the answer of ${activity.replace('?', '')} is none.`);
    // Sound: it has what the workflow reads of it; the rest is the word of an activity of ours, or of somebody who answers in its name.
    return seen as T;
  }
  const message = `The answer of an activity ${seen.says}.`;
  if (!KEYED.includes(seen.reason)) throw failureOf('INTERNAL', message);
  throw failureOf('CONFIG_INVALID', `${message} All workers need the same encryption.keys.`, {
    path: 'encryption.keys',
  });
}

/** What came, as it was read when it came first. For what enters history whether it can be read or not. */
export function seenAs(reader: Reader, value: unknown): unknown {
  reader.looked += 1;
  return seenAt(String(reader.looked), value);
}

/** What an execution was started with. */
export function seenAtStart(value: unknown): unknown {
  return seenAt('start', value);
}

/** History says what it was, whatever the keys of today make of it: one marker, with the reason of then, or none. */
function seenAt(place: string, value: unknown): unknown {
  const marker = (reason: UndecodableReason): string => `${UNREAD}${place}-${reason}`;
  const { isReplaying } = workflowInfo().unsafe;
  // In a replay, asking for a marker that is not there leaves nothing behind.
  const was = isReplaying ? KEYED.find((each) => patched(marker(each))) : undefined;
  if (was !== undefined) return new Undecodable(was);
  if (!isUndecodable(value) || !KEYED.includes(value.reason)) return value;
  if (isReplaying || !patched(marker(value.reason))) throw keyless(value);
  return value;
}

/** What was taken once: a validator would have refused what it cannot read. @throws where this worker has not its key */
export function assertReadable(...values: readonly unknown[]): void {
  for (const value of values) if (isUndecodable(value)) throw keyless(value);
}

/** For whoever goes on where an activity fails: not where this worker has not the key. @throws what is no failure of Temporal's */
export function assertFailure(error: unknown): void {
  if (!(error instanceof TemporalFailure)) throw error;
}

/** Not a failure of Temporal's, so the workflow task fails and is tried again, perhaps by another worker. */
function keyless({ says }: Undecodable): Error {
  return new Error(
    `What this execution was given ${says}. Give this worker the encryption.keys that it was made with.`,
  );
}
