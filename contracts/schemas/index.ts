/** The public surface, `countersign/schemas`. Each has its JSON Schema in docs/schema, for other languages. */
export { Outcome, Verdict } from './call.ts';
export {
  CatalogAck,
  CatalogConnect,
  type CatalogConnectInput,
  CatalogDecision,
  type CatalogDecisionInput,
  CatalogDisconnect,
  type CatalogDisconnectInput,
  CatalogFile,
  CatalogRefresh,
  type CatalogRefreshInput,
  CatalogSnapshot,
  SetToolPolicies,
  type SetToolPoliciesInput,
} from './catalog.ts';
export { Config, type ConfigInput } from './config.ts';
export { IssuedClaims } from './credentials.ts';
export { type JsonObject, type JsonValue } from './json.ts';
export { LedgerEntry, LedgerLine, LedgerRecord, Segment } from './ledger.ts';
export { WebhookMessage } from './notify-message.ts';
export { Policy, type PolicyInput } from './policy.ts';
export { PolicyCases } from './policy-cases.ts';
export {
  ApprovalRequest,
  Authorization,
  type AuthorizationInput,
  Decision,
  DecisionAck,
  type DecisionInput,
  Forget,
  type ForgetInput,
  PauseAck,
  Provision,
  type ProvisionInput,
  Resolution,
  type ResolutionInput,
  Say,
  Stop,
} from './request.ts';
export { CallSpec, type CallSpecInput, RunSpec, type RunSpecInput } from './run-spec.ts';
export { CallAnswer, RunResult, RunState } from './run-state.ts';
export { ToolDefinition } from './tool.ts';
