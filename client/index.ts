/** What a backend imports. */
export { CountersignError, type ErrorCode } from '../contracts/errors.ts';
export type { CatalogAck, CatalogSnapshot, RefreshReport, ToolChange } from '../contracts/schemas/catalog.ts';
export type { DecisionAck, DecisionInput } from '../contracts/schemas/decision.ts';
export type { LedgerEntry } from '../contracts/schemas/ledger.ts';
export type { ApprovalRequest } from '../contracts/schemas/request.ts';
export type { RunSpecInput } from '../contracts/schemas/run-spec.ts';
export type { RunResult, RunState } from '../contracts/schemas/run-state.ts';
export { visible } from '../domain/escape.ts';
export { shownArguments } from '../domain/redaction.ts';
export { readArtifactsFrom } from './artifact-directory.ts';
export type { KnownDefinitions } from './catalog-definitions.ts';
export { CatalogHandle } from './catalog-handle.ts';
export { Countersign, type CountersignOptions } from './countersign.ts';
export { type EffectiveVerdict, effectiveVerdicts } from './effective-verdict.ts';
export { assertIntact } from './ledger.ts';
export { RunHandle } from './run-handle.ts';
export { createSigner, readSigner, type Signer } from './signer.ts';
export type { StartRunOptions } from './start-run.ts';
