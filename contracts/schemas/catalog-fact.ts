/** What a catalog's ledger records: the same chain as a run's, with facts of its own. */
import { z } from 'zod';
import { CatalogConnection, ToolSetting } from './catalog.ts';
import { Approver } from './decision.ts';
import { Sha256Hex } from './json.ts';
import { SignatureEvidence } from './trust.ts';

const by = Approver;
/** Of the JWS that the message of `by` came with, in trust mode `signed`. */
const signature = SignatureEvidence.optional();

export const CATALOG_FACTS = [
  z.strictObject({
    kind: z.literal('catalog.connected'),
    tenant: z.string(),
    server: z.string(),
    by,
    connection: CatalogConnection,
    policyVersion: z.int(),
    signature,
  }),
  z.strictObject({ kind: z.literal('catalog.disconnected'), by, policyVersion: z.int(), signature }),
  z.strictObject({
    kind: z.literal('catalog.refreshed'),
    refresh: z.int(),
    count: z.int(),
    listing: Sha256Hex,
    added: z.array(z.string()),
    missing: z.array(z.string()),
    returned: z.array(z.string()),
    /** Tools whose definition changed. */
    changed: z.array(z.strictObject({ tool: z.string(), before: Sha256Hex, after: Sha256Hex })),
    refused: z.array(z.string()),
  }),
  z.strictObject({
    kind: z.literal('catalog.refresh-failed'),
    refresh: z.int(),
    code: z.string(),
    message: z.string(),
  }),
  z.strictObject({
    kind: z.literal('catalog.policy'),
    by,
    /** Who agreed, where a second administrator had to. */
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
    /** Of whoever agreed. */
    countersignature: SignatureEvidence.optional(),
  }),
  z.strictObject({
    kind: z.literal('catalog.change-opened'),
    changeId: z.string(),
    digest: Sha256Hex,
    by,
    deadline: z.string(),
    signature,
  }),
  z.strictObject({
    kind: z.literal('catalog.change-closed'),
    changeId: z.string(),
    by,
    status: z.enum(['approved', 'rejected', 'expired', 'outdated']),
    signature,
  }),
  z.strictObject({ kind: z.literal('catalog.rolled') }),
] as const;
