/** A catalog holds the tools of one MCP server for one tenant: its entries, messages, rules, files and ledger facts. */
import { z } from 'zod';
import { Approver } from './request.ts';
import { ArtifactRef, Identifier, Instant, Name, Sha256Hex } from './json.ts';
import { DeadlineSeconds, PlainApproverList, ToolName } from './policy.ts';
import { RefusedTool } from './tool.ts';
import { SignatureEvidence } from './trust.ts';

/** A tool's policy. Operators own it, and discovery never touches it. */
export const ToolSetting = z.strictObject({
  /** True if agents see and may call the tool. */
  enabled: z.boolean(),
  /** True if a person must countersign each call, whatever the other layers say. */
  requiresApproval: z.boolean(),
  /** True if the tool is offered, but every call of it is refused. */
  denied: z.boolean(),
  approvers: PlainApproverList.optional(),
  deadlineSeconds: DeadlineSeconds.optional(),
});
export type ToolSetting = z.infer<typeof ToolSetting>;

/** A definition by hash, and the refresh whose listing holds it. */
export const SeenDefinition = z.strictObject({ hash: Sha256Hex, refresh: z.int() });
export type SeenDefinition = z.infer<typeof SeenDefinition>;

export const CatalogEntry = z.strictObject({
  /** Name as the server spells it. */
  name: ToolName,
  status: z.enum(['available', 'missing']),
  definition: SeenDefinition,
  /** The definition that an operator acknowledged; if it differs from `definition`, the tool has drifted. */
  acknowledged: SeenDefinition.optional(),
  setting: ToolSetting,
  /** Set once operators have set a policy: such an entry is never dropped. */
  spokenOf: z.literal(true).optional(),
  firstSeen: Instant,
  lastSeen: Instant,
});
export type CatalogEntry = z.infer<typeof CatalogEntry>;

