/**
 * Puts ports and adapters together. One file, because no other one is to know all of them.
 *
 * 1. The activities of role `runs` hold no server credentials; those of role `tools` start no model.
 * 2. All requests of a worker's activities use one egress, which may contact only what the configuration names.
 */
import { resolve } from 'node:path';
import type { Client } from '@temporalio/client';
import { Runtime } from '@temporalio/worker';
import { createDirectoryStore } from '../activities/artifacts/directory.ts';
import type { ArtifactStore } from '../activities/artifacts/port.ts';
import { recordNamespace, setUpRoot } from '../activities/artifacts/root.ts';
import { createCatalogReader, createToolsetLoader } from '../activities/catalog/reader.ts';
import { createReviewChange } from '../activities/catalog/review.ts';
import { createDiscoverCatalog, createDiscoverTools } from '../activities/gate/discover-tools.ts';
import { createLiveTools } from '../activities/discovery/access.ts';
import { createEgress, type Egress, type Outlet } from '../activities/egress/fetch.ts';
import { createCallTool } from '../activities/gate/call-tool.ts';
import { createHeldRun, loadQuestionMacs } from '../activities/gate/legacy-2025/open-question.ts';
import { createPollTask } from '../activities/gate/legacy-2025/poll-task.ts';
import { createResumeCall } from '../activities/gate/legacy-2025/resume-call.ts';
import { coded, currentScheduler } from '../activities/kit/activity.ts';
import { createDelivery, createHeadSigner, type DeliverLedger, type LedgerSink } from '../activities/ledger/port.ts';
import { createLedgerDirectory, LEDGER_ROOT } from '../activities/ledger/directory.ts';
import { createLedgerWebhook } from '../activities/ledger/webhook.ts';
import { ServerLimits } from '../activities/limits/server-limits.ts';
import { createMcpAnswerSource } from '../activities/mcp/legacy-2025/answer-stream.ts';
import { LEGACY_CALLS } from '../activities/mcp/legacy-2025/legacy-calls.ts';
import { createMcpTaskServer } from '../activities/mcp/legacy-2025/tasks.ts';
import type { ToolServer } from '../activities/mcp/port.ts';
import { createMcpToolServer } from '../activities/mcp/mcp-server.ts';
import { loadStateSeal } from '../activities/mcp/state-seal.ts';
import { createModelStep } from '../activities/models/model-step.ts';
import { PROVIDER_URLS } from '../activities/models/port.ts';
import { createModelRegistry } from '../activities/models/registry.ts';
import { createHandOver, createRunReader, createSendDigest } from '../activities/notify/digest.ts';
import { createMailChannel } from '../activities/notify/mail.ts';
import type { MessageChannel } from '../activities/notify/port.ts';
import { createSendMessage, type SendParts, withFewInTrouble } from '../activities/notify/send.ts';
import { createSlackChannel, createSlackWebhookChannel } from '../activities/notify/slack.ts';
import { createWebhookChannel } from '../activities/notify/webhook.ts';
import { Conditions } from '../activities/policy/condition.ts';
import { createJudge } from '../activities/policy/judge.ts';
import { createDiscardedReader } from '../activities/run/discarded-tail.ts';
import { createPrepareRun } from '../activities/run/prepare-run.ts';
import { createMessageReader, createTranscriptReader } from '../activities/run/read-transcript.ts';
import { createStoreSegment } from '../activities/run/store-segment.ts';
import { createScrubber } from '../activities/scrubbing/scrubber.ts';
import { createTokenBroker } from '../activities/tokens/broker.ts';
import { loadPrivateKeys, loadSigningKeys, signingKeysOf } from '../activities/tokens/sealed.ts';
import { createAuthorizationProof, createSignatureCheck } from '../activities/trust/dispatch-proof.ts';
import { createExecutionReader } from '../activities/trust/executions.ts';
import {
  createTrustedKeys,
  createTrustFile,
  createTrustUrl,
  readTrusted,
  type TrustStore,
} from '../activities/trust/keys.ts';
import type { StartProofParts } from '../activities/trust/start-proof.ts';
import { type BeginParts, createBegin } from '../activities/stretch/begin.ts';
import { createStretch } from '../activities/stretch/stretch.ts';
import { createVaultDirectory, VAULT_ROOT } from '../activities/vault/directory.ts';
import { createVaultEnvironment, type Vault } from '../activities/vault/port.ts';
import { QUERIES } from '../contracts/names.ts';
import type { Config } from '../contracts/schemas/config.ts';
import type { Channel } from '../contracts/schemas/channels.ts';
import type { ApprovalRequest } from '../contracts/schemas/request.ts';
import type { RunState } from '../contracts/schemas/run-state.ts';
import type { StoreNamespace } from '../contracts/schemas/stores.ts';
import { isTrustUrl, type TrustedJwk } from '../contracts/schemas/trust.ts';
import type { CatalogActivities } from '../contracts/wire/catalog.ts';
import type { ModelActivities, RunActivities, ToolActivities } from '../contracts/wire/activities.ts';
import type { Compared } from '../domain/policy/approvers.ts';
import { mayHost } from '../domain/run/hosted.ts';
import { contactedUrls } from './config/checks.ts';
import { type Environment, isBeside, type LoadedConfig } from './config/load.ts';
import { countingCalls, countingTokens, limitedServers, tellLimits, tellMessages } from './metrics.ts';
import { secretsOf } from './config/secrets.ts';
import { noting } from './recent-secrets.ts';
import { createNamesakes } from '../activities/catalog/namesakes.ts';

