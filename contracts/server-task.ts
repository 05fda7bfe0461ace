/** Between a run and the activity that asks a server how far a task has come. Written into history: no id of a task in clear (INV-S1). */
import type { RunIdentity, ToolsetRef } from './activities.ts';
import type { ResultRoom } from './dispatch.ts';
import type { Outcome, TokenEvidence, ToolTarget } from './schemas/call.ts';
import type { SealedState } from './schemas/input.ts';
import type { Grant } from './schemas/run-spec.ts';
import type { ServerBinding } from './schemas/tool.ts';

/** What a dispatch says of a call that its server has made a task of. */
export interface BegunTask {
  /** Task, session, and with whose authorization it was begun; only workers of the zone open it. */
  readonly sealed: SealedState;
  readonly sentAt: string;
  /** When it is given up: by then the server may have forgotten it, or it has had its time. */
  readonly until: string;
  /** What the server wants between two questions. */
  readonly pollMs?: number;
  readonly message?: string;
}

export interface PollInput {
  readonly run: RunIdentity;
  readonly callId: string;
  /** The dispatch that began it. */
  readonly attempt: number;
  /** The name that the model used, by which its definition is found. */
  readonly name: string;
  readonly target: ToolTarget;
  readonly server: ServerBinding;
  readonly sealed: SealedState;
  /** All that the run has for this server; the one with which the task was begun is taken. */
  readonly grants?: readonly Grant[];
  readonly toolset: readonly ToolsetRef[];
  readonly limits: ResultRoom;
  /** Nobody waits any longer: the server is asked to cancel what has not ended. */
  readonly giveUp?: 'withdrawn' | 'time';
}

/** Of a question: Temporal gives it to whichever worker is there. */
export const MOST_TRIES = 3;

export type PollResult =
  /** The server works on it. */
  | { readonly kind: 'working'; readonly pollMs?: number; readonly message?: string }
  /** It could not be asked, and may be later. */
  | { readonly kind: 'unreached'; readonly message: string; readonly retryAfterMs?: number }
  | { readonly kind: 'ended'; readonly outcome: Outcome; readonly token?: TokenEvidence };
