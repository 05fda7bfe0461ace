/**
 * The words of a run and its activities about questions on an open connection (docs/adr/0040), which the dispatch tells
 * by update and asks about by query, and about tasks. Written into history: no task id in clear (INV-S1).
 */
import type { Outcome, TokenEvidence, ToolTarget } from '../schemas/call.ts';
import type { SealedState } from '../schemas/input.ts';
import type { LedgerFact } from '../schemas/ledger.ts';
import type { HeldQuestions } from '../schemas/legacy-2025.ts';
import type { Grant } from '../schemas/run-spec.ts';
import type { ServerBinding } from '../schemas/tool.ts';
import type { ResultRoom, RunIdentity, ToolsetRef } from './identity.ts';
import type { ProvisionProof } from './proofs.ts';

export type { HeldQuestions };

/** Acknowledges that people are asked. */
export interface HeldAck {
  /** End of the time to answer, ISO 8601. */
  readonly deadline: string;
}

export type HeldPlace = Omit<HeldQuestions, 'requests'>;

export type HeldWord =
  | { readonly kind: 'open' }
  /** Nobody answered, and nobody will; also for a question unknown to the run. */
  | { readonly kind: 'closed' }
  /** The worker proves the answer before it believes it. */
  | { readonly kind: 'answered'; readonly provided: ProvisionProof };

/** The answer that a worker finally gave its server to one round of questions. */
export type HeldTold = Readonly<Pick<Extract<LedgerFact, { kind: 'input.told' }>, 'round' | 'told' | 'code'>>;

export interface BegunTask {
  /** Task, session, and the authorization that began it; only workers of the zone open the text. */
  readonly sealed: SealedState;
  readonly sentAt: string;
  /** When the run gives the task up: the server may have forgotten it, or the task has had its time. */
  readonly until: string;
  /** Poll interval that the server asks for, in ms. */
  readonly pollMs?: number;
  readonly message?: string;
}

export interface PollInput {
  readonly run: RunIdentity;
  readonly callId: string;
  /** Attempt of the dispatch that began the task. */
  readonly attempt: number;
  /** Name that the model used; the definition is found by it. */
  readonly name: string;
  readonly target: ToolTarget;
  readonly server: ServerBinding;
  readonly sealed: SealedState;
  /** All grants of the run for this server; the poll uses the one that began the task. */
  readonly grants?: readonly Grant[];
  readonly toolset: readonly ToolsetRef[];
  readonly limits: ResultRoom;
  /** Set once nobody waits any longer: the server is asked to cancel the task if it has not ended. */
  readonly giveUp?: 'withdrawn' | 'time';
}

/** Attempts of one poll; Temporal gives each to any available worker. */
export const MOST_TRIES = 3;

export type PollResult =
  | { readonly kind: 'working'; readonly pollMs?: number; readonly message?: string }
  /** The server could not be asked, and may answer later. */
  | { readonly kind: 'unreached'; readonly message: string; readonly retryAfterMs?: number }
  | { readonly kind: 'ended'; readonly outcome: Outcome; readonly token?: TokenEvidence };
