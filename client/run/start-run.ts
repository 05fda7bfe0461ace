/**
 * Starts a run once (INV-D3): the same id with the same spec is the same run. It also waits for a worker's first
 * answer.
 *
 * 1. No run is started unless its spec is valid, and no clear secret leaves this process (INV-S1).
 * 2. A token stands at its server, as `authorization`, or by name in the map `authorizations`; the field counts where
 *    both do. No error contains any part of a token.
 * 3. The first answer is read from the run's history by long poll. The run is asked nothing, and nothing is left in it.
 */
import { WorkflowExecutionAlreadyStartedError } from '@temporalio/client';
import { TypedSearchAttributes } from '@temporalio/common';
import type { JWK } from 'jose';
import { z } from 'zod';
import { defined } from '../../contracts/defined.ts';
import { CountersignError } from '../../contracts/errors.ts';
import {
  DEFAULT_TASK_QUEUE,
  DIGEST_PREFIX,
  DISPATCH_MEMO,
  RUN_WORKFLOW,
  SEARCH_ATTRIBUTES,
  SPEC_HASH_MEMO,
  TICKET_MEMO,
} from '../../contracts/names.ts';
import { assertEnds, parseAs } from '../../contracts/schemas/parse.ts';
import { type Grant, MOST_SPEC_BYTES, RunSpec, type RunSpecInput } from '../../contracts/schemas/run-spec.ts';
import { Discovery } from '../../contracts/schemas/tool.ts';
import { isGateRun, isTicketId } from '../../domain/gate/ticket.ts';
import { specHash } from '../../domain/request/digest.ts';
import { screenSpec, UNSENT } from '../../domain/run/spec-screen.ts';
import { isFields } from '../../domain/shapes/inputs.ts';
import { byteLength } from '../../domain/text/canonical.ts';
import { bounded, visible } from '../../domain/text/escape.ts';
import { canonicalServerUrl } from '../../domain/text/urls.ts';
import { listedWithin } from '../../domain/views/temporal-ui.ts';
import type { Engine } from '../engine/engine.ts';
import { unserved } from '../engine/trouble.ts';
import { nextEvents, readable } from '../engine/executions.ts';
import { DEFAULT_GRANT_SECONDS, sealAuthorization } from '../signing/sealing.ts';
import { signed, type Signer } from '../signing/signing.ts';

export interface StartRunOptions {
  /** Workflow id; choose one that names the work, so that starting twice is harmless. */
  readonly runId: string;
  /** With a token for a server as the server's `authorization`: it is sealed here, and never sent in clear. */
  readonly spec: StartSpec;
  /** The same tokens by server name. */
  readonly authorizations?: Readonly<Record<string, string>>;
  readonly taskQueue?: string;
  /** Ticket of the call that the run makes for an MCP client (docs/adr/0078). */
  readonly ticketId?: string;
}

/**
 * By server name, its URL, and the public P-256 key, with its `kid`, of the zone whose workers may open grants for it.
 * From the caller's own configuration: a run must not say where its tokens go.
 */
export type SealingTargets = Readonly<Record<string, { readonly url: string; readonly key: JWK }>>;

/** @param signer needed if the workers are in trust mode `signed` @returns false if the run already existed */
export async function startRun(
  engine: Engine,
  targets: SealingTargets,
  options: StartRunOptions,
  signer?: Signer,
): Promise<boolean> {
  assertOwnId(options);
  const { runId, spec: written, ticketId: _, ...others } = options;
  parseAs(Start, defined(others), 'SPEC_INVALID', 'start');
  const { spec: given, tokens } = takeTokens(written, others.authorizations);
  assertEnds(given, 'SPEC_INVALID', 'run spec');
  const finding = screenSpec(given, UNSENT);
  if (finding !== undefined) throw new CountersignError(finding.code, finding.message, { path: finding.path });
  const servers = [...tokens.keys()];
  const checked = parseAs(RunSpec, given, 'SPEC_INVALID', 'run spec');
  // The spec hash, to which a grant is bound, covers which servers get a grant, but not the ciphertexts.
  const hash = specHash({ ...checked, grants: [...checked.grants, ...servers.map((server) => ({ server }))] });
  const grants = await Promise.all(
    [...tokens].map(
      async ([server, token]) => await seal(engine, targets, { runId, spec: given, hash }, server, token),
    ),
  );
  const spec: RunSpecInput = grants.length === 0 ? given : { ...given, grants: [...checked.grants, ...grants] };
  const sent = signer === undefined ? spec : await signedSpec(engine, signer, runId, spec, checked);
  assertSpecFits(sent);
  return await engine.call(runId, () => startOnce(engine, options, sent, checked, hash));
}

/** Options that a caller without types may get wrong, beside the id and the spec. */
const Start = z.strictObject({
  taskQueue: z
    .string()
    .regex(/^.{1,1000}$/su, 'must have 1 to 1000 characters: it is the taskQueue of the workers')
    .optional(),
  authorizations: z.record(z.string(), z.string().optional()).optional(),
});

