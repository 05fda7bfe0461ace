/** Shapes that the gateway tells of a run beside its state: conversation, end, artifacts, verdicts of policy. */
import { z } from 'zod';
import { Verdict } from '../call.ts';
import { Identifier, Instant, JsonObject, Name, Sha256Hex } from '../json.ts';
import { Policy, ToolName } from '../policy.ts';
import { COUNTED, RunResult } from '../run-state.ts';
import { ToolAnnotations } from '../tool.ts';
import { Message } from '../transcript.ts';
import { MOST_NUMBER, RunId } from '../http-api.ts';

export const ArtifactPath = z.strictObject({ runId: RunId, sha256: Sha256Hex });

export const MessagesQuery = z.strictObject({
  /** Number of the first message. */
  from: z.coerce.number().int().min(0).max(MOST_NUMBER).default(0),
  most: z.coerce.number().int().min(1).max(200).default(50),
});
export const MessagePage = z.strictObject({
  /** Without what the person who asks may not see. */
  messages: z.array(Message),
  /** Number of the message after the last one that was looked at; absent at the end. */
  next: z.int().optional(),
});
export type MessagePage = z.infer<typeof MessagePage>;

export const ResultQuery = z.strictObject({
  /** Time for which the answer waits for the end. */
  waitSeconds: z.coerce.number().int().min(1).max(30).default(1),
});
export const RunEnd = z.strictObject({
  ended: z.boolean(),
  result: RunResult.optional(),
  failure: z.strictObject({ code: z.string(), message: z.string() }).optional(),
});
export type RunEnd = z.infer<typeof RunEnd>;

/** A call to be judged as the organisation's policy would judge it; who asks is who starts the run, if not said. */
export const ExplainBody = z.strictObject({
  server: Name,
  /** As its server spells it. */
  tool: ToolName,
  /** The server's annotations of the tool; they count only for servers that the operator trusts. */
  annotations: ToolAnnotations.optional(),
  initiator: Identifier.optional(),
  /** Default: the groups of who asks, if that is who starts the run. */
  initiatorGroups: z.array(Identifier).max(100).optional(),
  args: JsonObject.default({}),
  turn: z.int().min(1).default(1),
  /** Time of judging; absent means now. */
  at: Instant.optional(),
  /** Outcomes of earlier calls: `server/tool` → kind → count. */
  earlier: z.record(z.string(), z.partialRecord(z.enum(COUNTED), z.int().min(0))).default({}),
  run: Policy.optional(),
});
export type ExplainBody = z.infer<typeof ExplainBody>;

export const Explained = z.strictObject({
  server: z.string(),
  tool: z.string(),
  /** Without the catalog, which may be stricter. */
  verdict: Verdict,
  layers: z.array(
    z.strictObject({
      layer: z.enum(['organisation', 'run']),
      /** The rules about the tool, up to the one that decides. */
      considered: z.array(
        z.strictObject({
          rule: z.string(),
          action: z.string(),
          condition: z.string().optional(),
          holds: z.union([z.boolean(), z.enum(['failed', 'unknown'])]),
          decides: z.boolean(),
        }),
      ),
    }),
  ),
});
export type Explained = z.infer<typeof Explained>;
