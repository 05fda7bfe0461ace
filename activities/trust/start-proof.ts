/**
 * In trust mode `signed` this file proves that the run was started by the person its spec names, when a run is
 * prepared, and again before its tools are listed or called.
 *
 * 1. The signature binds namespace, workflow id and the whole spec: initiator, tenant, servers, policy, grants.
 *    Whatever a workflow says of these is compared with what was signed. Who calls a server follows from the signed
 *    spec and this worker's configuration.
 * 2. The first execution of the run began while the signature was good, as Temporal reports it.
 */
import { CountersignError } from '../../contracts/errors.ts';
import type { Config } from '../../contracts/schemas/config.ts';
import { parseAs } from '../../contracts/schemas/parse.ts';
import type { Policy } from '../../contracts/schemas/policy.ts';
import { type Grant, RunSpec, type RunSpecInput } from '../../contracts/schemas/run-spec.ts';
import type { ServerBinding } from '../../contracts/schemas/tool.ts';
import type { TrustSet } from '../../contracts/schemas/trust.ts';
import { canonicalJson, sha256Hex } from '../../domain/text/canonical.ts';
import { specHash } from '../../domain/request/digest.ts';
import { executionOf, mayHost, requiresBoundTokens } from '../../domain/run/hosted.ts';
import { wasGoodAt } from '../../domain/signing/jws.ts';
import { canonicalServerUrl } from '../../domain/text/urls.ts';
import { checkSignature, openMessage } from '../../domain/signing/message.ts';
import type { ArtifactStore } from '../artifacts/port.ts';
import type { ReadExecution } from './executions.ts';
import { checkedByKeys, type TrustedKeys } from './keys.ts';
import type { RunIdentity, SignedSpec, ToolsetRef } from '../../contracts/wire/identity.ts';
import type { Scheduler } from '../kit/activity.ts';
import { ownValue } from '../kit/json.ts';

export const SPEC_TYPE = 'application/vnd.countersign.spec+json';

export interface StartProofParts {
  readonly keys: TrustedKeys;
  readonly artifacts: ArtifactStore;
  readonly readExecution: ReadExecution;
  /** A run on another queue is none of ours. */
  readonly taskQueue: string;
  readonly config: Pick<Config, 'servers' | 'models'>;
}

export interface RunClaims {
  readonly run: RunIdentity;
  readonly server: ServerBinding;
  readonly grant?: Grant | undefined;
  /** Absent while tools are listed. */
  readonly toolset?: readonly ToolsetRef[];
  readonly runPolicy?: Policy | undefined;
}

/** Refuses, for `prepareRun`, a spec that is not signed by somebody who may start it. @throws CountersignError */
export async function proveStart(
  parts: StartProofParts,
  given: unknown,
  spec: RunSpec,
  scheduler: Scheduler,
): Promise<{ readonly trust: TrustSet; readonly signedSpec: SignedSpec }> {
  const { message, signature } = openMessage(given);
  const text = canonicalJson(message);
  const trust = await judgeSpec(parts, spec, signature, sha256Hex(text), scheduler);
  const stored = await parts.artifacts.put(new TextEncoder().encode(text), SPEC_TYPE);
  return { trust, signedSpec: { spec: stored, signature: signature ?? '' } };
}

/** Proves that the run was signed, and that its claims are those that were signed. @throws CountersignError */
export async function proveRun(
  parts: StartProofParts,
  signedSpec: SignedSpec | undefined,
  claims: RunClaims,
  scheduler: Scheduler,
): Promise<RunSpec> {
  if (signedSpec === undefined)
    throw new CountersignError(
      'SIGNATURE_MISSING',
      'This worker calls tools of signed runs only (trust.mode: signed).',
    );
  const text = new TextDecoder().decode(await parts.artifacts.get(signedSpec.spec));
  const given: unknown = JSON.parse(text);
  const spec = parseAs(RunSpec, given, 'SPEC_INVALID', 'signed spec');
  await judgeSpec(parts, spec, signedSpec.signature, sha256Hex(text), scheduler);
  // Sound: it is a run spec, defaults not applied; a workflow hands on policy and grants as they were sent.
  const other = differenceOf(spec, given as RunSpecInput, claims, parts.config);
  if (other !== undefined)
    throw new CountersignError('DISPATCH_FORBIDDEN', `The call names another ${other} than the spec that was signed.`);
  return spec;
}