export const CatalogConnection = z.strictObject({
  /** Canonical server URL, without invisible characters, and without anything that two parsers read as two hosts. */
  url: z
    .string()
    .max(2_048)
    .regex(
      /^[Hh][Tt][Tt][Pp][Ss]?:\/\/(?:\[[0-9A-Fa-f:.]+\]|[^\s\\/?#@%<>^|:[\]\p{C}]+)(?::[0-9]{1,5})?(?:[/?][^\s\\#\p{C}]*)?$/u,
      'must be an http or https URL without user name, password and fragment',
    ),
  /** Name of an entry of `credentials` in the workers' configuration; without it a run's own grant is used, or none. */
  credentials: Name.optional(),
  /** True if the server's annotations may exempt a call from asking. */
  trusted: z.boolean(),
  /** Queue whose workers may reach the server; absent means the catalog's own. */
  taskQueue: Name.optional(),
});
export type CatalogConnection = z.infer<typeof CatalogConnection>;

export const CatalogStatus = z.enum(['new', 'connected', 'disconnected']);
export type CatalogStatus = z.infer<typeof CatalogStatus>;

/** Result of the newest refresh. A failed one has changed nothing else. */
export const RefreshReport = z.strictObject({
  refresh: z.int(),
  at: Instant,
  ok: z.boolean(),
  code: z.string().optional(),
  message: z.string().optional(),
  /** Tools that the server lists and that cannot be offered. */
  refused: z.array(RefusedTool).max(50),
});
export type RefreshReport = z.infer<typeof RefreshReport>;

/** A change of one tool's policy. An absent field stays as it is; null removes a rule. */
export const ToolChange = z.strictObject({
  tool: ToolName,
  enabled: z.boolean().optional(),
  requiresApproval: z.boolean().optional(),
  denied: z.boolean().optional(),
  approvers: PlainApproverList.nullable().optional(),
  deadlineSeconds: DeadlineSeconds.nullable().optional(),
  /** Hash of the definition that the operator has read. */
  acknowledge: Sha256Hex.optional(),
});
export type ToolChange = z.infer<typeof ToolChange>;

/** A loosening that waits for a second administrator. */
export const PendingChange = z.strictObject({
  changeId: z.string(),
  /** Covers the change with the state before and after: the second administrator consents to it. */
  digest: Sha256Hex,
  by: Approver,
  openedAt: Instant,
  deadline: Instant,
  trusted: z.boolean().optional(),
  changes: z.array(ToolChange),
  /** In trust mode `signed`: the first signature. The second must be by another key, and this one must still count. */
  signature: z.string().optional(),
});
export type PendingChange = z.infer<typeof PendingChange>;

/** Answer of the `snapshot` query: the whole catalog at one moment. Definitions are in the listings. */
export const CatalogSnapshot = z.strictObject({
  tenant: Identifier,
  server: Name,
  status: CatalogStatus,
  connection: CatalogConnection.optional(),
  /** Grows with every visible change. */
  revision: z.int(),
  /** Names this state and no other, also after a reset or a new start. Pollers send it back, and get only changes. */
  mark: z.string(),
  /** Grows with every change of policy and connection, and not with a refresh. */
  policyVersion: z.int(),
  /** Number of refreshes asked for; the newest that ended is in `lastRefresh`. */
  refreshes: z.int(),
  lastRefresh: RefreshReport.optional(),
  /** Default for a tool without operator policy. */
  newTools: z.enum(['ask', 'strategy']),
  entries: z.array(CatalogEntry),
  /** Number of a refresh → the server's tools at that refresh (`ServerTools`). */
  listings: z.record(z.string(), ArtifactRef),
  pending: z.array(PendingChange),
  ledgerLength: z.int(),
  ledgerHead: Sha256Hex,
  /** Set if the catalog accepts signed messages only; signatures name this Temporal run. */
  signing: z.strictObject({ runId: z.string() }).optional(),
});
export type CatalogSnapshot = z.infer<typeof CatalogSnapshot>;

/** Answer for a poller that knows this state already. */
export const CatalogUnchanged = z.strictObject({ unchanged: z.literal(true), mark: z.string() });
export type CatalogUnchanged = z.infer<typeof CatalogUnchanged>;

const message = {
  /** Chosen by the sender, also used as Temporal's update id: a resent message gets its first answer. */
  requestId: Identifier,
  by: Approver,
};

export const CatalogConnect = z.strictObject({
  ...message,
  ...CatalogConnection.shape,
  trusted: z.boolean().default(false),
  /** For an existing catalog: the version that the administrator read. */
  expectedVersion: z.int().min(0).optional(),
});
export type CatalogConnect = z.infer<typeof CatalogConnect>;
export type CatalogConnectInput = z.input<typeof CatalogConnect>;

export const CatalogRefresh = z.strictObject(message);
export type CatalogRefresh = z.infer<typeof CatalogRefresh>;
export type CatalogRefreshInput = z.input<typeof CatalogRefresh>;

export const MOST_TOOL_CHANGES = 1_000;

export const SetToolPolicies = z.strictObject({
  ...message,
  expectedVersion: z.int().min(0),
  changes: z.array(ToolChange).min(1).max(MOST_TOOL_CHANGES),
});
export type SetToolPolicies = z.infer<typeof SetToolPolicies>;
export type SetToolPoliciesInput = z.input<typeof SetToolPolicies>;

export const CatalogDisconnect = z.strictObject({ ...message, expectedVersion: z.int().min(0) });
export type CatalogDisconnect = z.infer<typeof CatalogDisconnect>;
export type CatalogDisconnectInput = z.input<typeof CatalogDisconnect>;

export const CatalogDecision = z.strictObject({
  ...message,
  changeId: Identifier,
  digest: Sha256Hex,
  verdict: z.enum(['approve', 'reject']),
});
export type CatalogDecision = z.infer<typeof CatalogDecision>;
export type CatalogDecisionInput = z.input<typeof CatalogDecision>;

/** A catalog's acknowledgement of any message. */
export const CatalogAck = z.strictObject({
  requestId: z.string(),
  /** `waiting`: a second administrator must agree first (`changeId`). */
  status: z.enum(['applied', 'waiting']),
  policyVersion: z.int(),
  refresh: z.int().optional(),
  changeId: z.string().optional(),
});
export type CatalogAck = z.infer<typeof CatalogAck>;

export const CatalogRight = z.enum(['connect', 'loosen', 'tighten']);
export type CatalogRight = z.infer<typeof CatalogRight>;

/** The configured rules for one tenant's catalogs; an activity brings them to the catalog for each change. */
export const CatalogRules = z.strictObject({
  administrators: z.array(
    z.strictObject({ ids: z.array(Identifier), groups: z.array(Identifier), may: z.array(CatalogRight) }),
  ),
  newTools: z.enum(['ask', 'strategy']),
  loosening: z.enum(['allow', 'countersign']),
  idCase: z.literal('ignored').optional(),
});
export type CatalogRules = z.infer<typeof CatalogRules>;

// People review and import a catalog as a file.

/** The whole policy of a tool: an absent field is not set. */
export const FiledTool = z.strictObject({
  ...ToolSetting.shape,
  /** Hash of the definition that an operator acknowledged. */
  definition: Sha256Hex.optional(),
});
export type FiledTool = z.infer<typeof FiledTool>;

export const CatalogFile = z.strictObject({
  tenant: Identifier,
  server: Name,
  version: z.int().min(0),
  /** Only for readers: a file changes tools only. The connection names credentials, and holds none. */
  connection: CatalogConnection.optional(),
  tools: z.record(ToolName, FiledTool),
});
export type CatalogFile = z.infer<typeof CatalogFile>;

/** The older shape: a plain list, with less about a tool and nothing about its server. */
export const ToolList = z.array(
  z.strictObject({
    name: ToolName,
    description: z.string().nullish(),
    enabled: z.boolean().default(true),
    requires_approval: z.boolean().default(false),
    /** The tool's status at that time; a refresh updates it. */
    status: z.enum(['available', 'missing']).default('available'),
  }),
);
export type ToolList = z.infer<typeof ToolList>;

// A catalog's ledger is the same kind of chain as a run's, with these facts.

export const fact = <Kind extends string, Shape extends z.core.$ZodLooseShape>(kind: Kind, shape: Shape) =>
  z.strictObject({ kind: z.literal(kind), ...shape });

const by = Approver;
const signature = SignatureEvidence.optional();

export const CATALOG_FACTS = [
  fact('catalog.connected', {
    tenant: z.string(),
    server: z.string(),
    by,
    connection: CatalogConnection,
    policyVersion: z.int(),
    signature,
  }),
  fact('catalog.disconnected', { by, policyVersion: z.int(), signature }),
  fact('catalog.refreshed', {
    refresh: z.int(),
    count: z.int(),
    listing: Sha256Hex,
    added: z.array(z.string()),
    missing: z.array(z.string()),
    returned: z.array(z.string()),
    changed: z.array(z.strictObject({ tool: z.string(), before: Sha256Hex, after: Sha256Hex })),
    refused: z.array(z.string()),
  }),
  fact('catalog.refresh-failed', {
    refresh: z.int(),
    code: z.string(),
    message: z.string(),
  }),
  fact('catalog.policy', {
    by,
    /** The second administrator, if one had to agree. */
    countersignedBy: Approver.optional(),
    policyVersion: z.int(),
    trusted: z.boolean().optional(),
    changes: z.array(
      z.strictObject({
        tool: z.string(),
        before: ToolSetting,
        after: ToolSetting,
        acknowledged: Sha256Hex.optional(),
      }),
    ),
    signature,
    countersignature: SignatureEvidence.optional(),
  }),
  fact('catalog.change-opened', {
    changeId: z.string(),
    digest: Sha256Hex,
    by,
    deadline: z.string(),
    signature,
  }),
  fact('catalog.change-closed', {
    changeId: z.string(),
    by,
    status: z.enum(['approved', 'rejected', 'expired', 'outdated']),
    signature,
  }),
  fact('catalog.rolled', {}),
] as const;
