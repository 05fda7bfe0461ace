/** Activities of a catalog have these interfaces. Their inputs are written into history (INV-S1). */
import type { ErrorCode, ErrorFacts } from '../errors.ts';
import type { Approver } from '../schemas/request.ts';
import type { CatalogConnection, CatalogRules, ToolSetting } from '../schemas/catalog.ts';
import type { ArtifactRef } from '../schemas/json.ts';
import type { RefusedTool } from '../schemas/tool.ts';
import type { CatalogPurpose, CatalogTrust } from '../schemas/trust.ts';

export interface CatalogIdentity {
  readonly tenant: string;
  readonly server: string;
}

export interface CatalogBeginning extends CatalogIdentity {
  /** Made by somebody with a key: from its first event on it believes only what is proven (docs/adr/0047). */
  readonly signed?: true;
}

/** A wish of an administrator; the activity says which parts this deployment cannot honour. */
export interface ReviewInput extends CatalogIdentity {
  readonly by: Approver;
  readonly connection?: CatalogConnection;
  /** Settings after the change, and before it. */
  readonly settings?: readonly {
    readonly tool: string;
    readonly setting: ToolSetting;
    readonly before: ToolSetting;
  }[];
  readonly signed?: SignedChange;
  /** Hash of the trust set that the catalog holds; the same set is not returned again. */
  readonly trustHash?: string;
}

/** The parts of a signed message that a worker verifies again. */
export interface SignedChange {
  readonly purpose: CatalogPurpose;
  readonly requestId: string;
  /** sha256 over the canonical JSON of the message without its signature. */
  readonly payload: string;
  readonly signature: string;
  /** For an agreement: who asked for the change. */
  readonly asked?: { readonly by: Approver; readonly signature?: string };
}

export interface Review {
  readonly rules: CatalogRules;
  /** Parts that later runs could not honour, with the reason. A setting that only tightens is never objected to. */
  readonly objections: readonly { readonly path: string; readonly reason: string }[];
  /** Queue whose workers reach the server, if the configuration names one. */
  readonly taskQueue?: string;
  /** Only in trust mode `signed`, also for an unproven message: from then on the catalog verifies by itself. */
  readonly trust?: CatalogTrust | 'unchanged';
  /** Only in trust mode `signed`: why the message is not believed. The other fields then do not count. */
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

/** Runs on the queue of catalogs, which is that of runs. */
export interface CatalogActivities {
  /** Answers by the configuration of the moment. */
  reviewChange(input: ReviewInput): Promise<Review>;
}