async function judgeSpec(
  parts: StartProofParts,
  { initiator }: RunSpec,
  signature: string | undefined,
  payload: string,
  scheduler: Scheduler,
): Promise<TrustSet> {
  const { id, groups, tenant } = initiator;
  const { namespace, workflowId } = scheduler;
  const about = { purpose: 'start', namespace, tenant, workflowId, payload, person: id, groups } as const;
  const { trust, checked } = await checkedByKeys(
    parts.keys,
    tenant,
    (set) => checkSignature(signature, about, set, undefined),
    (found) => found.kind === 'refuse' && found.code === 'TRUST_KEY_UNKNOWN',
  );
  if (checked.kind === 'signed') {
    await assertStartedInTime(parts, signature ?? '', scheduler);
    return trust;
  }
  const { code, message, facts } = checked;
  // Temporal does not retry this: the key was sought where it would be.
  const [said, why] =
    code === 'TRUST_KEY_UNKNOWN'
      ? (['SIGNER_NOT_ENTITLED', `No key that signed this spec is trusted for tenant ${tenant} (trust.jwks).`] as const)
      : [code, message];
  throw new CountersignError(said, `The run spec: ${why}`, { path: 'signature', ...facts });
}

/**
 * Refuses a captured spec that starts a run later. The time that counts is when the run began, not when a worker took
 * it up. Once retention removed the first execution nobody can tell (0025).
 */
async function assertStartedInTime(
  { readExecution, taskQueue }: StartProofParts,
  signature: string,
  { workflowId, runId }: Scheduler,
): Promise<void> {
  const own = await readExecution(workflowId, runId, 'living');
  if (own === undefined || own.taskQueue !== taskQueue)
    throw new CountersignError('DISPATCH_FORBIDDEN', 'The run is not one of these workers.');
  const first = own.firstRunId === runId ? own : await readExecution(workflowId, own.firstRunId, 'living');
  if (first === undefined) return;
  if (wasGoodAt(signature, first.startedAt / 1_000)) return;
  throw new CountersignError(
    'SIGNATURE_EXPIRED',
    'The run spec: its signature was not good when the run began (iat, exp). Sign it again, and start the run.',
    { path: 'signature' },
  );
}

function differenceOf(
  spec: RunSpec,
  given: RunSpecInput,
  { run, server, grant, runPolicy, toolset }: RunClaims,
  config: StartProofParts['config'],
): string | undefined {
  const named = spec.servers.find(({ name }) => name === server.name);
  const pairs: readonly (readonly [string, unknown, unknown])[] = [
    ['initiator', run.initiator, spec.initiator],
    ['spec', run.specHash, specHash(spec)],
    ['policy', runPolicy, toolset === undefined ? undefined : given.policy],
    ['server', server.name, named?.name],
    ['URL', named?.url === undefined ? undefined : server.url, named?.url && canonicalServerUrl(named.url)],
    ['list of tools', server.allowedTools, named?.allowedTools],
    ['caller of the server', server.hosted, hostedBy(config, spec, server)],
    ['grant', grant, given.grants?.find((each) => each.server === server.name)],
    ...(toolset ?? []).map((each): readonly [string, unknown, unknown] => {
      const same = spec.servers.find(({ name }) => name === each.server);
      const [said, signed] = [each.allowedTools ?? null, same?.allowedTools ?? null];
      return ['list of tools', [same?.name ?? null, said], [each.server, signed]];
    }),
  ];
  return pairs.find(([, said, signed]) => !isSame(said, signed))?.[0];
}

function hostedBy(
  config: StartProofParts['config'],
  { servers, agent }: RunSpec,
  { name, catalog }: ServerBinding,
): string | undefined {
  const configured = ownValue(config.servers, name);
  const execution = executionOf({
    server: name,
    configured: configured?.execute,
    asked: servers.find((each) => each.name === name)?.execute,
    model: agent.model,
    canHost: mayHost(config, agent.model),
    isBound: requiresBoundTokens(configured),
    // A workflow that speaks of a catalog where there is none gets a call by this service, not by a provider.
    hasCatalog: catalog === true,
    path: `servers.${name}`,
  });
  return execution === 'hosted' ? agent.model : undefined;
}

function isSame(one: unknown, other: unknown): boolean {
  return canonicalJson({ value: one }) === canonicalJson({ value: other });
}
