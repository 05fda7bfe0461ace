/**
 * The hashes that bind one thing to another.
 *
 * 1. A request's digest covers everything a person consents to; a change of any part makes another digest (INV-G2).
 * 2. The digest depends on the Temporal run in which the request is shown, so that what was shown before a reset is stale.
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
  /** What is asked, where it is not consent: then it is a part, and no digest of consent is one of it. */
  readonly about?: Pause | undefined;
}

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
 * Covers name, title, description, schemas and annotations: all that a person or a model reads before a call; and that it can only be
 * called as a task. That it may be one changes nothing: the operator says when it is.
 */
export function definitionHash({ taskSupport, ...definition }: ToolDefinition): string {
  return hashOf(taskSupport === 'required' ? { ...definition, taskSupport } : definition);
}

/** A grant as far as a spec's identity goes. */
interface NamedGrant {
  readonly server: string;
  readonly ref?: string;
}

/** Identity of a spec whose defaults are applied. Ciphertexts are left out: sealing the same token twice gives two. */
export function specHash(spec: Omit<RunSpec, 'grants'> & { readonly grants: readonly NamedGrant[] }): string {
  // Signed again, it is the same spec.
  return hashOf({ ...spec, signature: undefined, grants: spec.grants.map(({ server, ref }) => ({ server, ref })) });
}