/** The limit of a Temporal server that is set up as usual (`limit.maxIDLength`). */
const MOST_ID_BYTES = 1_000;

function assertOwnId(options: StartRunOptions): void {
  // A caller without types may give none.
  const { runId, ticketId }: Partial<StartRunOptions> = isFields(options) ? options : {};
  const refusal = (message: string): CountersignError =>
    new CountersignError('SPEC_INVALID', message, { path: 'runId' });
  if (typeof runId !== 'string' || runId === '')
    throw refusal('runId is missing: it must be a text that names the work. Nothing was started.');
  const bytes = byteLength(runId);
  if (bytes > MOST_ID_BYTES)
    throw refusal(
      `runId has ${bytes} bytes as UTF-8; Temporal takes ids of ${MOST_ID_BYTES} at most. Choose a shorter one. Nothing was started.`,
    );
  const taken = runId.startsWith('catalog/')
    ? 'begin with catalog/: catalogs'
    : runId.startsWith(DIGEST_PREFIX)
      ? 'begin with digest/: digests of messages'
      : isTicketId(runId) || (isGateRun(runId) && ticketId === undefined)
        ? 'begin with gate/, nor be gate- and a UUID: calls of MCP clients'
        : undefined;
  if (taken !== undefined) throw refusal(`runId must not ${taken} have such ids. Choose another.`);
}

type ServerInput = NonNullable<RunSpecInput['servers']>[number];

type StartServer = ServerInput & {
  /** OAuth access token for this server; `Bearer` may stand before it. It is sealed, and never sent in clear. */
  readonly authorization?: string | undefined;
};

type StartSpec = Omit<RunSpecInput, 'servers'> & { readonly servers?: readonly StartServer[] | undefined };

interface GivenToken {
  readonly token: string;
  readonly path: string;
}

/** @returns a spec without tokens, which may leave the process @throws CountersignError `SPEC_INVALID` */
export function takeTokens(
  given: StartSpec,
  authorizations: Readonly<Record<string, string | undefined>> = {},
): { readonly spec: RunSpecInput; readonly tokens: ReadonlyMap<string, GivenToken> } {
  const tokens = new Map<string, GivenToken>(
    Object.entries(authorizations).flatMap(([server, token]) =>
      token === undefined ? [] : [[server, { token, path: `authorizations.${server}` }]],
    ),
  );
  // A caller without types may have written anything; its shape is checked with that of the spec.
  if (!isFields(given)) return { spec: given, tokens };
  const { servers, ...others } = given;
  if (!Array.isArray(servers)) return { spec: given as RunSpecInput, tokens };
  // Sound: so the parameter declares them.
  const left = (servers as readonly StartServer[]).map((server, index): ServerInput => {
    if (typeof server !== 'object' || server === null || !('authorization' in server)) return server;
    const { authorization, ...rest } = server;
    if (authorization === undefined) return rest;
    const path = `servers[${index}].authorization`;
    if (typeof authorization !== 'string') {
      const message = `${path} must be a plain OAuth access token, as text. Nothing was started.`;
      throw new CountersignError('SPEC_INVALID', message, { path });
    }
    tokens.set(rest.name, { token: authorization, path });
    return rest;
  });
  return { spec: { ...others, servers: left }, tokens };
}

