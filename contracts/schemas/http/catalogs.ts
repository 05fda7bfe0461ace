/**
 * How HTTP carries what a catalog says and takes (`contracts/schemas/catalog.ts`).
 *
 * 1. No body names who sends it, and no path names a tenant: the token does.
 */
import { z } from 'zod';
import {
  CatalogConnect,
  CatalogConnection,
  CatalogDecision,
  CatalogDisconnect,
  CatalogRefresh,
  CatalogRight,
  CatalogStatus,
  FiledTool,
  PendingChange,
  RefreshReport,
  SetToolPolicies,
  ToolChange,
  ToolSetting,
} from '../catalog.ts';
import { HttpUrl, Identifier, JsonValue, Name, Sha256Hex } from '../json.ts';
import { ToolName } from '../policy.ts';
import { ToolDefinition } from '../tool.ts';

/** Numbers of tools, by what operators have set. A tool counts for each that is true of it. */
export const CatalogCounts = z.strictObject({
  tools: z.int(),
  /** Agents see them. */
  enabled: z.int(),
  /** Enabled, and each call waits for a person whatever other layers say: set so, or changed since somebody looked. */
  asking: z.int(),
  /** Enabled, and each call is refused. */
  denied: z.int(),
  /** The definition is not the one that an operator acknowledged. */
  changed: z.int(),
  missing: z.int(),
});
export type CatalogCounts = z.infer<typeof CatalogCounts>;

/** What the newest refresh that succeeded has changed. */
export const CatalogRefreshed = z.strictObject({
  refresh: z.int(),
  at: z.string(),
  added: z.array(z.string()),
  missing: z.array(z.string()),
  returned: z.array(z.string()),
  changed: z.array(z.strictObject({ tool: z.string(), before: Sha256Hex, after: Sha256Hex })),
});
export type CatalogRefreshed = z.infer<typeof CatalogRefreshed>;

export const CatalogRow = z.strictObject({
  server: z.string(),
  status: CatalogStatus,
  url: z.string().optional(),
  /** The version that a change must name. */
  version: z.int(),
  counts: CatalogCounts,
  waiting: z.int(),
  refreshing: z.boolean(),
  lastRefresh: RefreshReport.optional(),
});
export type CatalogRow = z.infer<typeof CatalogRow>;

export const CatalogPage = z.strictObject({
  catalogs: z.array(CatalogRow),
  /** Servers whose catalogs did not answer. */
  unread: z.array(z.string()),
});
export type CatalogPage = z.infer<typeof CatalogPage>;

/** What the organisation's policy and the catalog say of a call; a run's own policy may be stricter. */
export const ShownVerdict = z.strictObject({
  kind: z.enum(['allow', 'ask', 'deny']),
  /** The rules, or reasons, that say so. */
  rules: z.array(z.string()),
  /** Who may decide, in words; absent where nobody is asked. */
  approvers: z.string().optional(),
  deadlineSeconds: z.int().optional(),
});
export type ShownVerdict = z.infer<typeof ShownVerdict>;

export const CatalogTool = z.strictObject({
  /** As the server spells it. */
  name: z.string(),
  status: z.enum(['available', 'missing']),
  /** True if the definition is not the one that an operator acknowledged. */
  changed: z.boolean(),
  definition: Sha256Hex,
  acknowledged: Sha256Hex.optional(),
  setting: ToolSetting,
  /** Absent if it depends on definitions that could not be read. */
  verdict: ShownVerdict.optional(),
  firstSeen: z.string(),
  lastSeen: z.string(),
});
export type CatalogTool = z.infer<typeof CatalogTool>;

/** A change that waits, with the state before and after, and what the person who asks may say. */
export const ShownPending = PendingChange.omit({ signature: true, changes: true }).extend({
  changes: z.array(
    z.strictObject({
      change: ToolChange,
      /** Absent if the tool is not in the catalog any more. */
      before: ToolSetting.optional(),
      after: ToolSetting.optional(),
    }),
  ),
  offers: z.array(z.enum(['approve', 'reject'])),
});
export type ShownPending = z.infer<typeof ShownPending>;

