/** An approval request is one call that waits for a countersignature. */
import { z } from 'zod';
import { Explanation } from './call.ts';
import { Approver, Pause } from './answer.ts';
import { JsonObject, Sha256Hex } from './json.ts';
import { ApproverRule, ToolName } from './policy.ts';
import { ToolAnnotations } from './tool.ts';

export const RequestStatus = z.enum(['open', 'approved', 'rejected', 'expired', 'cancelled', 'answered', 'resolved']);
export type RequestStatus = z.infer<typeof RequestStatus>;

/**
 * A request as the `requests` query shows it. A client recomputes `digest` from the other fields before showing them.
 */
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
  arguments: JsonObject,
  /** Set if an approver edited the arguments: by whom, when, and the model's own arguments. */
  edited: z.strictObject({ by: z.string(), at: z.string(), proposed: JsonObject }).optional(),
  /** Places in the arguments to leave out of lists and summaries; approvers must see them. */
  redact: z.array(z.string()).optional(),
  /** Data of the server, not instructions: escape before showing. */
  description: z.string().optional(),
  annotations: ToolAnnotations.optional(),
  rules: z.array(z.string()),
  /** Explanations of the rules that ask. */
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
  /** Time of the last escalation. */
  escalatedAt: z.string().optional(),
  /** Why the call is asked again. */
  reopenedBecause: z.string().optional(),
  /**
   * An earlier call of the turn with the same tool and arguments; each needs its own approval, or a standing decision.
   */
  duplicateOf: z.string().optional(),
  /** The approvals so far, if one is not enough. */
  votes: z.array(z.strictObject({ approver: Approver, at: z.string() })).optional(),
  decidedBy: Approver.optional(),
  decidedAt: z.string().optional(),
  /** The standing decision that answered it. */
  standing: z.string().optional(),
});
export type ApprovalRequest = z.infer<typeof ApprovalRequest>;

/** The open requests as a run's memo shows them, without arguments. */
export const PendingMemo = z.strictObject({
  count: z.int(),
  nextDeadline: z.string().optional(),
  /** The first five. */
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