type RunSide = RunActivities & ModelActivities & CatalogActivities;

/**
 * Makes a store beside the configuration when it is first needed. Anywhere else a volume may be meant, and is waited
 * for. A bucket is never made: its owner decides who may read it.
 *
 * @param namespace whose runs will name what is stored; a directory keeps it for those who remove what is old
 * @throws CountersignError `SETUP_INCOMPLETE`, `CONFIG_INVALID` if the bucket does not take what the configuration says
 */
export async function openArtifacts(
  { config, baseDirectory }: LoadedConfig,
  namespace?: () => Promise<StoreNamespace>,
): Promise<ArtifactStore> {
  const { s3, directory } = config.artifacts;
  if (s3 !== undefined) {
    const { createBucketStore, setUpBucket } = await import('../activities/artifacts/bucket.ts');
    const { createBucketRequest } = await import('../activities/artifacts/bucket-request.ts');
    const ask = createBucketRequest(s3, openEgress(config));
    await setUpBucket(s3, ask);
    return createBucketStore(s3, ask);
  }
  const root = resolve(baseDirectory, directory);
  setUpRoot(root, isBeside(baseDirectory, root));
  if (namespace !== undefined) await recordNamespace(root, await namespace());
  return createDirectoryStore(root);
}

/**
 * Opens the sinks of the ledger port; undefined if none is configured.
 * @throws CountersignError `SETUP_INCOMPLETE`, `CONFIG_INVALID` if the key cannot be read
 */
export async function openLedger({ config, baseDirectory }: LoadedConfig): Promise<DeliverLedger | undefined> {
  if (config.ledger === undefined) return undefined;
  const { sign, directory, webhook } = config.ledger;
  const sinks: LedgerSink[] = [];
  if (directory !== undefined) {
    const root = resolve(baseDirectory, directory);
    setUpRoot(root, isBeside(baseDirectory, root), LEDGER_ROOT);
    sinks.push(createLedgerDirectory(root));
  }
  if (webhook !== undefined) sinks.push(createLedgerWebhook(webhook, openEgress(config)));
  return createDelivery(await createHeadSigner(sign, baseDirectory), sinks);
}

/**
 * @param client on the worker's connection: model steps query for uncached messages, and catalogs are read by query
 * @param toolSide on a worker of both roles: runs go on in it without being asked
 */
