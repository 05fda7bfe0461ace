/**
 * Starting a run, once (INV-D3): the same id with the same spec is the same run.
 *
 * 1. Nothing is started where the spec is not valid, and no clear secret leaves this process (INV-S1).
 */
import { WorkflowExecutionAlreadyStartedError } from '@temporalio/client';
import { defineSearchAttributeKey, TypedSearchAttributes } from '@temporalio/common';
import { CountersignError } from '../contracts/errors.ts';
import { DEFAULT_TASK_QUEUE, RUN_WORKFLOW, SPEC_HASH_MEMO } from '../contracts/names.ts';
import { parseAs } from '../contracts/schemas/parse.ts';
import { type Grant, RunSpec, type RunSpecInput } from '../contracts/schemas/run-spec.ts';
import { specHash } from '../domain/digest.ts';
import { bounded, visible } from '../domain/escape.ts';
import { canonicalServerUrl } from '../domain/server-url.ts';
import { listedWithin } from '../domain/present.ts';
import { screenSpec } from '../domain/spec-screen.ts';
import type { Engine } from './engine.ts';
import { assertSpecFits } from './message-size.ts';
import { sealAuthorization } from './sealing.ts';
import type { Signer } from './signer.ts';
import { signed } from './signing.ts';
import type { JWK } from 'jose';

export interface StartRunOptions {
  /** Workflow id; choose one that names the work, so that starting twice is harmless. */
  readonly runId: string;
  readonly spec: RunSpecInput;
  /** Server name → OAuth token for it. Sealed here; never sent in clear. */
  readonly authorizations?: Readonly<Record<string, string>>;
  readonly taskQueue?: string;
}

export interface StartedRun {
  readonly runId: string;
  /** False where the run was there already. */
  readonly started: boolean;
}

/** Where a server is, and the public key of the zone whose workers may open grants for it. */
export interface SealingTarget {
  readonly url: string;
  /** P-256, with its `kid`. */
  readonly key: JWK;
}

/** By server name, from the caller's own configuration: a run must not say where its tokens go. */
export type SealingTargets = Readonly<Record<string, SealingTarget>>;

const DEFAULT_GRANT_SECONDS = 30 * 86_400;

/** @param signer where the workers are in trust mode `signed` */
export async function startRun(
  engine: Engine,
  targets: SealingTargets,
  options: StartRunOptions,
  signer?: Signer,
): Promise<StartedRun> {
  const { runId, authorizations = {} } = options;
  if (runId.startsWith('catalog/'))
    throw new CountersignError(
      'SPEC_INVALID',
      'runId must not begin with catalog/: catalogs have such ids. Choose another.',
      {
        path: 'runId',
      },
    );
  const finding = screenSpec(options.spec);
  if (finding !== undefined) throw new CountersignError(finding.code, finding.message, { path: finding.path });
  const servers = Object.keys(authorizations);
  const checked = parseAs(RunSpec, options.spec, 'SPEC_INVALID', 'run spec');
  // Sealing binds to the hash, so the hash knows which servers get a grant and not its ciphertext.
  const hash = specHash({ ...checked, grants: [...checked.grants, ...servers.map((server) => ({ server }))] });
  const grants = await Promise.all(servers.map((server) => seal(engine, targets, options, server, hash)));
  const spec: RunSpecInput =
    grants.length === 0 ? options.spec : { ...options.spec, grants: [...checked.grants, ...grants] };
  const sent = signer === undefined ? spec : await signedSpec(engine, signer, runId, spec, checked);
  assertSpecFits(sent);
  return await engine.call(runId, () => startOnce(engine, options, sent, checked, hash));
}

async function signedSpec(
  { namespace }: Engine,
  signer: Signer,
  workflowId: string,
  spec: RunSpecInput,
  { initiator: { id: person, groups, tenant } }: RunSpec,
): Promise<RunSpecInput> {
  const { signature: _, ...unsigned } = spec;
  return await signed(signer, unsigned, { purpose: 'start', namespace, tenant, workflowId, person, groups });
}

async function seal(
  engine: Engine,
  targets: SealingTargets,
  { runId, spec, authorizations }: StartRunOptions,
  server: string,
  hash: string,
): Promise<Grant> {
  const target = Object.hasOwn(targets, server) ? targets[server] : undefined;
  const path = `authorizations.${server}`;
  if (target === undefined) {
    throw new CountersignError(
      'SEALING_KEY_MISSING',
      `${path}: this client has no sealing key for server ${server}; add it to the client's \`servers\`.`,
      { path },
    );
  }
  const named = spec.servers?.find(({ name }) => name === server);
  if (named === undefined) throw new CountersignError('SPEC_INVALID', `${path} names no server of the run.`, { path });
  if (named.url !== undefined && canonicalServerUrl(named.url) !== canonicalServerUrl(target.url)) {
    throw new CountersignError(
      'SPEC_INVALID',
      `${path}: the spec names another URL for ${server} than this client's \`servers\`; a token goes only where its owner said.`,
      { path },
    );
  }
  const jwe = await sealAuthorization({
    authorization: authorizations?.[server] ?? '',
    serverUrl: target.url,
    binding: { namespace: engine.namespace, workflowId: runId, specHash: hash },
    key: target.key,
    expiresInSeconds: spec.limits?.wallClockSeconds ?? DEFAULT_GRANT_SECONDS,
  });
  return { server, jwe };
}

async function startOnce(
  engine: Engine,
  options: StartRunOptions,
  spec: RunSpecInput,
  checked: RunSpec,
  hash: string,
): Promise<StartedRun> {
  const { runId, taskQueue = DEFAULT_TASK_QUEUE } = options;
  try {
    await engine.client.workflow.start(RUN_WORKFLOW, {
      workflowId: runId,
      taskQueue,
      args: [spec],
      // With FAIL the answer itself says whether the run is new; an existing one is compared below.
      workflowIdConflictPolicy: 'FAIL',
      workflowIdReusePolicy: 'REJECT_DUPLICATE',
      memo: { [SPEC_HASH_MEMO]: hash },
      typedSearchAttributes: attributesOf(runId, checked),
      staticSummary: `${checked.agent.name} for ${bounded(visible(checked.initiator.id), 60)}`,
    });
    return { runId, started: true };
  } catch (error) {
    if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error;
    const { memo } = await engine.client.workflow.getHandle(runId).describe();
    if (memo?.[SPEC_HASH_MEMO] === hash) return { runId, started: false };
    throw new CountersignError(
      'RUN_ID_CONFLICT',
      `Run ${runId} exists with another spec; choose another id, or send the spec it was started with.`,
      { runId },
      { cause: error },
    );
  }
}

function attributesOf(runId: string, { initiator, servers }: RunSpec): TypedSearchAttributes {
  return new TypedSearchAttributes([
    { key: defineSearchAttributeKey('CountersignStatus', 'KEYWORD'), value: 'running' },
    { key: defineSearchAttributeKey('CountersignPending', 'INT'), value: 0 },
    { key: defineSearchAttributeKey('CountersignInitiator', 'KEYWORD'), value: initiator.id },
    { key: defineSearchAttributeKey('CountersignTenant', 'KEYWORD'), value: initiator.tenant },
    {
      key: defineSearchAttributeKey('CountersignServers', 'KEYWORD_LIST'),
      value: [...listedWithin(servers.map(({ name }) => name))],
    },
    { key: defineSearchAttributeKey('CountersignRoot', 'KEYWORD'), value: runId },
  ]);
}
