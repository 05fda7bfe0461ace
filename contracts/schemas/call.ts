/** A throttled call may run, but waits because of its server's limits. */
import { z } from 'zod';
import { ArtifactRef, JsonObject, JsonValue, Sha256Hex } from './json.ts';
import { NotifyRoute } from './notify.ts';
import { ApproverRule, ToolName } from './policy.ts';
import { ToolAnnotations } from './tool.ts';

/** The limit in force. `retry-after`: the server itself asked for time (RFC 9110 §10.2.3). */
export const HeldBy = z.enum(['concurrency', 'rate', 'retry-after', 'breaker']);
export type HeldBy = z.infer<typeof HeldBy>;

export const HeldCall = z.strictObject({
  callId: z.string(),
  server: z.string(),
  tool: ToolName,
  by: HeldBy,
  because: z.string(),
  since: z.string(),
  /** Time of the next attempt to get a place. */
  next: z.string(),
});
export type HeldCall = z.infer<typeof HeldCall>;

/** A call as the model proposed it. `providerCallId` is kept to answer the provider and never used as a key. */
export const ProposedCall = z.strictObject({
  callId: z.string(),
  providerCallId: z.string(),
  name: z.string(),
  arguments: JsonObject,
  /** Why the model's arguments were not a JSON object; absent for a well-formed call. */
  malformed: z.string().optional(),
  /** For a hosted call: the id under which the provider asked for approval (`mcp_approval_request`). No key either. */
  approvalRequestId: z.string().optional(),
  /** For a hosted call: the id of the provider's answer that asks for it, if the provider keeps that answer. */
  storedAnswerId: z.string().optional(),
});
export type ProposedCall = z.infer<typeof ProposedCall>;

export const ToolTarget = z.strictObject({
  server: z.string(),
  serverUrl: z.string(),
  tool: ToolName,
  definitionHash: Sha256Hex,
  /** The model whose provider calls the server. Absent: this service calls it. */
  hosted: z.string().optional(),
});
export type ToolTarget = z.infer<typeof ToolTarget>;

/** A rule's own explanation, in its author's words. */
export const Explanation = z.strictObject({ rule: z.string(), text: z.string() });

/** The rule that let a call pass which would have been asked, its reason, and its end. */
export const BrokenGlass = z.strictObject({ rule: z.string(), reason: z.string(), until: z.string() });
export type BrokenGlass = z.infer<typeof BrokenGlass>;

/** The verdict is recorded once, and never computed again in replay. */
export const Verdict = z.discriminatedUnion('kind', [
  z.strictObject({
    kind: z.literal('allow'),
    rules: z.array(z.string()).min(1),
    /** Set if the call would have been asked. */
    breakGlass: BrokenGlass.optional(),
  }),
  z.strictObject({
    kind: z.literal('ask'),
    rules: z.array(z.string()).min(1),
    approvers: ApproverRule,
    deadlineSeconds: z.int().positive(),
    explain: z.array(Explanation).optional(),
    /** Who is told, if the rule says something else than `policy.notify`. */
    notify: z.array(NotifyRoute).optional(),
  }),
  z.strictObject({
    kind: z.literal('deny'),
    rules: z.array(z.string()).min(1),
    code: z.enum([
      'POLICY_DENIED',
      'TOOL_UNKNOWN',
      'ARGUMENTS_INVALID',
      'ARGUMENTS_TOO_LARGE',
      'LIMIT_REACHED',
      'TOOL_DISABLED',
      'TOOL_MISSING',
      'ORGANISATION_HALTED',
      'RESOURCE_NOT_LINKED',
    ]),
    message: z.string(),
  }),
]);
export type Verdict = z.infer<typeof Verdict>;

/** The judge activity's result for one call, in the order of the calls. */
export const Judgement = z.strictObject({
  callId: z.string(),
  verdict: Verdict,
  /** Absent if the name means no offered tool. */
  target: ToolTarget.optional(),
  /** True if the operator lets calls of this tool be sent twice. */
  repeatable: z.boolean(),
  /** For an asked call: the text that the approver reads, bounded. */
  description: z.string().optional(),
  annotations: ToolAnnotations.optional(),
  /** Places in the arguments that policy keeps out of lists and summaries. */
  redact: z.array(z.string()).optional(),
  /** Hash of how the catalog reaches the server; set if an approval may be remembered. */
  connection: Sha256Hex.optional(),
});
export type Judgement = z.infer<typeof Judgement>;

/** Result content of a tool (MCP spec, "Tool Result"). Binary content is in the artifact store, never in history. */
export const ResultPart = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('text'), text: z.string() }),
  z.strictObject({ type: z.literal('image'), mimeType: z.string(), artifact: ArtifactRef }),
  z.strictObject({ type: z.literal('audio'), mimeType: z.string(), artifact: ArtifactRef }),
  z.strictObject({
    type: z.literal('resource_link'),
    uri: z.string(),
    name: z.string(),
    mimeType: z.string().optional(),
    description: z.string().optional(),
  }),
  z.strictObject({
    type: z.literal('resource'),
    uri: z.string(),
    mimeType: z.string().optional(),
    text: z.string().optional(),
    artifact: ArtifactRef.optional(),
  }),
]);
export type ResultPart = z.infer<typeof ResultPart>;

/** Facts about the token of a call, never the token. */
export const TokenEvidence = z.strictObject({
  /** `none`, `given` (scope as given), or the kind of credentials that minted the token. */
  strategy: z.string(),
  issuer: z.string().optional(),
  jti: z.string().optional(),
  scopes: z.array(z.string()).optional(),
  expiresAt: z.string().optional(),
});
export type TokenEvidence = z.infer<typeof TokenEvidence>;

export const ToolResult = z.strictObject({
  content: z.array(ResultPart),
  structured: JsonValue.optional(),
  /** The whole result, if `content` is only a preview of it. */
  full: ArtifactRef.optional(),
  /** Oddities that lost nothing: a violated output schema, a dropped unknown content kind. */
  warnings: z.array(z.string()).optional(),
});
export type ToolResult = z.infer<typeof ToolResult>;

const code = z.string();
const message = z.string();
/** The equal call of an earlier turn whose refusal answers this one: nobody was asked again. */
const repeatOf = z.string().optional();
/** The person who recorded an unknown outcome: the words are theirs, not the tool's. */
const recordedBy = z.string().optional();

/** How a call ended. The model, the ledger and the caller tell the kinds apart. */
export const Outcome = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('succeeded'), result: ToolResult, recordedBy }),
  /** The tool ran and reported failure (`isError`), or the call was proven not to have run. */
  z.strictObject({
    kind: z.literal('failed'),
    code,
    message,
    executed: z.boolean(),
    result: ToolResult.optional(),
    recordedBy,
  }),
  z.strictObject({ kind: z.literal('denied'), code, message, repeatOf }),
  z.strictObject({ kind: z.literal('rejected'), by: z.string(), reason: z.string(), repeatOf }),
  z.strictObject({ kind: z.literal('expired'), deadline: z.string() }),
  z.strictObject({ kind: z.literal('cancelled'), reason: z.string() }),
  z.strictObject({ kind: z.literal('unknown'), code, message }),
  /** The call did not run: a person answered in the tool's place. */
  z.strictObject({ kind: z.literal('answered'), by: z.string(), answer: z.string() }),
]);
export type Outcome = z.infer<typeof Outcome>;
