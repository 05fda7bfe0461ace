/**
 * These hashes bind one thing to another: a request, a tool's definition, a spec.
 *
 * 1. A request's digest covers everything a person consents to; a change of any part makes another digest (INV-G2).
 * 2. The digest depends on the Temporal run in which the request is shown, so that what was shown before a reset is
 *    stale.
 */
import type { Pause } from '../../contracts/schemas/answer.ts';
import type { ToolTarget } from '../../contracts/schemas/call.ts';
import type { JsonObject } from '../../contracts/schemas/json.ts';
import type { ApproverRule } from '../../contracts/schemas/policy.ts';
import type { RunSpec } from '../../contracts/schemas/run-spec.ts';
import type { ToolDefinition } from '../../contracts/schemas/tool.ts';
import { hashOf } from '../text/canonical.ts';

export interface DigestParts {
  readonly namespace: string;
  readonly tenant: string;
  readonly workflowId: string;
  readonly callId: string;
  readonly runId: string;
  readonly generation: number;
  readonly target: ToolTarget;
  readonly arguments: JsonObject;
  readonly approvers: ApproverRule;
  /** Set if the request asks for something other than consent. The part keeps the two kinds of digests apart. */
  readonly about?: Pause | undefined;
}

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
    ...(parts.about === undefined ? {} : { about: parts.about }),
  });
}

/**
 * Hashes all that a person or a model reads before a call: name, title, description, schemas and annotations. Required
 * task support counts too. Optional task support does not: the operator decides when such a call is a task.
 */
export function definitionHash({ taskSupport, ...definition }: ToolDefinition): string {
  return hashOf(taskSupport === 'required' ? { ...definition, taskSupport } : definition);
}

/** The fields of a grant that belong to a spec's identity. */
interface NamedGrant {
  readonly server: string;
  readonly ref?: string;
}

/**
 * Hashes a spec whose defaults are applied. Ciphertexts are left out: sealing the same token twice gives two of them.
 */
export function specHash(spec: Omit<RunSpec, 'grants'> & { readonly grants: readonly NamedGrant[] }): string {
  // The signature is left out: a spec signed anew is the same spec.
  return hashOf({ ...spec, signature: undefined, grants: spec.grants.map(({ server, ref }) => ({ server, ref })) });
}
