/** The transcript is the conversation of a run. It is append-only; the workflow holds each message once. */
import { z } from 'zod';
import { Outcome, ProposedCall } from './call.ts';
import { JsonObject } from './json.ts';

/** Opaque data, returned to the provider that sent it (reasoning items, signatures). */
const provider = JsonObject.optional();

export const AssistantPart = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('text'), text: z.string(), provider }),
  z.strictObject({ type: z.literal('reasoning'), text: z.string(), provider }),
  z.strictObject({ type: z.literal('call'), ...ProposedCall.omit({ malformed: true }).shape, provider }),
]);
export type AssistantPart = z.infer<typeof AssistantPart>;

export const CallResult = z.strictObject({
  ...ProposedCall.pick({ callId: true, providerCallId: true, name: true }).shape,
  outcome: Outcome,
  /** Set if the call was sent with other arguments than the model proposed: by whom, and with which. */
  edited: z.strictObject({ by: z.string(), arguments: JsonObject }).optional(),
  /** For a hosted call: what the provider was answered. `approve` is true if the call may have run. */
  approvalResponse: z.strictObject({ approvalRequestId: z.string(), approve: z.boolean() }).optional(),
});
export type CallResult = z.infer<typeof CallResult>;

export const Message = z.discriminatedUnion('role', [
  z.strictObject({ role: z.literal('system'), text: z.string() }),
  z.strictObject({ role: z.literal('user'), text: z.string(), from: z.string().optional() }),
  z.strictObject({ role: z.literal('assistant'), parts: z.array(AssistantPart) }),
  /** All results of a turn, in the order in which the calls were proposed. */
  z.strictObject({ role: z.literal('tool'), results: z.array(CallResult) }),
]);
export type Message = z.infer<typeof Message>;

export const Usage = z.strictObject({
  inputTokens: z.int().nonnegative(),
  outputTokens: z.int().nonnegative(),
});
export type Usage = z.infer<typeof Usage>;
