/** Tools have these shapes as a server lists them; a run pins them by hash when it starts. */
import { z } from 'zod';
import { ArtifactRef, JsonObject, Name, Sha256Hex } from './json.ts';
import { ToolName } from './policy.ts';

/** MCP `ToolAnnotations` (2026-07-28, server/tools). Hints, not facts: kept as sent, whatever their type. */
export const ToolAnnotations = JsonObject;
export type ToolAnnotations = z.infer<typeof ToolAnnotations>;

/** The hashed definition: all that a person or a model reads before a call. */
export const ToolDefinition = z.strictObject({
  name: ToolName,
  title: z.string().optional(),
  description: z.string().optional(),
  inputSchema: JsonObject,
  outputSchema: JsonObject.optional(),
  annotations: ToolAnnotations.optional(),
  /** Set if the tool must or may be called as a task (MCP 2025-11-25), and its server takes tasks. */
  taskSupport: z.enum(['required', 'optional']).optional(),
});
export type ToolDefinition = z.infer<typeof ToolDefinition>;

/** The provider of this model calls the server, not this service (docs/adr/0080). */
export const HostedBy = z.strictObject({
  model: Name,
  /** The provider's own connector, in place of the URL. */
  connectorId: z.string().optional(),
  /** The address of the provider, if it is not the provider's own. */
  baseUrl: z.string().optional(),
});
export type HostedBy = z.infer<typeof HostedBy>;

/** One server's tools, stored as an artifact by the discovery activity. */
export const ServerTools = z.strictObject({
  server: Name,
  /** Canonical server URL (RFC 8707 resource). */
  serverUrl: z.string(),
  tools: z.array(z.strictObject({ definition: ToolDefinition, hash: Sha256Hex })),
  /** Number of refreshes of the server's catalog before the listing; absent if there is no catalog. */
  catalogRefreshes: z.int().optional(),
  /** Hash of how the server was reached: address, kind of credentials and their settings, and no secret. */
  reachedBy: Sha256Hex.optional(),
  hosted: HostedBy.optional(),
});
export type ServerTools = z.infer<typeof ServerTools>;

export const RefusedTool = z.strictObject({ name: z.string(), reason: z.string() });
export type RefusedTool = z.infer<typeof RefusedTool>;

/** Result of discovery for the workflow: small, whatever the size of the catalog. */
export const Discovery = z.strictObject({
  server: Name,
  tools: ArtifactRef,
  count: z.int(),
  refused: z.array(RefusedTool).max(50),
  /** Tools of `allowedTools` that the server does not have, with similar names that it has. */
  missing: z
    .array(z.strictObject({ name: z.string(), near: z.array(z.string()) }))
    .max(20)
    .optional(),
  grantExpiresAt: z.string().optional(),
});
export type Discovery = z.infer<typeof Discovery>;

export const ServerBinding = z.strictObject({
  name: Name,
  url: z.string(),
  /** Queue whose workers hold this server's credentials; absent means the run's own queue. */
  taskQueue: z.string().optional(),
  allowedTools: z.array(ToolName).optional(),
  /** Set if the server is in a catalog of the run's tenant: without that catalog nothing is sent. */
  catalog: z.literal(true).optional(),
  /** Total time for which a call may wait for people on its open connection. Absent: none. */
  holdSeconds: z.int().optional(),
  /** Time for which the run waits for the list of tools. Absent: until the run's own time is over. */
  startWaitSeconds: z.int().optional(),
  /** Name of the model whose provider calls the server. Absent: this service calls it. */
  hosted: Name.optional(),
});
export type ServerBinding = z.infer<typeof ServerBinding>;
