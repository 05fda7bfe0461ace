/** The activities of a catalog, as interfaces; inputs are written into history (INV-S1). */
import type { ErrorCode, ErrorFacts } from '../errors.ts';
import type { Approver } from '../schemas/answer.ts';
import type { CatalogConnection, CatalogRules, ToolSetting } from '../schemas/catalog.ts';
import type { ArtifactRef } from '../schemas/json.ts';
import type { RefusedTool } from '../schemas/tool.ts';
import type { CatalogPurpose, CatalogTrust } from '../schemas/trust.ts';

export interface CatalogIdentity {
  readonly tenant: string;
  readonly server: string;
}

/** What a catalog is begun with. */
export interface CatalogBeginning extends CatalogIdentity {
  /** By somebody with a key: from its first event on it believes only what a key of the zone proves (docs/adr/0047). */
  readonly signed?: true;
}

/** What somebody wants of a catalog: whether this deployment can honour it is for the activity to say. */
export interface ReviewInput extends CatalogIdentity {
  readonly by: Approver;
  readonly connection?: CatalogConnection;
  /** Settings as they would be, and as they are. */
  readonly settings?: readonly {
    readonly tool: string;
    readonly setting: ToolSetting;
    readonly before: ToolSetting;
  }[];
  /** In trust mode `signed`: what the message came with. */
  readonly signed?: SignedChange;
  /** Hash of the trust set that the catalog holds; the same one is not told again. */
  readonly trustHash?: string;
}

/** A signed message of a catalog, as far as it is proven again. */
export interface SignedChange {
  readonly purpose: CatalogPurpose;
  readonly requestId: string;
  /** sha256 over the canonical JSON of the message without its signature. */
  readonly payload: string;
  readonly signature: string;
  /** Of an agreement: who asked for the change. */
  readonly asked?: { readonly by: Approver; readonly signature?: string };
}

export interface Review {
  readonly rules: CatalogRules;
  /** Why later runs could not honour it; a setting that only takes away is never objected to. */
  readonly objections: readonly { readonly path: string; readonly reason: string }[];
  /** On which the server is reached, where the configuration says so. */
  readonly taskQueue?: string;
  /** In trust mode `signed`, also where nothing was proven: from then on the catalog verifies by itself. */
  readonly trust?: CatalogTrust | 'unchanged';
  /** In trust mode `signed`: why the message is not believed. Nothing else of this answer counts then. */
  readonly unproven?: { readonly code: ErrorCode; readonly message: string; readonly facts: ErrorFacts };
}

export interface DiscoverCatalogInput extends CatalogIdentity {
  readonly connection: CatalogConnection;
}

export interface CatalogDiscovery {
  readonly listing: ArtifactRef;
  readonly tools: readonly { readonly name: string; readonly hash: string }[];
  readonly refused: readonly RefusedTool[];
}

/** On the queue of catalogs, which is that of runs. */
export interface CatalogActivities {
  /** By the configuration as it is now. */
  reviewChange(input: ReviewInput): Promise<Review>;
}
