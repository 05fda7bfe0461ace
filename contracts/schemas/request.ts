/** An approval request: one call that waits for a countersignature. */
import { z } from 'zod';
import { Explanation } from './call.ts';
import { Approver, Pause } from './answer.ts';
import { JsonObject, Sha256Hex } from './json.ts';
import { ApproverRule, ToolName } from './policy.ts';
import { ToolAnnotations } from './tool.ts';

export const RequestStatus = z.enum(['open', 'approved', 'rejected', 'expired', 'cancelled', 'answered', 'resolved']);
export type RequestStatus = z.infer<typeof RequestStatus>;

/** As the `requests` query shows it. A client recomputes `digest` from the other fields before it shows them. */
export const ApprovalRequest = z.strictObject({
  namespace: z.string(),
  tenant: z.string(),
  workflowId: z.string(),
  /** Temporal run id under which it is shown; a decision echoes it. */
  runId: z.string(),
  callId: z.string(),
  /** Times this call has been asked, from 1. A reopened request has a new digest. */
  generation: z.int().positive(),
  status: RequestStatus,
  /** What is asked, where it is not consent to the call: answered by an update of its own. */
  about: Pause.optional(),
  digest: Sha256Hex,
  server: z.string(),
  serverUrl: z.string(),
  tool: ToolName,
  definitionHash: Sha256Hex,
  arguments: JsonObject,
  /** Set where an approver changed the arguments: by whom, and what the model had proposed. */
  edited: z.strictObject({ by: z.string(), at: z.string(), proposed: JsonObject }).optional(),
  /** Places in them that are not to be shown in passing; whoever decides must see them. */
  redact: z.array(z.string()).optional(),
  /** Data of the server, not instructions: escape before showing. */
  description: z.string().optional(),
  annotations: ToolAnnotations.optional(),
  rules: z.array(z.string()),
  /** What the rules that ask say of themselves. */
  explain: z.array(Explanation).optional(),
  approvers: ApproverRule,
  openedAt: z.string(),
  /** As it is now, postponed or not. */
  deadline: z.string(),
  /** Where the run's grant for the server ends before the deadline: what is approved later has no authorization then. */
  grantExpiresAt: z.string().optional(),
  /** Who postponed the deadline, oldest first. */
  extensions: z.array(z.strictObject({ approver: Approver, at: z.string(), until: z.string() })).optional(),
  /** Where it was reminded of: when that was due. */
  remindedAt: z.string().optional(),
  /** Since when others are asked, the last time. */
  escalatedAt: z.string().optional(),
  /** Why it was asked again. */
  reopenedBecause: z.string().optional(),
  /** An earlier call of the turn with the same tool and arguments; each needs an approval of its own, or one that stands. */
  duplicateOf: z.string().optional(),
  /** Who has agreed so far, where one is not enough. */
  votes: z.array(z.strictObject({ approver: Approver, at: z.string() })).optional(),
  decidedBy: Approver.optional(),
  decidedAt: z.string().optional(),
  /** The standing decision that answered it. */
  standing: z.string().optional(),
});
export type ApprovalRequest = z.infer<typeof ApprovalRequest>;

/** What the memo of a run says of its open requests; no arguments. */
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
      /** What is asked, where it is not consent. */
      about: z.enum(['outcome', 'input', 'authorization']).optional(),
    }),
  ),
  truncated: z.boolean(),
});
export type PendingMemo = z.infer<typeof PendingMemo>;
