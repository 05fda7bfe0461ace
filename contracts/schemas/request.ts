/** An approval request is one call that waits for a countersignature. */
import { z } from 'zod';
import { Explanation, TokenEvidence } from './call.ts';
import { InputRequests, InputResponse } from './input.ts';
import { Identifier, Instant, JsonObject, Sha256Hex } from './json.ts';
import { ApproverRule, ToolName } from './policy.ts';
import { Grant } from './run-spec.ts';
import { ToolAnnotations } from './tool.ts';

// People answer a request with these messages, and the run replies with these acknowledgements.

/** A person who decides. In trust mode `temporal` the sender of the update is believed. */
export const Approver = z.strictObject({
  id: Identifier,
  groups: z.array(Identifier).max(100).default([]),
});
export type Approver = z.infer<typeof Approver>;

/** The fields of every answer to a request. */
export const answerTo = {
  /** Chosen by the sender, also used as Temporal's update id: a resent decision gets its first answer. */
  decisionId: Identifier,
  callId: z
    .string()
    .regex(/^t[1-9][0-9]{0,5}\.c[0-9]{1,3}$/, 'must look like t1.c0; a list of tools (t0.c0) is answered by authorize'),
  digest: Sha256Hex,
  /** Temporal run id under which the request was shown. */
  runId: z.string().min(1).max(200),
  approver: Approver,
};

const comment = z.string().max(4_096).optional();
const reason = z.string().min(1).max(4_096);
/** Words of a person that the model reads. */
const words = z.string().min(1).max(16_384);

/** Extends an approval to later calls of the run, if the rule permits it. */
export const Remember = z.discriminatedUnion('scope', [
  z.strictObject({ scope: z.literal('call'), until: Instant.optional() }),
  /** Covers calls of the same tool in which these top-level arguments are the same. */
  z.strictObject({
    scope: z.literal('arguments'),
    names: z.array(z.string().min(1).max(200)).min(1).max(20),
    until: Instant.optional(),
  }),
  z.strictObject({ scope: z.literal('tool'), until: Instant.optional() }),
]);
export type Remember = z.infer<typeof Remember>;

export const Decision = z.discriminatedUnion('kind', [
  z.strictObject({
    kind: z.literal('approve'),
    ...answerTo,
    comment,
    /** All arguments to be sent in place of the shown ones, if the rule permits editing. */
    arguments: JsonObject.optional(),
    remember: Remember.optional(),
  }),
  z.strictObject({ kind: z.literal('reject'), ...answerTo, reason }),
  /** Takes back one's own approval while others are still needed. */
  z.strictObject({ kind: z.literal('withdraw'), ...answerTo, comment }),
  /** Postpones the deadline, if the rule permits it. An extension is no vote. */
  z.strictObject({ kind: z.literal('extend'), ...answerTo, until: Instant, comment }),
  /** Answers in the tool's place, which does not run, if the rule permits it. */
  z.strictObject({ kind: z.literal('respond'), ...answerTo, answer: words, comment }),
]);
export type Decision = z.infer<typeof Decision>;
export type DecisionInput = z.input<typeof Decision>;
/** A decision with its JWS, in trust mode `signed`; such a decision is kept exactly as it was signed. */
export type SignedDecision = Decision & { readonly signature?: string };

export const DecisionAck = z.strictObject({
  callId: z.string(),
  decisionId: z.string(),
  /** `counted`: approved, and more people are needed. `edited`: the call waits for others with its new arguments. */
  status: z.enum(['approved', 'rejected', 'counted', 'withdrawn', 'extended', 'answered', 'edited']),
  decidedBy: z.string(),
  decidedAt: z.string(),
  /** The new deadline. */
  until: z.string().optional(),
});
export type DecisionAck = z.infer<typeof DecisionAck>;

