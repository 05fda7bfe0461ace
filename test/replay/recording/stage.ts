/**
 * Starts what recorded runs need: a real dev server, real workers, one tool server, and models that are
 * scripts. One file, because a stage is opened and closed as one, and says in one place who decides what in it.
 *
 * 1. Nothing of this machine may get into a history. Workers and clients have made-up names, and failures have no stack
 *    traces.
 */
import { generateKeyPairSync } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { Client } from '@temporalio/client';
import { DefaultLogger, Runtime } from '@temporalio/worker';
import { Countersign, readArtifactsFrom, type Signer } from '../../../client/index.ts';
import { defined } from '../../../contracts/defined.ts';
import { Config, type ConfigInput } from '../../../contracts/schemas/config.ts';
import type { Script } from '../../../contracts/schemas/script.ts';
import { TrustConfig } from '../../../contracts/schemas/trust.ts';
import type { WorkflowBundle } from '../../../workers/bundle.ts';
import { createDataConverter } from '../../../workers/codec.ts';
import type { WorkerRole } from '../../../workers/config/load.ts';
import { connectClient } from '../../../workers/connection.ts';
import { startDevServer } from '../../../workers/dev-server.ts';
import { startWorkers, type Workers } from '../../../workers/worker.ts';
import { keepThreads } from '../../support/kept-threads.ts';
import { listenOnLoopback } from '../../support/servers/loopback-server.ts';
import { type FaultRoute, startFaultRoute } from '../../support/faults/world.ts';
import { HOSTING_KEY } from '../../support/models/hosting-provider.ts';
import { startDeciders } from './deciders.ts';
import { HOSTED_MODEL, startScriptedProvider } from './hosting.ts';
import { APPROVER } from './scene.ts';
import { SIGNED_POLICY, signedKeys, type SignedKeys, writeKeys } from './signed.ts';
import {
  FRESH_TOKEN,
  KEPT_SERVER_URL,
  OPEN_SCOPE,
  startToolServer,
  TASK_SERVER_URL,
  TOOL_SERVER_ORIGIN,
  TOOL_SERVER_URL,
  type ToolServer,
} from './tool-server.ts';

/** Task queue for the dispatches of `patient`. */
export const PATIENT_QUEUE = 'countersign-patient-tools';

/** Task queue for the tools of `openSignedApart`. */
export const SIGNED_TOOLS_QUEUE = 'countersign-signed-tools';

/**
 * Key with which workers in mode `signed` prove what they write. It belongs to this repository, like the key below.
 */
export const CORPUS_TRUST: Config['trust'] = TrustConfig.parse({
  mode: 'signed',
  jwks: 'trust.jwks',
  zone: { keys: [{ id: 'corpus', key: Buffer.alloc(32, 9).toString('base64') }] },
});

/** Key that encrypts one of the histories. It belongs to this repository and protects nothing else. */
export const CORPUS_ENCRYPTION: Config['encryption'] = {
  keys: [{ id: 'corpus', key: 'Y291bnRlcnNpZ24gcmVwbGF5IGNvcnB1cyBrZXkgMDE=' }],
};

/** A deployment of the service: a task queue for runs, and the configuration of its workers. */
export interface Deployment {
  readonly client: Client;
  readonly countersign: Countersign;
  readonly taskQueue: string;
}

