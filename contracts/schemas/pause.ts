/** What a person is asked of a call besides consent to it, and what the run says to their answer. */
import { z } from 'zod';
import { TokenEvidence } from './call.ts';
import { InputRequests } from './input.ts';

/** The call was sent, and nobody knows what became of it. Answered by `resolveOutcome`. */
export const OutcomePause = z.strictObject({
  kind: z.literal('outcome'),
  /** When it left, as its worker said. */
  sentAt: z.string().optional(),
  /** Where no worker has said that it left: when the run handed it to one. */
  handedAt: z.string().optional(),
  /** Why it is not known. */
  message: z.string(),
  /** The dispatch that is meant. */
  attempt: z.int().positive(),
  /** Of an answer that came in part. */
  bytes: z.int().nonnegative().optional(),
  /** What the server said last of how far it has come (`notifications/progress`). */
  lastProgress: z.number().optional(),
  /** Of the token that it was made with: by its id the server's own log may name the call. */
  token: TokenEvidence.optional(),
});
export type OutcomePause = z.infer<typeof OutcomePause>;

/** The server asks for something before it goes on. Answered by `provideInput`. */
export const InputPause = z.strictObject({
  kind: z.literal('input'),
  /** Times the server has asked in this call, from 1. */
  round: z.int().positive(),
  /** What nobody has answered yet, in the server's words. */
  requests: InputRequests,
  /** The server waits on an open connection, and the question ends with it (MCP 2025-11-25). */
  held: z.literal(true).optional(),
});
export type InputPause = z.infer<typeof InputPause>;

/** The server wants another authorization than it got, and nothing has run. Answered by `authorize`. */
export const AuthorizationPause = z.strictObject({
  kind: z.literal('authorization'),
  server: z.string(),
  /** Code of what was in the way. */
  reason: z.string(),
  message: z.string(),
  /** `consent`: to the scopes, or to try again where none are named. `grant`: a fresh one, of whose grant it replaces. */
  wants: z.enum(['consent', 'grant']),
  scopes: z.array(z.string()).max(20).optional(),
  /** Times that this call was asked about, this one included. */
  round: z.int().positive(),
});
export type AuthorizationPause = z.infer<typeof AuthorizationPause>;

export const Pause = z.discriminatedUnion('kind', [OutcomePause, InputPause, AuthorizationPause]);
export type Pause = z.infer<typeof Pause>;
export type PauseKind = Pause['kind'];

/** The first answer; whoever sends the same one again gets it again. */
export const PauseAck = z.strictObject({
  callId: z.string(),
  decisionId: z.string(),
  answer: z.enum(['retry', 'succeeded', 'failed', 'provide', 'consent', 'grant', 'decline', 'cancel']),
  decidedBy: z.string(),
  decidedAt: z.string(),
});
export type PauseAck = z.infer<typeof PauseAck>;
