/**
 * Where recorded runs are played: a real dev server, real workers, one tool server, models that are scripts.
 *
 * Nothing of this machine may get into a history: workers and clients have made-up names, failures no stack traces.
 */
import { generateKeyPairSync } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { Client } from '@temporalio/client';
import { DefaultLogger, Runtime } from '@temporalio/worker';
import { Countersign, type Signer } from '../../client/index.ts';
import { Config, type ConfigInput, type Script } from '../../contracts/schemas/config.ts';
import type { WorkflowBundle } from '../../workers/bundle.ts';
import { connectClient } from '../../workers/client-connection.ts';
import { createDataConverter } from '../../workers/codec.ts';
import { startDevServer } from '../../workers/dev-server.ts';
import type { WorkerRole } from '../../workers/role.ts';
import { startWorkers, type Workers } from '../../workers/worker.ts';
import { APPROVER } from './attempts.ts';
import { SIGNED_POLICY, signedKeys, type SignedKeys, writeKeys } from './signed.ts';
import { FRESH_TOKEN, startToolServer, TOOL_SERVER_URL, type ToolServer } from './tool-server.ts';

/** Encrypts one of the histories. A key of this repository, for nothing else. */
export const CORPUS_ENCRYPTION: Config['encryption'] = {
  keys: [{ id: 'corpus', key: 'Y291bnRlcnNpZ24gcmVwbGF5IGNvcnB1cyBrZXkgMDE=' }],
};

/** A deployment of the service: a queue of runs and what its workers are configured with. */
export interface Deployment {
  readonly client: Client;
  readonly countersign: Countersign;
  readonly taskQueue: string;
}

export interface Stage {
  readonly tools: ToolServer;
  /** All in one worker. */
  readonly plain: Deployment;
  readonly encrypted: Deployment;
  /** Tool calls have a queue of their own, which nobody serves unless told to. */
  readonly split: Deployment & { serveTools(over?: ConfigInput['policy']): Promise<Workers> };
  /** In trust mode `signed`, with keys of its own. */
  openSigned(): Promise<SignedDeployment>;
  /** The tool server has these limits. */
  limited(limits: { readonly concurrency?: number; readonly perSecond?: number }): Promise<Deployment>;
  /** Whoever is asked may change arguments, answer and be remembered; its workers can forget what they have read. Begun when first asked for. */
  editable(): Promise<Editable>;
  /** The tools are called with the grants of runs. Begun when first asked for. */
  lent(): Promise<Deployment>;
  stop(): Promise<void>;
}

/** Vault entries of ben: one that the tool server takes no more, and one that it takes. */
export const STALE_REF = 'ben-stale';
export const FRESH_REF = 'ben-fresh';
const LENT: ConfigInput['vault'] = {
  kind: 'environment',
  variables: { [STALE_REF]: 'CORPUS_GRANT_STALE', [FRESH_REF]: 'CORPUS_GRANT_FRESH' },
};

function lend(variable: string, token: string): void {
  const bound = { tenant: 'office', initiators: ['ben'], server: TOOL_SERVER_URL };
  const entry = { secret: { kind: 'token', token }, bound, storedAt: '2026-01-01T00:00:00.000Z' };
  process.env[variable] = JSON.stringify(entry);
}

export interface Editable extends Deployment {
  /** Where its artifacts are. */
  readonly directory: string;
  restart(): Promise<void>;
}

const EDITABLE: ConfigInput['policy'] = {
  approvers: { ids: [APPROVER.id, 'zoe'], may: ['edit', 'respond'], remember: ['call', 'arguments'] },
  servers: {
    notes: {
      default: 'ask',
      tools: { seal_note: { action: 'ask', approvers: { ids: [APPROVER.id, 'zoe'], need: 2, may: ['edit'] } } },
    },
  },
};

export interface SignedDeployment {
  readonly deployment: Deployment;
  readonly keys: SignedKeys;
  /** From now on. */
  trust(keys: readonly SignedKeys[keyof SignedKeys][]): Promise<void>;
}

const ask = { action: 'ask' as const, approvers: { ids: [APPROVER.id], groups: APPROVER.groups } };

/** Two of three, and not who started the run (ben). */
const ofTwo = {
  action: 'ask' as const,
  approvers: { ids: [APPROVER.id, 'ben', 'zoe'], need: 2, notInitiator: true as const },
};

const POLICY: ConfigInput['policy'] = {
  servers: {
    notes: {
      default: 'allow',
      tools: {
        write_note: ask,
        seal_note: ofTwo,
        send_note: { ...ask, deadlineSeconds: 1 },
        post_note: { ...ask, deadlineSeconds: 600, extendableToSeconds: 3_600 },
        stamp_note: { ...ask, validForSeconds: 1 },
        file_note: {
          ...ask,
          approvers: {
            ids: [APPROVER.id, 'eve'],
            need: 2,
            escalate: { afterSeconds: 20, replace: { ids: ['zoe'], groups: ['heads'] } },
          },
          remindAfterSeconds: 1,
        },
        delete_note: 'deny',
      },
    },
  },
};

const ADMINISTRATOR = { may: ['connect', 'loosen', 'tighten'] as ('connect' | 'loosen' | 'tighten')[] };

/** Tenants of their own, so that runs of the others find no catalog. */
const CATALOG_CONFIG: ConfigInput['catalog'] = {
  administrators: ['archive', 'cellar'].map((tenant) => ({ ...ADMINISTRATOR, tenant, ids: ['ann', 'zoe'] })),
  loosening: 'countersign',
};

const PRICE = { input: '1', output: '3', currency: 'EUR' };