/** What is opened by a call is started on first use. */
export interface Stage {
  readonly tools: ToolServer;
  /** One worker does everything. */
  readonly plain: Deployment;
  readonly encrypted: Deployment;
  /** Tool calls have a queue of their own, which is served only after `serveTools`. */
  readonly split: Deployment & { serveTools(over?: ConfigInput['policy']): Promise<Workers> };
  /** Trust mode `signed`, with keys of its own. */
  openSigned(): Promise<SignedDeployment>;
  /** The same with a separate queue for tools, which is served only after `serveTools`. */
  openSignedApart(): Promise<SignedDeployment & { serveTools(): Promise<Workers> }>;
  /** The tool server has these limits. */
  limited(limits: { readonly concurrency?: number; readonly perSecond?: number }): Promise<Deployment>;
  /** Approvers may edit arguments, answer for the tool and be remembered. Workers can forget what they have read. */
  editable(): Promise<Editable>;
  /**
   * The tool server is one of the legacy era that keeps its answers. Workers can be stopped in the middle of a call.
   */
  kept(): Promise<Deployment & { restart(): Promise<void> }>;
  /** Calls use the grants of runs. */
  lent(): Promise<Deployment>;
  /** Tokens are minted for the tools, and two people consent to wider ones. */
  scoped(): Promise<Deployment>;
  /** The tool server works on calls as tasks. */
  atWork(): Promise<Deployment>;
  /** The tool server may ask people on an open connection. Its queue is served only after `serveTools`. */
  patient(): Promise<Deployment & { serveTools(): Promise<Workers> }>;
  /** The model's provider calls the tool server (docs/adr/0080). */
  hosted(): Promise<Deployment>;
  /** Linked resources may be read. */
  linked(): Promise<Deployment>;
  /** Its queues are served only on request. */
  crossed(): Promise<Crossed>;
  /** As `crossed`, and runs go on in stretches. */
  crossedStretching(): Promise<Crossed>;
  /** People are told of requests; two channels are away until they are brought back. */
  telling(): Promise<Deployment & { bringBack(channel: 'away' | 'rounds'): void; takeAway(channel: 'rounds'): void }>;
  /** Runs go on in stretches. */
  stretching(): Promise<Deployment>;
  /** The same on a queue of its own. The way of its worker to Temporal can be cut, and another worker can be started. */
  losing(taskQueue: string): Promise<Deployment & { readonly way: FaultRoute; serve(): Promise<Workers> }>;
  /**
   * Stops workers of other builds, and starts them again with this one.
   * @param taskQueues of runs; default: all
   */
  change(build: WorkflowBundle, taskQueues?: ReadonlySet<string>): Promise<void>;
  /** Serves every queue that scenes serve only now and then, so that each run can come to its end. */
  serveAll(): Promise<void>;
  /** Ends what scenes have started and not ended. */
  dismiss(): Promise<void>;
  stop(): Promise<void>;
}

/** Vault entries of ben: one that the tool server no longer accepts, and one that it accepts. */
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
  /** Folder of its artifacts. */
  readonly directory: string;
  restart(): Promise<void>;
}

export interface Crossed extends Deployment {
  serve(role: 'runs' | 'tools'): Promise<Serving>;
  /** Serves only workflow tasks: scheduled activities wait for another worker. */
  serveTasks(): Promise<Serving>;
}

export type Serving = Pick<Workers, 'stop'>;

export interface SignedDeployment {
  readonly deployment: Deployment;
  readonly keys: SignedKeys;
  /** Replaces the trusted keys from now on. */
  trust(keys: readonly SignedKeys[keyof SignedKeys][]): Promise<void>;
}

const ADMINISTRATOR = { may: ['connect', 'loosen', 'tighten'] as ('connect' | 'loosen' | 'tighten')[] };

/** Catalogs have tenants of their own, so that other runs find no catalog. */
const CATALOG_CONFIG: ConfigInput['catalog'] = {
  administrators: ['archive', 'cellar'].map((tenant) => ({ ...ADMINISTRATOR, tenant, ids: ['ann', 'zoe'] })),
  loosening: 'countersign',
  origins: [TOOL_SERVER_ORIGIN],
};

/** As in the releases before docs/adr/0058. */
const STEP_BY_STEP: ConfigInput['execution'] = { stretch: { turns: 0 } };
/** A stretch ends where its scene says, however slow the machine is. */
const STRETCHES: ConfigInput['execution'] = { stretch: { seconds: 300 } };

/** The one server that runs know. */
function serversOf(over: Partial<NonNullable<ConfigInput['servers']>[string]>): NonNullable<ConfigInput['servers']> {
  return { notes: { url: TOOL_SERVER_URL, credentials: { kind: 'none' }, ...over } };
}

/** Opens on first use. */
function once<T>(open: () => Promise<T>): () => Promise<T> {
  let opened: Promise<T> | undefined;
  return () => (opened ??= open());
}

const SCOPED = {
  kind: 'client-credentials' as const,
  issuer: TOOL_SERVER_ORIGIN,
  clientId: 'corpus',
  clientSecret: 'of the corpus, for nothing else',
  scopes: { discovery: ['notes:list'], default: ['notes:read'], consentable: [OPEN_SCOPE] },
};

const PRICE = { input: '1', output: '3', currency: 'EUR' };

