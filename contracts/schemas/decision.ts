/** What a person says to a request, and what the run answers. */
import { z } from 'zod';
import { Identifier, Instant, JsonObject, Sha256Hex } from './json.ts';

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
