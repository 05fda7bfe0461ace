/**
 * Puts ports and adapters together: the only place that knows all of them.
 *
 * 1. The activities of role `runs` hold no server credentials; those of role `tools` start no model.
 */
import { resolve } from 'node:path';
import type { Client } from '@temporalio/client';
import { Runtime } from '@temporalio/worker';
import { createBucketStore, setUpBucket } from '../activities/artifacts/bucket.ts';
import { createBucketRequest } from '../activities/artifacts/bucket-request.ts';
import { createDirectoryStore } from '../activities/artifacts/directory.ts';
import { recordNamespace } from '../activities/artifacts/namespaces.ts';
import type { ArtifactStore } from '../activities/artifacts/port.ts';
import { setUpRoot } from '../activities/artifacts/root.ts';
import { configuredCapabilities } from '../activities/catalog/capabilities.ts';
import { createCatalogReader } from '../activities/catalog/reader.ts';
import { createReviewChange } from '../activities/catalog/review.ts';
import { createToolsetLoader } from '../activities/catalog/toolset.ts';
import { coded } from '../activities/coded.ts';
import { createDelivery, type DeliverLedger } from '../activities/ledger/delivery.ts';
import { createLedgerDirectory, LEDGER_ROOT } from '../activities/ledger/directory.ts';
import { createHeadSigner } from '../activities/ledger/signer.ts';
import { createLedgerWebhook } from '../activities/ledger/webhook.ts';
import { createModelStep } from '../activities/models/model-step.ts';
import { createModelRegistry } from '../activities/models/registry.ts';
import { Conditions } from '../activities/policy/conditions.ts';
import { createJudge } from '../activities/policy/judge.ts';
import { createDiscardedReader } from '../activities/run/discarded-tail.ts';
import { createHeldRun } from '../activities/run/held-run.ts';
import { createPrepareRun } from '../activities/run/prepare-run.ts';
import { createMessageReader, createTranscriptReader } from '../activities/run/read-transcript.ts';
import { createStoreSegment } from '../activities/run/store-segment.ts';
import { createTokenBroker } from '../activities/tokens/broker.ts';
import { loadPrivateKeys } from '../activities/tokens/private-keys.ts';
import { loadSigningKeys, signingKeysOf } from '../activities/tokens/signing-keys.ts';
import { createCallTool } from '../activities/tools/call-tool.ts';
import { createDiscoverCatalog } from '../activities/tools/discover-catalog.ts';
import { createDiscoverTools } from '../activities/tools/discover-tools.ts';
import { createLiveTools } from '../activities/tools/live-tools.ts';
import { createMcpToolServer } from '../activities/tools/mcp-server.ts';
import { createResumeCall } from '../activities/tools/resume-call.ts';
import { createMcpTaskServer } from '../activities/tools/mcp-tasks.ts';
import { createPollTask } from '../activities/tools/poll-task.ts';
import { ServerLimits } from '../activities/tools/server-limits.ts';
import { loadQuestionMacs } from '../activities/tools/question-mac.ts';
import { loadStateSeal } from '../activities/tools/state-seal.ts';
import { createAuthorizationProof } from '../activities/trust/authorization-proof.ts';
import { createSignatureCheck } from '../activities/trust/dispatch-proof.ts';
import { createNamesakes } from '../activities/trust/namesake.ts';
import type { StartProofParts } from '../activities/trust/start-proof.ts';
import type { ModelActivities, RunActivities, ToolActivities } from '../contracts/activities.ts';
import type { CatalogActivities } from '../contracts/catalog-activities.ts';
import type { StoreNamespace } from '../contracts/schemas/artifact-store.ts';
import { isBeside } from './beside.ts';
import type { LoadedConfig } from './config.ts';
import { limitedServers, tellLimits } from './server-limits.ts';
import { openEgress } from './egress.ts';
import { noting } from './recent-secrets.ts';
import { openVault } from './vault.ts';

export type RunSide = RunActivities & ModelActivities & CatalogActivities;

/**
 * A store beside the configuration is made when it is first needed; anywhere else a volume may be meant, and is waited for. A bucket
 * is never made: who may read it is for its owner to say.
 *
 * @param namespace whose runs will name what is stored; a directory keeps it for those who remove what is old
 * @throws CountersignError `SETUP_INCOMPLETE`, `CONFIG_INVALID` where the bucket does not take what the configuration says
 */
