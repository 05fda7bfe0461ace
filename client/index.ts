/** The public surface of the library: everything that a backend imports. */
export { CountersignError, type ErrorCode } from '../contracts/errors.ts';
export type { CatalogAck, CatalogSnapshot, RefreshReport, ToolChange } from '../contracts/schemas/catalog.ts';
export type { DecisionAck, DecisionInput } from '../contracts/schemas/request.ts';
export type { CallProgress, Retry } from './run/progress.ts';
export type { OpenedRequest, RunEvent } from '../contracts/schemas/http/opened-request.ts';
export type { LedgerEntry } from '../contracts/schemas/ledger.ts';
export type { ApprovalRequest } from '../contracts/schemas/request.ts';
export type { CallSpecInput, RunSpecInput } from '../contracts/schemas/run-spec.ts';
export type { CallAnswer, RunResult, RunState } from '../contracts/schemas/run-state.ts';
export { visible } from '../domain/text/escape.ts';
export { shownArguments } from '../domain/policy/redaction.ts';
export { maySee, type Permission, permittedTo } from '../domain/request/permitted.ts';
export type { BucketInput } from '../contracts/schemas/stores.ts';
export { readArtifactsFrom, readArtifactsFromBucket } from './artifacts/readers.ts';
export type { KnownDefinitions } from './catalog/list.ts';
export type { MissingTool } from './run/start-run.ts';
export { CatalogHandle } from './catalog/catalog-handle.ts';
export {
  Deployment,
  type DeploymentOptions,
  type DeploymentStatus,
  type LeftBuild,
  type RolledBack,
  type Routed,
} from './deploy/deployment.ts';
export type { Drained, DrainOptions } from './deploy/drain.ts';
export type { Watched, WatchOptions } from './deploy/watch.ts';
export { Countersign, type CountersignOptions } from './countersign.ts';
export type { BatchAnswer, Inbox } from './run/inbox.ts';
export { type EffectiveVerdict, effectiveVerdicts } from './catalog/list.ts';
export { assertIntact } from './ledger/ledger.ts';
export type { RecoverOptions, Recovery } from './run/recovery.ts';
export { RunHandle } from './run/run-handle.ts';
export { type CallOptions, SingleCall } from './run/single-call.ts';
export { createSigner, readSigner, type Signer } from './signing/signing.ts';
export type { StartRunOptions } from './run/start-run.ts';
