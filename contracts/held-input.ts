/**
 * How the dispatch of a call, and the run that it belongs to, speak of questions that a server of MCP 2025-11-25 asks on a
 * connection that is held open (docs/adr/0040). The activity tells the run by update, and asks for the answer by query.
 */
import type { ProvisionProof } from './dispatch-proof.ts';
import type { HeldQuestions as Questions } from './schemas/held-input.ts';

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
