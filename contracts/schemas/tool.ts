/** Tools as a server lists them, pinned by hash when a run starts. */
import { z } from 'zod';
import { ArtifactRef, JsonObject, Name, Sha256Hex } from './json.ts';
import { ToolName } from './policy.ts';

/** MCP `ToolAnnotations` (spec 2026-07-28, server/tools). Hints of the server, not facts: kept as sent, whatever their type. */
export const ToolAnnotations = JsonObject;
export type ToolAnnotations = z.infer<typeof ToolAnnotations>;

/** What the hash covers: all that a person or a model reads before a call. */
export const ToolDefinition = z.strictObject({
  name: ToolName,
  title: z.string().optional(),
  description: z.string().optional(),
  inputSchema: JsonObject,
  outputSchema: JsonObject.optional(),
  annotations: ToolAnnotations.optional(),
  /** It can only, or may be, called as a task (MCP 2025-11-25 `execution.taskSupport`); where its server takes tasks. */
  taskSupport: z.enum(['required', 'optional']).optional(),
});
export type ToolDefinition = z.infer<typeof ToolDefinition>;

/** One server's tools, stored as an artifact by the discovery activity. */
export const ServerTools = z.strictObject({
  server: Name,
  /** Canonical server URL (RFC 8707 resource). */
  serverUrl: z.string(),
  tools: z.array(z.strictObject({ definition: ToolDefinition, hash: Sha256Hex })),
  /** Refreshes that the catalog of the server had made before it was listed; absent where it has none. */
  catalogRefreshes: z.int().optional(),
});
export type ServerTools = z.infer<typeof ServerTools>;

/** A tool that cannot be offered, and why. */
export const RefusedTool = z.strictObject({ name: z.string(), reason: z.string() });
export type RefusedTool = z.infer<typeof RefusedTool>;

/** What discovery gives the workflow: small, whatever the size of the catalog. */
export const Discovery = z.strictObject({
  server: Name,
  tools: ArtifactRef,
  count: z.int(),
  refused: z.array(RefusedTool).max(50),
  /** Of `allowedTools`, what the server does not have; and names of its own that may be meant. */
  missing: z
    .array(z.strictObject({ name: z.string(), near: z.array(z.string()) }))
    .max(20)
    .optional(),
  /** When the grant with which it was listed ends, where that is known. */
  grantExpiresAt: z.string().optional(),
});
export type Discovery = z.infer<typeof Discovery>;

/** A server of the run with all that configuration says of it. */
export const ServerBinding = z.strictObject({
  name: Name,
  url: z.string(),
  /** Queue whose workers hold this server's credentials; the run's own queue where absent. */
  taskQueue: z.string().optional(),
  allowedTools: z.array(ToolName).optional(),
  /** Set where the server stands in a catalog of the run's tenant: without that catalog nothing is sent. */
  catalog: z.literal(true).optional(),
  /** For so long in all a call of it may wait for people on its open connection. Absent: not at all, or bound by an earlier release. */
  holdSeconds: z.int().optional(),
  /** For so long the run waits for its list of tools. Absent: until the run's own time is over. */
  startWaitSeconds: z.int().optional(),
});
export type ServerBinding = z.infer<typeof ServerBinding>;