/** For the split deployment: who may decide has changed since the run asked. */
export const STRICTER: ConfigInput['policy'] = {
  servers: { notes: { tools: { write_note: { action: 'ask', approvers: { ids: ['zoe'] } } } } },
};

/** @param scripts model name → what it says */
export async function openStage(
  executable: string,
  scripts: Readonly<Record<string, Script>>,
  bundle: WorkflowBundle,
): Promise<Stage> {
  // Failures carry stack traces, and these the folders of this machine: the flag for the sandboxes, the property for here.
  setFlagsFromString('--stack-trace-limit=0');
  Error.stackTraceLimit = 0;
  Runtime.install({ logger: new DefaultLogger('ERROR') });
  const directory = await mkdtemp(join(tmpdir(), 'countersign-record-'));
  const closing: (() => Promise<unknown>)[] = [() => rm(directory, { recursive: true, force: true })];
  const stop = async (): Promise<void> => {
    for (const close of closing.splice(0).toReversed()) await close();
  };
  try {
    // Servers may ask people only where their state can be sealed.
    const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    await writeFile(join(directory, 'zone.pem'), privateKey.export({ type: 'pkcs8', format: 'pem' }));
    const tools = await startToolServer();
    closing.push(() => tools.stop());
    const { address, namespace, stop: stopServer } = await startDevServer({ executable, ui: false });
    closing.push(() => stopServer());
    const models = Object.fromEntries(
      Object.entries(scripts).map(([name, script]) => [name, { provider: 'scripted' as const, script, price: PRICE }]),
    );
    const configOf = (taskQueue: string, over: ConfigInput = {}, toolQueue?: string): Config =>
      Config.parse({
        taskQueue,
        models,
        policy: POLICY,
        worker: { shutdownGraceSeconds: 1 },
        egress: { allowLoopback: true },
        catalog: CATALOG_CONFIG,
        grants: { keys: [{ kid: 'corpus', privateKeyFile: 'zone.pem' }] },
        servers: {
          notes: {
            url: TOOL_SERVER_URL,
            credentials: { kind: 'none' },
            ...(toolQueue === undefined ? {} : { taskQueue: toolQueue }),
          },
        },
        ...over,
      });
    const serve = async (config: Config, role: WorkerRole): Promise<Workers> => {
      const loaded = { config, baseDirectory: directory, path: undefined };
      const workers = await startWorkers({
        loaded,
        connectionOptions: { address },
        namespace,
        role,
        bundle,
        identity: 'worker',
      });
      closing.push(() => workers.stop());
      return workers;
    };
    const deploy = async (config: Config, role: WorkerRole, signer?: Signer): Promise<Deployment> => {
      await serve(config, role);
      return await clientOf(config, signer);
    };
    const clientOf = async (config: Config, signer?: Signer): Promise<Deployment> => {
      const connection = await connectClient({ address });
      closing.push(() => connection.close());
      const client = new Client({
        connection,
        namespace,
        identity: 'client',
        dataConverter: createDataConverter(config),
      });
      const { taskQueue } = config;
      return { client, countersign: new Countersign({ client, taskQueue, ...(signer && { signer }) }), taskQueue };
    };
    const openSigned = async (): Promise<SignedDeployment> => {
      const keys = signedKeys();
      const trust = async (trusted: Parameters<SignedDeployment['trust']>[0]): Promise<void> =>
        await writeKeys(join(directory, 'trust.jwks'), trusted);
      await trust([]);
      const over: ConfigInput = {
        policy: SIGNED_POLICY,
        trust: { mode: 'signed', jwks: 'trust.jwks' },
        catalog: {
          administrators: [{ ...ADMINISTRATOR, tenant: 'office', ids: ['acme|ann', 'acme|zoe'] }],
          origins: [new URL(TOOL_SERVER_URL).origin],
          loosening: 'countersign',
        },
      };
      return {
        keys,
        trust,
        deployment: await deploy(configOf('countersign-signed', over), 'all', keys.backend.signer),
      };
    };
    let editable: Promise<Editable> | undefined;
    const openEditable = async (): Promise<Editable> => {
      const config = configOf('countersign-editable', { policy: EDITABLE });
      let workers = await serve(config, 'all');
      const restart = async (): Promise<void> => {
        await workers.stop();
        workers = await serve(config, 'all');
      };
      return { ...(await clientOf(config)), directory: join(directory, config.artifacts.directory), restart };
    };
    let lent: Promise<Deployment> | undefined;
    const openLent = async (): Promise<Deployment> => {
      lend('CORPUS_GRANT_STALE', 'stale');
      lend('CORPUS_GRANT_FRESH', FRESH_TOKEN);
      const servers = { notes: { url: TOOL_SERVER_URL, credentials: { kind: 'given' as const } } };
      return await deploy(configOf('countersign-lent', { servers, vault: LENT }), 'all');
    };
    return {
      tools,
      stop,
      lent: () => (lent ??= openLent()),
      editable: () => (editable ??= openEditable()),
      openSigned,
      limited: async (limits) => {
        const notes = { url: TOOL_SERVER_URL, credentials: { kind: 'none' as const }, limits };
        return await deploy(
          configOf(`countersign-limited-${Object.keys(limits).join('-')}`, { servers: { notes } }),
          'all',
        );
      },
      plain: await deploy(configOf('countersign'), 'all'),
      encrypted: await deploy(configOf('countersign-encrypted', { encryption: CORPUS_ENCRYPTION }), 'all'),
      split: {
        ...(await deploy(configOf('countersign-split', {}, 'countersign-tools'), 'runs')),
        serveTools: (policy = POLICY) => serve(configOf('countersign-split', { policy }, 'countersign-tools'), 'tools'),
      },
    };
  } catch (error) {
    await stop();
    throw error;
  }
}
