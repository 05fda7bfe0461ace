/** What a person says to a request, and what the run answers. */
import { z } from 'zod';
import { TokenEvidence } from './call.ts';
import { InputRequests, InputResponse } from './input.ts';
import { Identifier, Instant, JsonObject, Sha256Hex } from './json.ts';
import { Grant } from './run-spec.ts';

/** Who decides. In `temporal` trust mode this is what the sender of the update says. */
export const Approver = z.strictObject({
  id: Identifier,
  groups: z.array(Identifier).max(100).default([]),
});
export type Approver = z.infer<typeof Approver>;

/** What every answer to a request says, whatever was asked. */
export const answerTo = {
  /** Chosen by the sender, also used as Temporal's update id: a resent decision gets its first answer. */
  decisionId: Identifier,
  callId: z
    .string()
    .regex(/^t[1-9][0-9]{0,5}\.c[0-9]{1,3}$/, 'must look like t1.c0; a list of tools (t0.c0) is answered by authorize'),
  /** Echo of the digest that was shown. */
  digest: Sha256Hex,
  /** Temporal run id under which the request was shown. */
  runId: z.string().min(1).max(200),
  approver: Approver,
};

/** An approval that answers later calls of the run, too. Only where the rule lets it be remembered. */
export const Remember = z.discriminatedUnion('scope', [
  /** Of the same tool with the same arguments. */
  z.strictObject({ scope: z.literal('call'), until: Instant.optional() }),
  /** Of the same tool, where these top-level arguments are the same. */
  z.strictObject({
    scope: z.literal('arguments'),
    names: z.array(z.string().min(1).max(200)).min(1).max(20),
    until: Instant.optional(),
  }),
  /** Of the same tool, whatever the arguments. */
  z.strictObject({ scope: z.literal('tool'), until: Instant.optional() }),
]);
export type Remember = z.infer<typeof Remember>;

export const Decision = z.discriminatedUnion('kind', [
  z.strictObject({
    kind: z.literal('approve'),
    ...answerTo,
    comment: z.string().max(4_096).optional(),
    /** Sent in place of those that were shown, all of them. Only where the rule lets arguments be edited. */
    arguments: JsonObject.optional(),
    remember: Remember.optional(),
  }),
  z.strictObject({ kind: z.literal('reject'), ...answerTo, reason: z.string().min(1).max(4_096) }),
  /** Takes back an approval of one's own while others are still needed. */
  z.strictObject({ kind: z.literal('withdraw'), ...answerTo, comment: z.string().max(4_096).optional() }),
  /** Postpones the deadline, where the rule permits it. Says nothing of the call. */
  z.strictObject({ kind: z.literal('extend'), ...answerTo, until: Instant, comment: z.string().max(4_096).optional() }),
  /** An answer in the tool's place, which is not run. Only where the rule lets it be answered. */
  z.strictObject({
    kind: z.literal('respond'),
    ...answerTo,
    answer: z.string().min(1).max(16_384),
    comment: z.string().max(4_096).optional(),
  }),
]);
export type Decision = z.infer<typeof Decision>;
export type DecisionInput = z.input<typeof Decision>;
/** With the JWS that it came with, in trust mode `signed`; then it is kept exactly as it was signed. */
export type SignedDecision = Decision & { readonly signature?: string };

export const DecisionAck = z.strictObject({
  callId: z.string(),
  decisionId: z.string(),
  /** `counted`: agreed, and more people are needed. `edited`: the call waits for others with the arguments that it was given. */
  status: z.enum(['approved', 'rejected', 'counted', 'withdrawn', 'extended', 'answered', 'edited']),
  decidedBy: z.string(),
  decidedAt: z.string(),
  /** The deadline as it was set. */
  until: z.string().optional(),
});
export type DecisionAck = z.infer<typeof DecisionAck>;

/** Takes a standing decision back. Answered the same however often it is sent. */
export const Forget = z.strictObject({
  /** Id of the decision that is remembered, as the run's state shows it. */
  standing: Identifier,
  by: Approver,
  comment: z.string().max(4_096).optional(),
});
export type Forget = z.infer<typeof Forget>;
export type ForgetInput = z.input<typeof Forget>;