/** Takes a standing decision back. Repeats get the same answer. */
export const Forget = z.strictObject({
  standing: Identifier,
  by: Approver,
  comment,
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
  /** Withdraws requests that are open or that this turn would open; the message is read once nothing is in flight. */
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

/** These answers settle a call whose outcome is unknown. */
export const Resolution = z.discriminatedUnion('kind', [
  /** Sends the call again, with the same idempotency key. */
  z.strictObject({ kind: z.literal('retry'), ...answerTo, comment }),
  /** Records success; the model reads the result as the words of the person. */
  z.strictObject({ kind: z.literal('succeeded'), ...answerTo, result: words, comment }),
  z.strictObject({ kind: z.literal('failed'), ...answerTo, message: reason, comment }),
]);
export type Resolution = z.infer<typeof Resolution>;
export type ResolutionInput = z.input<typeof Resolution>;
export type SignedResolution = Resolution & { readonly signature?: string };

/** These answers go to the questions of a server. */
export const Provision = z.discriminatedUnion('kind', [
  /** Answers each question, by the server's keys. */
  z.strictObject({ kind: z.literal('provide'), ...answerTo, responses: z.record(z.string(), InputResponse), comment }),
  /** Declines all questions; the server is told so, and ends the call or goes on without answers. */
  z.strictObject({ kind: z.literal('decline'), ...answerTo, comment }),
  /** Closes the questions without an answer; the server is told so. */
  z.strictObject({ kind: z.literal('cancel'), ...answerTo, comment }),
]);
export type Provision = z.infer<typeof Provision>;
export type ProvisionInput = z.input<typeof Provision>;
export type SignedProvision = Provision & { readonly signature?: string };

// These answers go to a server that requires another authorization.

/** Turn 0 is allowed here: a list of tools before the first turn may lack an authorization, too. */
export const AnyCallId = z.string().regex(/^t(?:0|[1-9][0-9]{0,5})\.c[0-9]{1,3}$/, 'must look like t1.c0');
const toAny = { ...answerTo, callId: AnyCallId };

export const Authorization = z.discriminatedUnion('kind', [
  /** Consents to the scopes that the request names, for this call alone; if it names none, the call is tried again. */
  z.strictObject({ kind: z.literal('consent'), ...toAny, comment }),
  /** Replaces the run's grant for that server; only the subject of that grant may send it. */
  z.strictObject({ kind: z.literal('grant'), ...toAny, grant: Grant, comment }),
  /** Gives neither: the call ends. */
  z.strictObject({ kind: z.literal('decline'), ...toAny, reason }),
]);
export type Authorization = z.infer<typeof Authorization>;
export type AuthorizationInput = z.input<typeof Authorization>;
export type SignedAuthorization = Authorization & { readonly signature?: string };

// A pause is a request for something other than consent; its answer is acknowledged.

/** The call was sent, and its outcome is unknown. Answered by `resolveOutcome`. */
export const OutcomePause = z.strictObject({
  kind: z.literal('outcome'),
  sentAt: z.string().optional(),
  /** Time at which the run handed the call to a worker, if no worker has reported the sending. */
  handedAt: z.string().optional(),
  message: z.string(),
  /** Attempt of the dispatch in question. */
  attempt: z.int().positive(),
  bytes: z.int().nonnegative().optional(),
  /** The server's last progress (`notifications/progress`). */
  lastProgress: z.number().optional(),
  /** Evidence of the token of the call: the server's own log may name the call by the token's id. */
  token: TokenEvidence.optional(),
});
export type OutcomePause = z.infer<typeof OutcomePause>;

/** The server asks for something before it goes on. Answered by `provideInput`. */
export const InputPause = z.strictObject({
  kind: z.literal('input'),
  /** Number of the server's round of questions in this call, from 1. */
  round: z.int().positive(),
  requests: InputRequests,
  /** Set if the server waits on an open connection, and the question ends with it (MCP 2025-11-25). */
  held: z.literal(true).optional(),
});
export type InputPause = z.infer<typeof InputPause>;

/** The server requires another authorization, and nothing has run. Answered by `authorize`. */
export const AuthorizationPause = z.strictObject({
  kind: z.literal('authorization'),
  server: z.string(),
  reason: z.string(),
  message: z.string(),
  /** `consent`: to the scopes, or to another try if none. `grant`: a fresh one of the subject of the present one. */
  wants: z.enum(['consent', 'grant']),
  scopes: z.array(z.string()).max(20).optional(),
  /** Number of such requests for this call, this one included. */
  round: z.int().positive(),
});
export type AuthorizationPause = z.infer<typeof AuthorizationPause>;

export const Pause = z.discriminatedUnion('kind', [OutcomePause, InputPause, AuthorizationPause]);
export type Pause = z.infer<typeof Pause>;
export type PauseKind = Pause['kind'];

/** The acknowledgement of the first answer; a resent answer gets it again. */
export const PauseAck = z.strictObject({
  callId: z.string(),
  decisionId: z.string(),
  answer: z.enum(['retry', 'succeeded', 'failed', 'provide', 'consent', 'grant', 'decline', 'cancel']),
  decidedBy: z.string(),
  decidedAt: z.string(),
});
export type PauseAck = z.infer<typeof PauseAck>;

export const RequestStatus = z.enum(['open', 'approved', 'rejected', 'expired', 'cancelled', 'answered', 'resolved']);
export type RequestStatus = z.infer<typeof RequestStatus>;

/** A request as the `requests` query shows it. A client recomputes `digest` from the other fields before showing it. */
export const ApprovalRequest = z.strictObject({
  namespace: z.string(),
  tenant: z.string(),
  workflowId: z.string(),
  /** Temporal run id under which the request is shown; a decision repeats it. */
  runId: z.string(),
  callId: z.string(),
  /** Number of the request for this call, from 1. A reopened request has a new digest. */
  generation: z.int().positive(),
  status: RequestStatus,
  /** Set if the request is not for consent to the call; another update answers it. */
  about: Pause.optional(),
  digest: Sha256Hex,
  server: z.string(),
  serverUrl: z.string(),
  tool: ToolName,
  definitionHash: Sha256Hex,
  /** Set if a provider calls the server: the name of its model. The call cannot be changed, nor answered for. */
  hosted: z.string().optional(),
  arguments: JsonObject,
  /** Set if an approver edited the arguments: by whom, when, and the model's own arguments. */
  edited: z.strictObject({ by: z.string(), at: z.string(), proposed: JsonObject }).optional(),
  /** Places in the arguments to leave out of lists and summaries; approvers must see them. */
  redact: z.array(z.string()).optional(),
  /** Data of the server, not instructions: escape before showing. */
  description: z.string().optional(),
  annotations: ToolAnnotations.optional(),
  rules: z.array(z.string()),
  explain: z.array(Explanation).optional(),
  approvers: ApproverRule,
  openedAt: z.string(),
  /** The deadline in force, extensions included. */
  deadline: z.string(),
  /** Set if the run's grant for the server ends before the deadline: a call approved later has no authorization. */
  grantExpiresAt: z.string().optional(),
  /** The postponements, oldest first. */
  extensions: z.array(z.strictObject({ approver: Approver, at: z.string(), until: z.string() })).optional(),
  /** Time at which the reminder was due, if it was. */
  remindedAt: z.string().optional(),
  escalatedAt: z.string().optional(),
  reopenedBecause: z.string().optional(),
  /** An equal earlier call of the turn; each needs its own approval, or a standing decision. */
  duplicateOf: z.string().optional(),
  /** The approvals so far, if one is not enough. */
  votes: z.array(z.strictObject({ approver: Approver, at: z.string() })).optional(),
  decidedBy: Approver.optional(),
  decidedAt: z.string().optional(),
  standing: z.string().optional(),
  /** The call has begun, may have run, or is hosted: its arguments stay, and nobody answers for its tool. */
  asItIs: z.literal(true).optional(),
});
export type ApprovalRequest = z.infer<typeof ApprovalRequest>;

/** The open requests as a run's memo shows them, without arguments. */
export const PendingMemo = z.strictObject({
  count: z.int(),
  nextDeadline: z.string().optional(),
  requests: z.array(
    z.strictObject({
      callId: z.string(),
      server: z.string(),
      tool: z.string(),
      deadline: z.string(),
      digest: Sha256Hex,
      reminded: z.literal(true).optional(),
      duplicateOf: z.string().optional(),
      /** Set if the request is not for consent. */
      about: z.enum(['outcome', 'input', 'authorization']).optional(),
    }),
  ),
  truncated: z.boolean(),
});
export type PendingMemo = z.infer<typeof PendingMemo>;
