/**
 * How the dispatch of a call, and the run that it belongs to, speak of questions that a server of MCP 2025-11-25 asks on a
 * connection that is held open (docs/adr/0040). The activity tells the run by update, and asks for the answer by query.
 */
import type { Outcome, TokenEvidence, ToolTarget } from '../schemas/call.ts';
import type { SealedState } from '../schemas/input.ts';
import type { HeldQuestions as Questions } from '../schemas/legacy-2025.ts';
import type { Grant } from '../schemas/run-spec.ts';
import type { ServerBinding } from '../schemas/tool.ts';
import type { ResultRoom, RunIdentity, ToolsetRef } from './identity.ts';
import type { ProvisionProof } from './proofs.ts';

/** Argument of the update `inputAsked`. Its id is `held/<callId>/<attempt>/<round>`, so that a repeat is the same one. */
export type HeldQuestions = Questions;

/** People are asked. */
export interface HeldAck {
  /** ISO 8601: until when somebody may answer. */
  readonly deadline: string;
}

/** Argument of the query `heldInput`. */
export type HeldPlace = Omit<Questions, 'requests'>;

/** What became of the question. */
export type HeldWord =
  | { readonly kind: 'open' }
  /** Nobody has answered it, and nobody will; also of a question that the run does not know. */
  | { readonly kind: 'closed' }
  /** To be believed only once it is proven. */
  | { readonly kind: 'answered'; readonly provided: ProvisionProof };

/** What the server was told in the end to one question, by the worker that it asked. */
export interface HeldTold {
  /** As the run was asked for it. */
  readonly round: number;
  readonly told: 'accept' | 'decline' | 'cancel';
  /** Why it was not what people said, or why the server may not have heard it. */
  readonly code?: string;
}

// Between a run and the activity that asks a server how far a task has come. Written into history: no id of a task in clear (INV-S1).

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