/** Applies the same limit as the worker that prepares the run. @throws CountersignError `SPEC_INVALID` */
function assertSpecFits(spec: RunSpecInput): void {
  const bytes = byteLength(JSON.stringify(spec));
  if (bytes <= MOST_SPEC_BYTES) return;
  const message = `The run spec has ${bytes} bytes; ${MOST_SPEC_BYTES} are allowed. Give long texts to the tools instead. Nothing was started.`;
  throw new CountersignError('SPEC_INVALID', message);
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
  { runId, spec, hash }: { readonly runId: string; readonly spec: RunSpecInput; readonly hash: string },
  server: string,
  { token, path }: GivenToken,
): Promise<Grant> {
  const target = Object.hasOwn(targets, server) ? targets[server] : undefined;
  if (target === undefined) {
    const message = `${path}: this client has no sealing key for server ${server}; add it to the client's \`servers\`.`;
    throw new CountersignError('SEALING_KEY_MISSING', message, { path });
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
    authorization: token,
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
): Promise<boolean> {
  const { runId, taskQueue = DEFAULT_TASK_QUEUE, ticketId } = options;
  try {
    await engine.client.workflow.start(RUN_WORKFLOW, {
      workflowId: runId,
      taskQueue,
      args: [spec],
      // With FAIL the answer itself says whether the run is new; an existing run is compared below.
      workflowIdConflictPolicy: 'FAIL',
      workflowIdReusePolicy: 'REJECT_DUPLICATE',
      memo: {
        [SPEC_HASH_MEMO]: hash,
        ...(ticketId !== undefined && { [TICKET_MEMO]: ticketId }),
        ...(checked.dispatch !== undefined && { [DISPATCH_MEMO]: checked.dispatch }),
      },
      typedSearchAttributes: attributesOf(runId, checked),
      staticSummary: `${checked.agent.name} for ${bounded(visible(checked.initiator.id), 60)}`,
    });
    return true;
  } catch (error) {
    if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error;
    const { memo } = await engine.client.workflow.getHandle(runId).describe();
    if (memo?.[SPEC_HASH_MEMO] === hash) return false;
    const message = `Run ${runId} exists with another spec; choose another id, or send the spec it was started with.`;
    throw new CountersignError('RUN_ID_CONFLICT', message, { runId }, { cause: error });
  }
}

function attributesOf(runId: string, { initiator, servers }: RunSpec): TypedSearchAttributes {
  return new TypedSearchAttributes([
    { key: SEARCH_ATTRIBUTES.status, value: 'running' },
    { key: SEARCH_ATTRIBUTES.pending, value: 0 },
    { key: SEARCH_ATTRIBUTES.initiator, value: initiator.id },
    { key: SEARCH_ATTRIBUTES.tenant, value: initiator.tenant },
    { key: SEARCH_ATTRIBUTES.servers, value: [...listedWithin(servers.map(({ name }) => name))] },
    { key: SEARCH_ATTRIBUTES.root, value: runId },
  ]);
}

/** `temporal.api.enums.v1.EventType`. */
const WORKFLOW_EXECUTION_FAILED = 3;
const WORKFLOW_TASK_COMPLETED = 7;
const ASKS_MODEL: readonly string[] = ['modelStep', 'stretch'];
const CLOSED: ReadonlySet<number> = new Set([2, 4, 21, 27, 28]);

/** A name in `allowedTools` that its server does not have. */
export interface MissingTool {
  readonly server: string;
  readonly name: string;
  /** Similar names that the server has. */
  readonly near: readonly string[];
}

interface FirstWord {
  /** `taken`: a worker has the run. `silent`: no worker has it. */
  readonly word: 'taken' | 'failed' | 'silent';
  readonly missing: readonly MissingTool[];
}

export async function firstWord(engine: Engine, workflowId: string, withinMs: number): Promise<FirstWord> {
  const end = Date.now() + withinMs;
  let word: FirstWord['word'] = 'silent';
  const missing: MissingTool[] = [];
  let nextPageToken: Uint8Array | undefined;
  for (;;) {
    const token = nextPageToken;
    const left = Math.max(1, end - Date.now());
    const page = await engine.read(
      workflowId,
      async () => await nextEvents(engine.client, { workflowId }, token),
      left,
    );
    for (const event of page?.history?.events ?? []) {
      const { eventType } = event;
      if (eventType === WORKFLOW_EXECUTION_FAILED) return { word: 'failed', missing };
      // The model is asked only after all tools are listed.
      const scheduled = event.activityTaskScheduledEventAttributes?.activityType?.name ?? '';
      if (ASKS_MODEL.includes(scheduled) || CLOSED.has(eventType ?? 0)) return { word: 'taken', missing };
      const payloads = event.activityTaskCompletedEventAttributes?.result?.payloads;
      // The first activity of a run checks its spec, and may list all tools; else the following ones list them.
      if (payloads) {
        const answer = await readable(engine.client, payloads);
        // A first activity that has listed the tools of all servers answers with their lists.
        const lists = isFields(answer) ? answer['found'] : undefined;
        const found: readonly unknown[] | undefined = Array.isArray(lists) ? lists : undefined;
        missing.push(...(found ?? [answer]).flatMap(missingIn));
        if (found !== undefined) return { word: 'taken', missing };
      }
      if (eventType === WORKFLOW_TASK_COMPLETED) word = 'taken';
    }
    nextPageToken = page?.nextPageToken ?? undefined;
    if (page === undefined || nextPageToken === undefined || nextPageToken.length === 0 || Date.now() >= end)
      return { word, missing };
  }
}

/** Any namespace writer can write such a result, so what does not fit the shape is left out. */
function missingIn(value: unknown): MissingTool[] {
  const { success, data } = Discovery.safeParse(value);
  if (!success) return [];
  return (data.missing ?? []).map(({ name, near }) => ({ server: data.server, name, near }));
}

/** @throws CountersignError `ENGINE_UNAVAILABLE` if no worker has taken the run */
export async function assertTaken(engine: Engine, workflowId: string, withinMs: number): Promise<FirstWord> {
  const first = await firstWord(engine, workflowId, withinMs);
  if (first.word !== 'silent') return first;
  throw (
    (await unserved(engine.client, workflowId)) ??
    new CountersignError(
      'ENGINE_UNAVAILABLE',
      `No worker has taken run ${workflowId} in ${Math.round(withinMs / 1_000)} s. It waits, and nothing of it is lost; are workers running, and can they keep up?`,
      { runId: workflowId },
    )
  );
}
