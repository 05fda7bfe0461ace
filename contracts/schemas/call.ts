/** A proposed tool call, what policy says of it, and how it ended. */
import { z } from 'zod';
import { ArtifactRef, JsonObject, JsonValue, Sha256Hex } from './json.ts';
import { ApproverRule, ToolName } from './policy.ts';
import { ToolAnnotations } from './tool.ts';

/** As the model proposed it. `providerCallId` is kept to answer the provider and never used as a key. */
export const ProposedCall = z.strictObject({
  callId: z.string(),
  providerCallId: z.string(),
  /** The name the model saw. */
  name: z.string(),
  arguments: JsonObject,
  /** Set where the model's arguments were no JSON object; holds the reason. */
  malformed: z.string().optional(),
});
export type ProposedCall = z.infer<typeof ProposedCall>;

/** A call resolved to the tool it means. */
export const ToolTarget = z.strictObject({
  server: z.string(),
  serverUrl: z.string(),
  tool: ToolName,
  definitionHash: Sha256Hex,
});
export type ToolTarget = z.infer<typeof ToolTarget>;

/** Why, in the words of whoever wrote the rule. */
export const Explanation = z.strictObject({ rule: z.string(), text: z.string() });
export type Explanation = z.infer<typeof Explanation>;

/** Which rule let a call pass that would have been asked, why, and until when it does. */
export const BrokenGlass = z.strictObject({ rule: z.string(), reason: z.string(), until: z.string() });
export type BrokenGlass = z.infer<typeof BrokenGlass>;

/** Recorded once; never computed again in replay. */
export const Verdict = z.discriminatedUnion('kind', [
  z.strictObject({
    kind: z.literal('allow'),
    rules: z.array(z.string()).min(1),
    /** It would have been asked. */
    breakGlass: BrokenGlass.optional(),
  }),
  z.strictObject({
    kind: z.literal('ask'),
    rules: z.array(z.string()).min(1),
    approvers: ApproverRule,
    deadlineSeconds: z.int().positive(),
    explain: z.array(Explanation).optional(),
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

/** What the judge activity returns for one call, in the order of the calls. */
export const Judgement = z.strictObject({
  callId: z.string(),
  verdict: Verdict,
  /** Absent where the name means no offered tool. */
  target: ToolTarget.optional(),
  /** May a call of this tool be sent twice, by the operator's word? */
  repeatable: z.boolean(),
  /** Of an asked call: what the approver reads, bounded. */
  description: z.string().optional(),
  annotations: ToolAnnotations.optional(),
  /** Places in the arguments that policy keeps out of what is shown in passing. */
  redact: z.array(z.string()).optional(),
  /** Where an approval may be remembered, and the server stands in a catalog: hash of how the catalog reaches it. */
  connection: Sha256Hex.optional(),
});
export type Judgement = z.infer<typeof Judgement>;

/** Result content of a tool (MCP spec, server/tools "Tool Result"). Binary stands in the artifact store, never in history. */
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

/** What is known of the token a call was made with. Never the token. */
export const TokenEvidence = z.strictObject({
  /** `none`, `given` (scope as given), or the kind of credentials that it was minted by. */
  strategy: z.string(),
  issuer: z.string().optional(),
  jti: z.string().optional(),
  scopes: z.array(z.string()).optional(),
  expiresAt: z.string().optional(),
});
export type TokenEvidence = z.infer<typeof TokenEvidence>;

/** What a server answered. */
export const ToolResult = z.strictObject({
  content: z.array(ResultPart),
  structured: JsonValue.optional(),
  /** The whole result, where `content` is only a preview of it. */
  full: ArtifactRef.optional(),
  /** What was odd but lost nothing: a violated output schema, a dropped unknown content kind. */
  warnings: z.array(z.string()).optional(),
});
export type ToolResult = z.infer<typeof ToolResult>;

const code = z.string();
const message = z.string();
/** The call of an earlier turn, the same as this one, whose refusal answers it: nobody was asked again. */
const repeatOf = z.string().optional();
/** Nobody knew what became of the call, and this person has said it: the words are theirs, not the tool's. */
const recordedBy = z.string().optional();

/** How a call ended. Each kind is told apart for the model, the ledger and the caller. */
export const Outcome = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('succeeded'), result: ToolResult, recordedBy }),
  /** The tool ran and said that it failed (`isError`), or it was proven not to have run. */
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
  /** It may or may not have run. */
  z.strictObject({ kind: z.literal('unknown'), code, message }),
  /** Not run: a person answered in the tool's place. */
  z.strictObject({ kind: z.literal('answered'), by: z.string(), answer: z.string() }),
]);
export type Outcome = z.infer<typeof Outcome>;