/** Actions that the person who asks may take now. `loosen` and `tighten` are changes of tools. */
export const CatalogOffer = z.enum(['connect', 'disconnect', 'refresh', 'loosen', 'tighten']);
export type CatalogOffer = z.infer<typeof CatalogOffer>;

export const CatalogDetail = z.strictObject({
  ...CatalogRow.shape,
  tenant: z.string(),
  connection: CatalogConnection.optional(),
  /** Default for a tool without operator policy. */
  newTools: z.enum(['ask', 'strategy']),
  tools: z.array(CatalogTool),
  pending: z.array(ShownPending),
  /** Absent if no refresh has succeeded, or if many entries of the ledger have come since. */
  refreshed: CatalogRefreshed.optional(),
  ledger: z.strictObject({ length: z.int(), head: Sha256Hex }),
  /** Rights of the person who asks (`catalog.administrators`). */
  may: z.array(CatalogRight),
  offers: z.array(CatalogOffer),
});
export type CatalogDetail = z.infer<typeof CatalogDetail>;

export const CatalogToolDetail = z.strictObject({
  ...CatalogTool.shape,
  server: z.string(),
  /** Version of the catalog. */
  version: z.int(),
  definitions: z.strictObject({
    current: ToolDefinition,
    /** Absent if nobody has acknowledged one. */
    acknowledged: ToolDefinition.optional(),
  }),
  /** Fields of the definition that differ from the acknowledged one. */
  differences: z.array(z.strictObject({ path: z.string(), before: JsonValue.optional(), after: JsonValue.optional() })),
});
export type CatalogToolDetail = z.infer<typeof CatalogToolDetail>;

const message = { by: true } as const;
/** Default: the Idempotency-Key, else a random one. The same id with the same content counts once. */
const chosen = { requestId: Identifier.optional() };

export const ConnectBody = CatalogConnect.omit(message).extend({
  ...chosen,
  /** Default: the URL of the configured server of that name. */
  url: HttpUrl.max(2_048).optional(),
  /** Connects even if the last catalog of this name was ended from outside; its settings are lost. */
  anew: z.literal(true).optional(),
});
export type ConnectBody = z.infer<typeof ConnectBody>;
export const DisconnectBody = CatalogDisconnect.omit(message).extend(chosen);
export type DisconnectBody = z.infer<typeof DisconnectBody>;
export const RefreshBody = CatalogRefresh.omit(message).extend(chosen);
export type RefreshBody = z.infer<typeof RefreshBody>;
export const SetToolsBody = SetToolPolicies.omit(message).extend(chosen);
export type SetToolsBody = z.infer<typeof SetToolsBody>;
export const ChangeDecisionBody = CatalogDecision.omit({ ...message, changeId: true }).extend(chosen);
export type ChangeDecisionBody = z.infer<typeof ChangeDecisionBody>;

export const ImportBody = z.strictObject({
  ...chosen,
  /** As `tools` of an exported file. Tools that are not named stay as they are. */
  tools: z.record(ToolName, FiledTool),
  /** Default: the version of now. */
  expectedVersion: z.int().min(0).optional(),
  /** Says what would change, and changes nothing. */
  plan: z.literal(true).optional(),
});
export type ImportBody = z.infer<typeof ImportBody>;

export const ImportAnswer = z.strictObject({
  /** `unchanged`: the catalog already is as the file says. */
  status: z.enum(['planned', 'unchanged', 'applied', 'waiting']),
  policyVersion: z.int(),
  changeId: z.string().optional(),
  tools: z.array(z.strictObject({ change: ToolChange, before: ToolSetting, after: ToolSetting })),
  /** Tools that would be loosened although they have changed since the file was written. */
  refused: z.array(z.string()),
  /** Tools that have changed since the file was written, and are not loosened. */
  outdated: z.array(z.string()),
  /** Names of the file that the catalog does not have. */
  unknown: z.array(z.string()),
});
export type ImportAnswer = z.infer<typeof ImportAnswer>;

export const CatalogPath = z.strictObject({ server: Name });
export const CatalogToolPath = z.strictObject({ server: Name, tool: ToolName });
export const ChangePath = z.strictObject({ server: Name, changeId: Identifier });