export async function runSideActivities(
  loaded: LoadedConfig,
  artifacts: ArtifactStore,
  client: Client,
  signing?: StartProofParts,
  toolSide?: Pick<ToolActivities, 'discoverTools' | 'callTool'>,
): Promise<RunSide> {
  const { config } = loaded;
  const loadToolset = createToolsetLoader(artifacts);
  const readCatalog = createCatalogReader(client);
  const conditions = new Conditions();
  const judge = createJudge(config, loadToolset, readCatalog, conditions, tellLog);
  const models = await createModelRegistry(config.models, openEgress(config));
  const transcript = createTranscriptReader(artifacts, client);
  const prepareRun = createPrepareRun(config, readCatalog, conditions, signing);
  const modelStep = coded(createModelStep({ models, toolset: loadToolset, transcript, judge }));
  return {
    ...stretching(
      {
        prepareRun,
        modelStep,
        believesRecords: config.trust.mode === 'temporal',
        ...toolSide,
      },
      client,
    ),
    readTrust: coded(async (tenant) => await signing?.keys.setFor(tenant, 'new')),
    reviewChange: coded(createReviewChange(config, signing)),
    judge: coded(judge),
    storeSegment: coded(createStoreSegment(artifacts, client, await openLedger(loaded))),
    ...openMessages(loaded, client),
    modelStep,
  };
}

/** One try of a message has a minute, and most of it belongs to its channel. */
const READ_MS = 10_000;

function openMessages(
  { config, headerSecrets }: LoadedConfig,
  client: Client,
): Pick<RunSide, 'sendMessage' | 'sendDigest'> {
  const { channels, page } = config.notify;
  const scrubber = createScrubber(secretsOf(config, headerSecrets));
  const egress = openEgress(config);
  // Policy may change while channels stay open.
  const compared: Compared = {
    get idCase() {
      return config.policy.idCase;
    },
  };
  const opened = Object.entries(channels).map(
    ([name, channel]) => [name, withFewInTrouble(name, openChannel(name, channel, egress, compared))] as const,
  );
  const gather = Object.entries(channels).map(([name, { digest }]) => [name, digest?.seconds] as const);
  const parts: SendParts = {
    channels: Object.fromEntries(opened),
    page,
    scrub: (value) => scrubber.value(value),
    tell: tellMessages(Runtime.instance(), Object.keys(channels)),
    readRequests: async (workflowId) =>
      await client.connection.withDeadline(
        Date.now() + READ_MS,
        async () => await client.workflow.getHandle(workflowId).query<ApprovalRequest[]>(QUERIES.requests),
      ),
    scheduler: currentScheduler,
  };
  const handOver = createHandOver(client, config.taskQueue);
  const readRun = createRunReader(client, config.taskQueue);
  return {
    sendMessage: coded(createSendMessage({ ...parts, gather: Object.fromEntries(gather), handOver })),
    sendDigest: coded(createSendDigest({ ...parts, policy: () => config.policy, readRun })),
  };
}

function openChannel(name: string, channel: Channel, egress: Egress, compared: Compared): MessageChannel {
  switch (channel.kind) {
    case 'webhook':
      return createWebhookChannel(name, channel, egress);
    case 'mail':
      return createMailChannel(name, channel, egress, compared);
    case 'slack':
      return createSlackChannel(name, channel, egress, compared);
    case 'slack-webhook':
      return createSlackWebhookChannel(name, channel, egress, compared);
  }
}