export const ForgetAck = z.strictObject({ standing: z.string(), forgottenBy: z.string(), forgottenAt: z.string() });
export type ForgetAck = z.infer<typeof ForgetAck>;

/** A further user message. It waits for the end of the turn. */
export const Say = z.strictObject({
  /** Chosen by the sender; stands for this one message for as long as the run remembers it. */
  messageId: Identifier,
  text: z.string().min(1).max(131_072),
  from: Identifier,
  /** Withdraws the open requests, and those of this turn that would be opened, so that the message is read once nothing is in flight. */
  interrupt: z.literal(true).optional(),
});
export type Say = z.infer<typeof Say>;

/** Ends a run without failing it: open requests are cancelled, calls in flight end or are cancelled. */
export const Stop = z.strictObject({
  by: Identifier,
  reason: z.string().min(1).max(1_024),
  inFlight: z.enum(['finish', 'cancel']).default('finish'),
});
export type Stop = z.infer<typeof Stop>;

// What a person says became of a call whose outcome is not known.

export const Resolution = z.discriminatedUnion('kind', [
  /** It is sent again, with the same idempotency key. */
  z.strictObject({ kind: z.literal('retry'), ...answerTo, comment: z.string().max(4_096).optional() }),
  /** It did what it should: this is told to the model, as the words of whoever says so. */
  z.strictObject({
    kind: z.literal('succeeded'),
    ...answerTo,
    result: z.string().min(1).max(16_384),
    comment: z.string().max(4_096).optional(),
  }),
  /** It did not. */
  z.strictObject({
    kind: z.literal('failed'),
    ...answerTo,
    message: z.string().min(1).max(4_096),
    comment: z.string().max(4_096).optional(),
  }),
]);
export type Resolution = z.infer<typeof Resolution>;
export type ResolutionInput = z.input<typeof Resolution>;
/** With the JWS that it came with, in trust mode `signed`. */
export type SignedResolution = Resolution & { readonly signature?: string };

// What a person answers to the questions of a server.

const comment = z.string().max(4_096).optional();

export const Provision = z.discriminatedUnion('kind', [
  /** Question by question, by the server's keys. */
  z.strictObject({
    kind: z.literal('provide'),
    ...answerTo,
    responses: z.record(z.string(), InputResponse),
    comment,
  }),
  /** A no to all of them; the server is told so, and ends the call or goes on without. */
  z.strictObject({ kind: z.literal('decline'), ...answerTo, comment }),
  /** Nobody answers; the server is told that, too. */
  z.strictObject({ kind: z.literal('cancel'), ...answerTo, comment }),
]);
export type Provision = z.infer<typeof Provision>;
export type ProvisionInput = z.input<typeof Provision>;
/** With the JWS that it came with, in trust mode `signed`. */
export type SignedProvision = Provision & { readonly signature?: string };

// What a person says where a server wants another authorization than it got.

/** Also of a list of tools before the first turn, which is asked about under turn 0. */
const toAny = {
  ...answerTo,
  callId: z.string().regex(/^t(?:0|[1-9][0-9]{0,5})\.c[0-9]{1,3}$/, 'must look like t1.c0'),
};

export const Authorization = z.discriminatedUnion('kind', [
  /** The scopes that the request names may be asked for, for this call alone; where it names none, it is tried again. */
  z.strictObject({ kind: z.literal('consent'), ...toAny, comment }),
  /** Takes the place of the run's grant for that server; only from whose grant it replaces. */
  z.strictObject({ kind: z.literal('grant'), ...toAny, grant: Grant, comment }),
  /** Neither: the call ends. */
  z.strictObject({ kind: z.literal('decline'), ...toAny, reason: z.string().min(1).max(4_096) }),
]);
export type Authorization = z.infer<typeof Authorization>;
export type AuthorizationInput = z.input<typeof Authorization>;
/** With the JWS that it came with, in trust mode `signed`. */
export type SignedAuthorization = Authorization & { readonly signature?: string };

// What a person is asked of a call besides consent to it, and what the run says to their answer.

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
