/**
 * A single call: a backend with a loop of its own has one tool called through the gate. It is a run whose model is the
 * caller (docs/adr/0078).
 */
import { z } from 'zod';
import { Outcome } from './call.ts';
import { JsonObject, Name } from './json.ts';
import { ToolName } from './policy.ts';
import { Limits, RunSpec, ServerRef } from './run-spec.ts';

export const CallSpec = RunSpec.pick({ initiator: true, grants: true, policy: true, priority: true, signature: true })
  .extend({
    /** A server by the name that configuration or catalog knows, or by name and URL if egress rules allow it. */
    server: z.union([Name, ServerRef.omit({ allowedTools: true })]),
    /** Original name of the tool. */
    tool: ToolName,
    arguments: JsonObject.default({}),
    limits: Limits.pick({
      argumentBytes: true,
      resultBytes: true,
      wallClockSeconds: true,
      callTimeoutSeconds: true,
    })
      .partial()
      .prefault({}),
  })
  .strict();
export type CallSpec = z.infer<typeof CallSpec>;
/** A call as a backend may write it. */
export type CallSpecInput = z.input<typeof CallSpec>;

/** What became of a single call. It is the output of its run, as JSON text. */
export const CallAnswer = z.strictObject({
  callId: z.string(),
  outcome: Outcome,
  /** Set if the call was sent with other arguments than the caller stated: by whom, and with which. */
  edited: z.strictObject({ by: z.string(), arguments: JsonObject }).optional(),
});
export type CallAnswer = z.infer<typeof CallAnswer>;