/** @param closed gets what is to be closed once no activity runs any more */
export async function toolSideActivities(
  loaded: LoadedConfig,
  artifacts: ArtifactStore,
  client: Client,
  signing?: StartProofParts,
  closed: { close(): Promise<void> }[] = [],
): Promise<ToolActivities> {
  const { config, baseDirectory, headerSecrets, environment = process.env } = loaded;
  const egress = openEgress(config);
  const minting = noting(
    createTokenBroker({
      config,
      headerSecrets,
      keys: await loadPrivateKeys(config.grants.keys, baseDirectory),
      signingKeys: await loadSigningKeys(signingKeysOf(config), baseDirectory),
      vault: openVault(loaded, environment),
      warn: tellLog,
      egress,
    }),
  );
  const broker = countingTokens(minting, config, Runtime.instance());
  const local = createMcpToolServer({ artifacts, egress, legacy: LEGACY_CALLS });
  const server = await withHostedServers(local, config, artifacts, egress);
  closed.push({ close: async () => await server.close?.() });
  const seal = await loadStateSeal(config.grants.keys, baseDirectory);
  const macs = await loadQuestionMacs(config.grants.keys, baseDirectory);
  const readCatalog = createCatalogReader(client);
  const liveTools = createLiveTools({ config, broker, server });
  const loadToolset = createToolsetLoader(artifacts);
  const called = {
    config,
    conditions: new Conditions(),
    loadToolset,
    broker,
    server,
    seal,
    macs,
    readCatalog,
    ...(signing && {
      checkSignatures: createSignatureCheck(signing, createNamesakes(config, readCatalog)),
      saidAuthorizations: createAuthorizationProof(signing),
    }),
  };
  const readMessage = createMessageReader(artifacts, client);
  const limits = new ServerLimits({
    configured: limitedServers(config),
    tell: tellLimits(Runtime.instance(), Object.keys(config.servers)),
  });
  const discovered = { config, artifacts, broker, server, limits };
  const proving = signing && { signing, saidAuthorizations: createAuthorizationProof(signing) };
  const read = { readMessage, heldRun: createHeldRun(client), readDiscarded: createDiscardedReader(client) };
  const activities: ToolActivities = {
    discoverTools: coded(createDiscoverTools({ ...discovered, liveTools, readCatalog, ...proving })),
    callTool: coded(createCallTool({ ...called, limits, liveTools, ...read })),
    resumeCall: coded(createResumeCall({ ...called, answers: createMcpAnswerSource({ artifacts, egress }) })),
    pollTask: coded(createPollTask({ ...called, tasks: createMcpTaskServer({ artifacts, egress }) })),
    discoverCatalog: coded(createDiscoverCatalog(discovered)),
  };
  return countingCalls(activities, config, Runtime.instance());
}

/**
 * Makes the activities that go on by themselves.
 * @param inner what they are made of; without `callTool` and `discoverTools` they take model steps only
 */
function stretching(
  inner: Omit<BeginParts, 'completion' | 'cancelsCalls'>,
  { activity, connection, workflow }: Pick<Client, 'activity' | 'connection' | 'workflow'>,
): Pick<RunSide, 'prepareRun' | 'stretch'> {
  const within = async <T>(ms: number, ask: () => Promise<T>): Promise<T> =>
    await connection.withDeadline(Date.now() + ms, ask);
  const parts: BeginParts = {
    ...inner,
    completion: {
      heartbeat: async (...told) => await within(HEARTBEAT_MS, async () => await activity.heartbeat(...told)),
      complete: async (...done) => await within(ANSWER_MS, async () => await activity.complete(...done)),
      fail: async (...failed) => await within(ANSWER_MS, async () => await activity.fail(...failed)),
    },
    cancelsCalls: async (workflowId, runId) => {
      const run = workflow.getHandle(workflowId, runId);
      const state = await within(ANSWER_MS, async () => await run.query<RunState>(QUERIES.state));
      return state.cancelsCalls === true;
    },
  };
  return { prepareRun: coded(createBegin(parts)), stretch: coded(createStretch(parts)) };
}

/** A heartbeat that takes longer is taken for one whose fate is unknown. */
const HEARTBEAT_MS = 5_000;
/** Longest wait for any other answer. Temporal waits no longer for the end of an attempt that sends no heartbeats. */
const ANSWER_MS = 30_000;

function tellLog(message: string, meta: Readonly<Record<string, string>>): void {
  Runtime.instance().logger.warn(message, meta);
}

export function openEgress(config: Config): Egress {
  // Models without a `baseUrl` are asked at their provider.
  const providers = Object.values(config.models).flatMap((model) =>
    (model.provider === 'openai' || model.provider === 'anthropic') && model.baseUrl === undefined
      ? [PROVIDER_URLS[model.provider]]
      : [],
  );
  const urls = [...contactedUrls(config).map(({ url }) => url), ...providers];
  return createEgress({ rules: config.egress, origins: new Set(urls.map((url) => new URL(url).origin)) });
}