/** @param scripts model name → script of its answers */
export async function openStage(
  executable: string,
  scripts: Readonly<Record<string, Script>>,
  first: WorkflowBundle,
): Promise<Stage> {
  keepThreads();
  let bundle = first;
  const crew = new Set<Replaceable>();
  /** Workers that scenes have asked for. */
  const hands = new Set<Serving>();
  const ways = new Set<FaultRoute>();
  /** Serves what is served only now and then, by queue. */
  const callable = new Map<string, () => Promise<Serving>>();
  // Stack traces of failures would name folders of this machine. The flag covers the sandboxes, the property this
  // process.
  setFlagsFromString('--stack-trace-limit=0');
  Error.stackTraceLimit = 0;
  Runtime.install({ logger: new DefaultLogger('ERROR') });
  const directory = await mkdtemp(join(tmpdir(), 'countersign-record-'));
  const closing: (() => Promise<unknown>)[] = [() => rm(directory, { recursive: true, force: true })];
  const stop = async (): Promise<void> => {
    for (const close of closing.splice(0).toReversed()) await close();
  };
  try {
    // Servers may ask people only if their state can be sealed, which needs a key.
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
        servers: serversOf(defined({ taskQueue: toolQueue })),
        execution: STEP_BY_STEP,
        ...over,
      });
    const serving = async <W extends Serving>(taskQueue: string, start: () => Promise<W>): Promise<W> => {
      const replaceable = new Replaceable(taskQueue, async () => [bundle, await start()]);
      const workers = await replaceable.start();
      crew.add(replaceable);
      const stopServing = async (): Promise<void> => {
        crew.delete(replaceable);
        await replaceable.stop();
      };
      closing.push(stopServing);
      return { ...workers, stop: stopServing };
    };
    /** Adds a worker that a scene may start, and may forget. */
    const byHand = <W extends Serving>(queue: string, start: () => Promise<W>): (() => Promise<W>) => {
      const called = async (): Promise<W> => {
        const workers = await start();
        hands.add(workers);
        return workers;
      };
      callable.set(queue, called);
      return called;
    };
    const serve = async (config: Config, role: WorkerRole, by = address): Promise<Workers> => {
      const loaded = { config, baseDirectory: directory, path: undefined };
      return await serving(
        config.taskQueue,
        async () =>
          await startWorkers({
            loaded,
            connectionOptions: { address: by },
            namespace,
            role,
            bundle,
            identity: 'worker',
          }),
      );
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
      const artifacts = readArtifactsFrom(join(directory, config.artifacts.directory));
      const countersign = new Countersign({ client, taskQueue, artifacts, ...(signer && { signer }) });
      return { client, countersign, taskQueue };
    };
    const restartable = async (config: Config): Promise<Deployment & { restart(): Promise<void> }> => {
      let workers = await serve(config, 'all');
      const restart = async (): Promise<void> => {
        await workers.stop();
        workers = await serve(config, 'all');
      };
      return { ...(await clientOf(config)), restart };
    };
    const openSigned = async (
      taskQueue = 'countersign-signed',
      toolQueue?: string,
    ): Promise<SignedDeployment & { serveTools(): Promise<Workers> }> => {
      const keys = signedKeys();
      const trust = async (trusted: Parameters<SignedDeployment['trust']>[0]): Promise<void> =>
        await writeKeys(join(directory, 'trust.jwks'), trusted);
      await trust([]);
      const over: ConfigInput = {
        policy: SIGNED_POLICY,
        trust: CORPUS_TRUST,
        catalog: {
          administrators: [{ ...ADMINISTRATOR, tenant: 'office', ids: ['acme|ann', 'acme|zoe'] }],
          origins: [new URL(TOOL_SERVER_URL).origin],
          loosening: 'countersign',
        },
      };
      const config = configOf(taskQueue, over, toolQueue);
      return {
        keys,
        trust,
        deployment: await deploy(config, toolQueue === undefined ? 'all' : 'runs', keys.backend.signer),
        serveTools:
          toolQueue === undefined
            ? () => serve(config, 'tools')
            : byHand(`${taskQueue} tools`, () => serve(config, 'tools')),
      };
    };
    const stretchingOn = (taskQueue: string): Config =>
      configOf(taskQueue, { servers: serversOf({ repeatable: ['read_note', 'hold_note'] }), execution: STRETCHES });
    const openCrossed = async (taskQueue: string, over: ConfigInput): Promise<Crossed> => {
      const config = configOf(taskQueue, over, `${taskQueue}-tools`);
      const serveTasks = async (): Promise<Serving> => {
        const deciders = await serving(
          taskQueue,
          async () => await startDeciders({ address, namespace, config, bundle }),
        );
        hands.add(deciders);
        return deciders;
      };
      const byRole = {
        runs: byHand(`${taskQueue} runs`, () => serve(config, 'runs')),
        tools: byHand(`${taskQueue} tools`, () => serve(config, 'tools')),
      };
      return { ...(await clientOf(config)), serve: (role) => byRole[role](), serveTasks };
    };
    const openWith = async (
      name: string,
      over: Partial<NonNullable<ConfigInput['servers']>[string]>,
      more: ConfigInput = {},
    ): Promise<Deployment> =>
      await deploy(configOf(`countersign-${name}`, { servers: serversOf(over), ...more }), 'all');
    return {
      tools,
      stop,
      change: async (build, taskQueues) => {
        bundle = build;
        // A worker whose way to Temporal is cut would never stop.
        await Promise.all([...ways].map(async (way) => await way.mend()));
        const others = [...crew].filter((each) => each.build !== build && taskQueues?.has(each.taskQueue) !== false);
        await Promise.all(others.map(async (each) => await each.stop()));
        await Promise.all(others.map(async (each) => await each.start()));
      },
      serveAll: async () => void (await Promise.all([...callable.values()].map(async (start) => await start()))),
      dismiss: async () => {
        await Promise.all([...hands].map(async (each) => await each.stop()));
        hands.clear();
      },
      openSigned: () => openSigned(),
      openSignedApart: () => openSigned('countersign-signed-apart', SIGNED_TOOLS_QUEUE),
      limited: (limits) => openWith(`limited-${Object.keys(limits).join('-')}`, { limits }),
      atWork: once(() => openWith('tasks', { url: TASK_SERVER_URL, tasks: { seconds: 600 } })),
      hosted: once(async () => {
        const provider = await startScriptedProvider();
        closing.push(provider.close);
        const { baseUrl } = provider;
        const gpt = { provider: 'openai' as const, model: 'gpt', baseUrl, asksBeforeCalls: true, apiKey: HOSTING_KEY };
        return await openWith('hosted', { execute: 'hosted' }, { models: { ...models, [HOSTED_MODEL]: gpt } });
      }),
      linked: once(() => openWith('linked', { resourceLinks: 'read' })),
      lent: once(async () => {
        lend('CORPUS_GRANT_STALE', 'stale');
        lend('CORPUS_GRANT_FRESH', FRESH_TOKEN);
        return await openWith('lent', { credentials: { kind: 'given' } }, { vault: LENT });
      }),
      scoped: once(() => openWith('scoped', { credentials: SCOPED }, { policy: OF_TWO })),
      kept: once(() =>
        restartable(configOf('countersign-kept', { servers: serversOf({ url: KEPT_SERVER_URL, protocol: 'legacy' }) })),
      ),
      editable: once(async () => {
        const config = configOf('countersign-editable', { policy: EDITABLE });
        return { ...(await restartable(config)), directory: join(directory, config.artifacts.directory) };
      }),
      patient: once(async () => {
        const servers = serversOf({ taskQueue: PATIENT_QUEUE, elicitation: { holdSeconds: 600 } });
        const config = configOf('countersign-patient', { servers });
        return { ...(await deploy(config, 'runs')), serveTools: byHand(PATIENT_QUEUE, () => serve(config, 'tools')) };
      }),
      crossed: once(() => openCrossed('countersign-crossed', { policy: EDITABLE })),
      crossedStretching: once(() => openCrossed('countersign-crossed-stretching', { execution: STRETCHES })),
      telling: once(async () => {
        const away = new Set(['/away', '/rounds']);
        const receiver = await listenOnLoopback(({ url = '' }, response) => {
          const status = url === '/refuses' ? 410 : away.has(url) ? 503 : 204;
          response.writeHead(status).end();
        });
        closing.push(receiver.close);
        const config = configOf('countersign-telling', tellingBy(receiver.origin));
        const bringBack = (channel: string): void => void away.delete(`/${channel}`);
        const takeAway = (channel: string): void => void away.add(`/${channel}`);
        return { ...(await deploy(config, 'all')), bringBack, takeAway };
      }),
      stretching: once(async () => await deploy(stretchingOn('countersign-stretching'), 'all')),
      losing: async (taskQueue) => {
        const way = await startFaultRoute(`http://${address}/`);
        closing.push(() => way.close());
        ways.add(way);
        const config = stretchingOn(taskQueue);
        await serve(config, 'all', new URL(way.url).host);
        return { ...(await clientOf(config)), way, serve: () => serve(config, 'all') };
      },
      plain: await deploy(configOf('countersign'), 'all'),
      encrypted: await deploy(configOf('countersign-encrypted', { encryption: CORPUS_ENCRYPTION }), 'all'),
      split: {
        ...(await deploy(configOf('countersign-split', {}, 'countersign-tools'), 'runs')),
        serveTools: async (policy = POLICY) =>
          await byHand('countersign-split tools', () =>
            serve(configOf('countersign-split', { policy }, 'countersign-tools'), 'tools'),
          )(),
      },
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** A worker that can be stopped and started again, with the build that the stage has then. */
class Replaceable<W extends Serving = Serving> {
  readonly taskQueue: string;
  readonly #start: () => Promise<readonly [WorkflowBundle, W]>;
  #build: WorkflowBundle | undefined;
  #workers: W | undefined;

  constructor(taskQueue: string, start: () => Promise<readonly [WorkflowBundle, W]>) {
    this.taskQueue = taskQueue;
    this.#start = start;
  }

  get build(): WorkflowBundle | undefined {
    return this.#build;
  }

  async start(): Promise<W> {
    const [build, workers] = await this.#start();
    this.#build = build;
    this.#workers = workers;
    return workers;
  }

  async stop(): Promise<void> {
    const workers = this.#workers;
    this.#workers = undefined;
    await workers?.stop();
  }
}

// Says who decides what in recorded runs.

const ask = { action: 'ask' as const, approvers: { ids: [APPROVER.id], groups: APPROVER.groups } };

/** Two of three people must approve, and the initiator (ben) does not count. */
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

const EDITABLE: ConfigInput['policy'] = {
  approvers: { ids: [APPROVER.id, 'zoe'], may: ['edit', 'respond'], remember: ['call', 'arguments'] },
  servers: {
    notes: {
      default: 'ask',
      tools: { seal_note: { action: 'ask', approvers: { ids: [APPROVER.id, 'zoe'], need: 2, may: ['edit'] } } },
    },
  },
};

/** What asks tells through a channel of its own. */
function tellingBy(origin: string): ConfigInput {
  const approvers = { ids: [APPROVER.id], groups: APPROVER.groups };
  const asks = (tool: string, channel: string, over: object = {}) => ({
    id: tool,
    match: { tool },
    then: 'ask' as const,
    approvers,
    notify: [{ channel, expiringSeconds: 4 }],
    ...over,
  });
  const escalate = { afterSeconds: 4, add: { ids: ['zoe'], groups: [] } };
  const late = { approvers: { ...approvers, escalate }, remindAfterSeconds: 2, deadlineSeconds: 10 };
  const channels = ['takes', 'refuses', 'away', 'gathers', 'rounds'].map((name) => {
    const secret = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;
    const gathering = name === 'gathers' || name === 'rounds' ? { digest: { seconds: 3 } } : {};
    return [name, { kind: 'webhook' as const, url: `${origin}/${name}`, secret, ...gathering }];
  });
  return {
    notify: { channels: Object.fromEntries(channels) as NonNullable<ConfigInput['notify']>['channels'] },
    policy: {
      rules: [
        asks('write_note', 'takes'),
        asks('file_note', 'takes', late),
        asks('post_note', 'refuses'),
        asks('stamp_note', 'away'),
        asks('seal_note', 'rounds', { id: 'rounds', when: 'args.name == "sunday"' }),
        asks('seal_note', 'gathers'),
      ],
      servers: { notes: { default: 'allow' } },
    },
  };
}

/** Two people must consent to wider tokens; the calls themselves wait for nobody. */
const OF_TWO: ConfigInput['policy'] = {
  approvers: { ids: [APPROVER.id, 'zoe'], need: 2 },
  servers: { notes: { default: 'allow' } },
};

/** Policy of the split deployment: the people who may decide have changed since the run asked. */
export const STRICTER: ConfigInput['policy'] = {
  servers: { notes: { tools: { write_note: { action: 'ask', approvers: { ids: ['zoe'] } } } } },
};