export async function openArtifacts(
  { config, baseDirectory }: LoadedConfig,
  namespace?: () => Promise<StoreNamespace>,
): Promise<ArtifactStore> {
  const { s3, directory } = config.artifacts;
  if (s3 !== undefined) {
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
 * Sinks of the ledger port; undefined where none is configured.
 *
 * @throws CountersignError `SETUP_INCOMPLETE`, `CONFIG_INVALID` where the key cannot be read
 */
export async function openLedger({ config, baseDirectory }: LoadedConfig): Promise<DeliverLedger | undefined> {
  if (config.ledger === undefined) return undefined;
  const { sign, directory, webhook } = config.ledger;
  const root = directory === undefined ? undefined : resolve(baseDirectory, directory);
  if (root !== undefined) setUpRoot(root, isBeside(baseDirectory, root), LEDGER_ROOT);
  const sinks = [
    ...(root === undefined ? [] : [createLedgerDirectory(root)]),
    ...(webhook === undefined ? [] : [createLedgerWebhook(webhook, openEgress(config))]),
  ];
  return createDelivery(await createHeadSigner(sign, baseDirectory), sinks);
}

/** @param client on the worker's connection: model steps read what they have not cached by query, and so are catalogs */
export async function runSideActivities(
  loaded: LoadedConfig,
  artifacts: ArtifactStore,
  client: Client,
  signing?: StartProofParts,
): Promise<RunSide> {
  const { config } = loaded;
  const loadToolset = createToolsetLoader(artifacts);
  const readCatalog = createCatalogReader(client);
  const conditions = new Conditions();
  const judge = createJudge(config, loadToolset, readCatalog, conditions, tellLog);
  return {
    prepareRun: coded(createPrepareRun(config, readCatalog, conditions, signing)),
    readTrust: coded(async (tenant) => await signing?.keys.setFor(tenant, 'new')),
    reviewChange: coded(createReviewChange(config, configuredCapabilities(config), signing)),
    judge: coded(judge),
    storeSegment: coded(createStoreSegment(artifacts, client, await openLedger(loaded))),
    modelStep: coded(
      createModelStep({
        models: createModelRegistry(config.models, openEgress(config)),
        toolset: loadToolset,
        transcript: createTranscriptReader(artifacts, client),
        judge,
      }),
    ),
  };
}

export async function toolSideActivities(
  loaded: LoadedConfig,
  artifacts: ArtifactStore,
  client: Client,
  signing?: StartProofParts,
): Promise<ToolActivities> {
  const { config, baseDirectory } = loaded;
  const egress = openEgress(config);
  const minting = createTokenBroker({
    config,
    keys: await loadPrivateKeys(config.grants.keys, baseDirectory),
    signingKeys: await loadSigningKeys(signingKeysOf(config), baseDirectory),
    vault: openVault(loaded, process.env),
    warn: tellLog,
    egress,
  });
  const broker = noting(minting);
  const server = createMcpToolServer({ artifacts, egress });
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
  const readMessage = createMessageReader(client, createTranscriptReader(artifacts, client));
  const limits = new ServerLimits({ configured: limitedServers(config), tell: tellLimits(Runtime.instance()) });
  return {
    discoverTools: coded(
      createDiscoverTools({
        config,
        artifacts,
        broker,
        server,
        limits,
        liveTools,
        readCatalog,
        ...(signing && { signing, saidAuthorizations: createAuthorizationProof(signing) }),
      }),
    ),
    callTool: coded(
      createCallTool({
        ...called,
        limits,
        liveTools,
        readMessage,
        heldRun: createHeldRun(client),
        readDiscarded: createDiscardedReader(client),
      }),
    ),
    resumeCall: coded(createResumeCall(called)),
    pollTask: coded(createPollTask({ ...called, tasks: createMcpTaskServer({ artifacts, egress }) })),
    discoverCatalog: coded(createDiscoverCatalog({ config, artifacts, broker, server, limits })),
  };
}

/** To the log of the process, whatever its level. */
function tellLog(message: string, meta: Readonly<Record<string, string>>): void {
  Runtime.instance().logger.warn(message, meta);
}