export function openSlack(config: Config): Outlet | undefined {
  const { responseUrl: to } = config.gateway?.slack ?? {};
  if (to === undefined) return undefined;
  return openEgress(config).outlet({ what: 'gateway.slack.responseUrl', to: [to], maxBytes: MOST_METADATA_BYTES });
}

/** Opens the way to the identity provider of the gateway or the codec server, and to nobody else. */
export function openProvider(config: Config, of: 'gateway' | 'codecServer' = 'gateway'): Outlet | undefined {
  const oidc = config[of]?.oidc;
  if (oidc === undefined) return undefined;
  const to = [oidc.issuer, ...(oidc.jwksUri === undefined ? [] : [oidc.jwksUri]), ...config.egress.issuerEndpoints];
  return openEgress(config).outlet({ what: `${of}.oidc`, to, maxBytes: MOST_METADATA_BYTES });
}

const MOST_METADATA_BYTES = 1_048_576;

/**
 * Reads the keys of trust mode `signed` before anything is served; undefined in trust mode `temporal`.
 * @throws CountersignError `TRUST_UNAVAILABLE`, `CONFIG_INVALID`
 */
export async function openTrust(
  { config, baseDirectory }: LoadedConfig,
  artifacts: ArtifactStore,
  client: Client,
): Promise<StartProofParts | undefined> {
  const { trust, taskQueue } = config;
  if (trust.mode === 'temporal') return undefined;
  const keys = createTrustedKeys(trust, storeOf(trust.jwks, { config, baseDirectory }), Date.now, tellLog);
  await keys.setFor('default', 'new');
  return { keys, artifacts, readExecution: createExecutionReader(client), taskQueue, config };
}

/**
 * Returns the keys themselves, for callers that check signatures.
 * @throws CountersignError `TRUST_UNAVAILABLE`, `CONFIG_INVALID`
 */
export async function readTrustedKeys(jwks: string, place: TrustPlace): Promise<readonly TrustedJwk[]> {
  return await readTrusted(storeOf(jwks, place));
}

type TrustPlace = Pick<LoadedConfig, 'config' | 'baseDirectory'>;

function storeOf(jwks: string, { config, baseDirectory }: TrustPlace): TrustStore {
  if (isTrustUrl(jwks)) return createTrustUrl(jwks, openEgress(config));
  return createTrustFile(resolve(baseDirectory, jwks), jwks);
}

/**
 * Opens the vault that a configuration names, as `openArtifacts` does for a directory; undefined if it names none.
 * @throws CountersignError `SETUP_INCOMPLETE`
 */
export function openVault(
  { config, baseDirectory }: Pick<LoadedConfig, 'config' | 'baseDirectory'>,
  environment: Environment,
): Vault | undefined {
  const { vault } = config;
  if (vault === undefined) return undefined;
  if (vault.kind === 'environment') return createVaultEnvironment(vault.variables, environment);
  const root = resolve(baseDirectory, vault.directory);
  setUpRoot(root, isBeside(baseDirectory, root), VAULT_ROOT);
  return createVaultDirectory(root, vault.keys);
}

/**
 * Adds the servers that the providers of models call (docs/adr/0080). Their adapter is loaded only if one is
 * configured.
 * @param config with the keys of the models through which servers are called
 */
async function withHostedServers(
  local: ToolServer,
  { servers, models }: Pick<Config, 'servers' | 'models'>,
  artifacts: ArtifactStore,
  egress: Egress,
): Promise<ToolServer> {
  if (Object.values(servers).every(({ execute = 'local' }) => execute === 'local')) return local;
  const hosted = await import('../activities/hosted/hosted-server.ts');
  const hosting = new Map(
    Object.entries(models).flatMap(([name, model]) =>
      model.provider === 'openai' && mayHost({ models }, name)
        ? [[name, hosted.createHostingModel(name, model, egress)] as const]
        : [],
    ),
  );
  return hosted.createChoosingServer(
    local,
    hosted.createHostedServer({ artifacts, models: (name) => hosting.get(name) }),
  );
}
