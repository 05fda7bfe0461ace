/**
 * Hashes that bind one thing to another: a request, a tool's definition, a spec.
 *
 * 1. A request's digest covers everything a person consents to; a change of any part makes another digest (INV-G2).
 * 2. It depends on the Temporal run that shows the request: what was shown before a reset is stale.
 */
import { defined } from '../../contracts/defined.ts';
import type { Judgement, Outcome, ProposedCall, TokenEvidence, ToolTarget } from '../../contracts/schemas/call.ts';
import type { JsonObject } from '../../contracts/schemas/json.ts';
import type { LedgerFact } from '../../contracts/schemas/ledger.ts';
import type { ApproverRule } from '../../contracts/schemas/policy.ts';
import type { Pause } from '../../contracts/schemas/request.ts';
import type { RunSpec } from '../../contracts/schemas/run-spec.ts';
import type { ToolDefinition } from '../../contracts/schemas/tool.ts';
import type { PreparedRun } from '../../contracts/wire/run.ts';
import type { Asking, RunIds } from '../state/run.ts';
import { hashOf } from '../text/canonical.ts';

export interface DigestParts extends RunIds {
  readonly callId: string;
  readonly generation: number;
  readonly target: ToolTarget;
  readonly arguments: JsonObject;
  readonly approvers: ApproverRule;
  /** Set if the request asks for something other than consent. The part keeps the two kinds of digests apart. */
  readonly about?: Pause | undefined;
}

/** The part of a digest that is of the request alone: the Temporal run adds the rest. */
export type Shown = Omit<DigestParts, keyof RunIds>;

/** Returns the digest of a request: lower-case hexadecimal sha256 over canonical JSON (RFC 8785). */
export function requestDigest(parts: DigestParts): string {
  return hashOf({
    namespace: parts.namespace,
    tenant: parts.tenant,
    workflowId: parts.workflowId,
    callId: parts.callId,
    nonce: `${parts.runId}/${parts.generation}`,
    server: parts.target.serverUrl,
    tool: parts.target.tool,
    definition: parts.target.definitionHash,
    arguments: parts.arguments,
    approvers: parts.approvers,
    ...defined({ about: parts.about, hosted: parts.target.hosted }),
  });
}

/** Hashes all that is read before a call, and required task support; of optional support the operator decides. */
export function definitionHash({ taskSupport, ...definition }: ToolDefinition): string {
  return hashOf(taskSupport === 'required' ? { ...definition, taskSupport } : definition);
}

/** Hashes a spec with defaults applied, without ciphertexts: sealing a token twice gives two of them. */
export function specHash(
  spec: Omit<RunSpec, 'grants'> & { readonly grants: readonly { readonly server: string; readonly ref?: string }[] },
): string {
  // The signature is left out: a spec signed anew is the same spec.
  return hashOf({ ...spec, signature: undefined, grants: spec.grants.map(({ server, ref }) => ({ server, ref })) });
}

type Request = Pick<Asking, 'request' | 'call'> & { readonly judgement: Pick<Asking['judgement'], 'target'> };

export function requestOpenedFact(state: Asking, ids: RunIds): LedgerFact {
  const { request, call } = state;
  return {
    kind: 'request.opened',
    callId: call.callId,
    generation: request.generation,
    digest: digestOf(state, ids),
    approvers: request.approvers,
    deadline: new Date(request.deadline).toISOString(),
    ...defined({ because: request.because, duplicateOf: state.duplicateOf }),
    ...(request.about === undefined ? {} : { about: { kind: request.about.kind, hash: hashOf(request.about) } }),
  };
}

export function verdictFact(call: ProposedCall, { verdict, target }: Judgement, policyVersion: string): LedgerFact {
  return {
    kind: 'verdict',
    callId: call.callId,
    verdict: verdict.kind,
    rules: verdict.rules,
    tool: target?.tool ?? call.name.slice(0, 200),
    argumentsHash: hashOf(call.arguments),
    policyVersion,
    ...(target === undefined
      ? {}
      : { server: target.server, definitionHash: target.definitionHash, ...defined({ hosted: target.hosted }) }),
    ...(verdict.kind === 'allow' && verdict.breakGlass !== undefined ? { breakGlass: verdict.breakGlass } : {}),
  };
}

export function digestOf({ request, call, judgement }: Request, ids: RunIds): string {
  return requestDigest({
    ...ids,
    callId: call.callId,
    generation: request.generation,
    target: judgement.target,
    arguments: call.arguments,
    approvers: request.approvers,
    about: request.about,
  });
}

export function outcomeFact(callId: string, outcome: Outcome, token?: TokenEvidence): LedgerFact {
  const warnings = 'result' in outcome ? outcome.result?.warnings : undefined;
  return {
    kind: 'outcome',
    callId,
    outcome: outcome.kind,
    outcomeHash: hashOf(outcome),
    ...('code' in outcome ? { code: outcome.code } : {}),
    ...defined({ token, warnings }),
    ...('repeatOf' in outcome && outcome.repeatOf !== undefined ? { repeatOf: outcome.repeatOf } : {}),
  };
}

export function startedFact(
  prepared: PreparedRun,
  agent: { readonly name: string; readonly model: string },
): LedgerFact {
  return {
    kind: 'run.started',
    agent: agent.name,
    model: agent.model,
    initiator: prepared.initiator.id,
    tenant: prepared.initiator.tenant,
    specHash: prepared.specHash,
    policyVersion: prepared.policyVersion,
    servers: prepared.servers.map(({ name }) => name),
    ...defined({ price: prepared.price }),
  };
}
