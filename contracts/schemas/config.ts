/** `countersign.yaml` configures one deployment. Its secrets come from the environment as `${NAME}`. */
import { z } from 'zod';
import { Script } from './script.ts';
import { ArtifactsConfig } from './stores.ts';
import { CatalogRight } from './catalog.ts';
import { CodecServerConfig, GatewayConfig } from './gateway.ts';
import { CodecKey, HttpUrl, Identifier, Name, people, Secret, SocketAddress } from './json.ts';
import {
  ClientCredentials,
  EnterpriseManaged,
  Health,
  IssuedTokens,
  Issuer,
  TokenExchange,
  RefreshedTokens,
  RESOURCES_UNSAID,
  saysOfResources,
} from './credentials.ts';
import { NotifyConfig } from './channels.ts';
import { OrganisationPolicy, ToolName } from './policy.ts';
import { Ceilings, Execute, Fairness } from './run-spec.ts';
import { TaskSettings } from './legacy-2025.ts';
import { TrustConfig } from './trust.ts';

/** This default also applies to servers without limits, which may ask for time themselves. */
export const DEFAULT_WAIT_SECONDS = 3_600;

export const Credentials = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('none') }),
  /** The `authorization` that the caller sealed into the run. */
  z.strictObject({ kind: z.literal('given') }),
  ClientCredentials,
  TokenExchange,
  EnterpriseManaged,
  IssuedTokens,
  RefreshedTokens,
]);
export type Credentials = z.infer<typeof Credentials>;

/** Credentials that a catalog names, with the origins they may go to: who connects a server must not choose those. */
export const NamedCredentials = z.strictObject({
  use: Credentials,
  origins: z.array(HttpUrl).min(1),
  /** Tenants whose catalogs may name the credentials. */
  tenants: z.array(Identifier).min(1).default(['default']),
});

/** People who may change the tools of a tenant, with their rights. */
export const CatalogAdministrators = z.strictObject({
  tenant: Identifier.default('default'),
  ...people,
  may: z.array(CatalogRight).min(1),
});

/** A setting that this deployment cannot honour; the catalog refuses it. */
export const UnsupportedSetting = z.strictObject({
  setting: z.enum(['enabled', 'requiresApproval', 'approvers', 'trusted', 'credentials', 'taskQueue']),
  /** An absent list means every tenant, server or tool. */
  tenants: z.array(Identifier).optional(),
  servers: z.array(Name).optional(),
  tools: z.array(ToolName).optional(),
  reason: z.string().min(1).max(500),
});
export type UnsupportedSetting = z.infer<typeof UnsupportedSetting>;

export const CatalogConfig = z.strictObject({
  administrators: z.array(CatalogAdministrators).max(1_000).default([]),
  /** Origins that an administrator may connect, besides the URLs of configured servers. */
  origins: z.array(HttpUrl).default([]),
  /** `countersign`: a second administrator must agree to every loosening. */
  loosening: z.enum(['allow', 'countersign']).default('allow'),
  /** Default for a new tool: a countersignature, or the verdict of the strategy. */
  newTools: z.enum(['ask', 'strategy']).default('ask'),
  unsupported: z.array(UnsupportedSetting).max(1_000).default([]),
});

/** Limits that protect a server from all its callers (docs/operations/limits.md). Counted in each worker process. */
export const ServerLimits = z.strictObject({
  concurrency: z.int().min(1).max(1_000).optional(),
  /** Most calls begun in any second; below 1, one call in a correspondingly longer time. */
  perSecond: z.number().min(0.001).max(1_000).optional(),
  /** After so many failures in a row within `withinSeconds`, nothing is sent for `openSeconds`; then one call tries. */
  breaker: z
    .strictObject({
      failures: z.int().min(1).max(1_000).default(5),
      withinSeconds: z.int().min(1).max(3_600).default(60),
      openSeconds: z.int().min(1).max(3_600).default(30),
    })
    .optional(),
  /** Longest total wait of a call for its turn; after it the call ends as failed and not executed. */
  waitSeconds: z.int().min(1).max(604_800).default(DEFAULT_WAIT_SECONDS),
});
export type ServerLimits = z.infer<typeof ServerLimits>;

const Server = z.strictObject({
  url: HttpUrl,
  /** True if this server's annotations may exempt a call from asking. */
  trusted: z.boolean().default(false),
  taskQueue: Name.optional(),
  credentials: Credentials.default({ kind: 'given' }),
  /** Sent with every request. `Authorization` in any case is refused: use `credentials`. */
  headers: z
    .record(z.string().regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/), z.string().regex(/^[\t\x20-\x7e]*$/))
    .default({}),
  protocol: z.enum(['auto', 'legacy', '2026-07-28']).default('auto'),
  /** Seconds for which a listed tool counts as current; 0 lists before every call. */
  recheckSeconds: z.int().min(0).max(86_400).default(60),
  /** Longest wait of a run for this server before its first turn. Default: until the run's own time is over. */
  startWaitSeconds: z.int().min(1).max(2_592_000).optional(),
  /** Tools that may be sent twice if an answer is lost. The server's own hints do not count. */
  repeatable: z.array(ToolName).default([]),
  /** `read`: the run's model may read resources that results of this server link to, if the server has any. */
  resourceLinks: z.enum(['keep', 'read']).default('keep'),
  limits: ServerLimits.optional(),
  /** For servers of 2025-11-25 that work on calls as tasks. Runs that start after this is set wait for tasks. */
  tasks: TaskSettings.optional(),
  /** For servers up to 2025-11-25, which may ask people in mid-call: total time of an open connection. */
  elicitation: z.strictObject({ holdSeconds: z.int().min(30).max(3_600) }).optional(),
  /** Who calls the server (docs/guide/hosted-tools.md). Absent: this service. */
  execute: Execute.optional(),
  /** A connector of OpenAI that is called in place of `url`, which then names what tokens are for. */
  connectorId: z
    .string()
    .regex(/^connector_[a-z0-9_]{1,64}$/, 'must be a connector of OpenAI, such as connector_gmail')
    .optional(),
});

export const ServerConfig = Server.refine(saysOfResources, RESOURCES_UNSAID).refine(
  ({ execute, connectorId }) => connectorId === undefined || execute === 'hosted',
  { path: ['connectorId'], error: 'needs execute: hosted; only the provider knows its connectors' },
);
export type ServerConfig = z.infer<typeof ServerConfig>;

const Amount = z.string().regex(/^\d{1,6}(\.\d{1,6})?$/, 'must be a decimal number as text, such as "2.50"');
/** Price of a million tokens. */
export const Price = z.strictObject({
  input: Amount,
  output: Amount,
  /** One currency for all models. */
  currency: z.string().regex(/^[A-Z]{3}$/, 'must be three letters (ISO 4217), such as EUR'),
});

/** A run with limited spend takes only a model with a price; "0" is a price. */
const price = Price.optional();

export const ModelConfig = z.discriminatedUnion('provider', [
  z.strictObject({ provider: z.literal('scripted'), script: Script, price }),
  z.strictObject({
    provider: z.enum(['openai', 'anthropic', 'openai-compatible']),
    model: z.string().min(1),
    apiKey: Secret.optional(),
    baseUrl: HttpUrl.optional(),
    /** For `openai`: the provider asks before each hosted call. Absent: OpenAI's own address does (no `baseUrl`). */
    asksBeforeCalls: z.boolean().optional(),
    /** The provider keeps answers of steps with hosted servers, so that a call continues the one that asks for it. */
    storesAnswers: z.boolean().optional(),
    maxOutputTokens: z.int().min(1).default(4_096),
    /** At most a minute less than the 15 after which Temporal ends a step, so that the error has the model's name. */
    timeoutSeconds: z.int().min(1).max(840).default(600),
    price,
  }),
]);
export type ModelConfig = z.infer<typeof ModelConfig>;

/** A PEM file (PKCS #8), relative to the configuration file, and the key's id in what it seals or signs. */
export const PrivateKeyFile = z.strictObject({ kid: Name, privateKeyFile: z.string().min(1) });
export type PrivateKeyFile = z.infer<typeof PrivateKeyFile>;

export const LedgerWebhook = z.strictObject({
  /** Over TLS, or in clear to this machine only. Not shown in errors and logs. */
  url: HttpUrl,
  secret: z.string().regex(/^whsec_[A-Za-z0-9+/]{32,86}={0,2}$/, 'must be whsec_ and 24 to 64 bytes in base64'),
  /** Time limit of one POST. An attempt to store a segment has 60 s for all of them. */
  timeoutSeconds: z.int().min(1).max(30).default(10),
});
export type LedgerWebhook = z.infer<typeof LedgerWebhook>;

export const LedgerConfig = z.strictObject({
  /** An Ed25519 key. */
  sign: PrivateKeyFile,
  /** Relative to the configuration file, shared by all workers of role `runs`. */
  directory: z.string().min(1).optional(),
  webhook: LedgerWebhook.optional(),
});

/** Store of secrets that outlive a call, such as refresh tokens. */
export const VaultConfig = z.discriminatedUnion('kind', [
  z.strictObject({
    kind: z.literal('directory'),
    /** Relative to the configuration file, shared by all workers that call the servers. */
    directory: z.string().min(1),
    /** The first key encrypts; all decrypt. */
    keys: z.array(CodecKey).min(1).max(10),
  }),
  z.strictObject({
    kind: z.literal('environment'),
    /** Reference → environment variable that holds the entry as JSON. */
    variables: z.record(Identifier, z.string().regex(/^[A-Za-z_][A-Za-z0-9_]{0,127}$/)),
  }),
]);

/** A worker deployment of Temporal, which separates names from build ids by `.` and `:`. */
const DeploymentName = z
  .string()
  .regex(
    /^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$/,
    'must be 1 to 63 letters, digits, _ and -, and begin with a letter or digit',
  );

export const Config = z.strictObject({
  taskQueue: Name.default('countersign'),
  servers: z.record(Name, ServerConfig).default({}),
  credentials: z.record(Name, NamedCredentials).default({}),
  catalog: CatalogConfig.prefault({}),
  models: z.record(Name, ModelConfig).default({}),
  policy: OrganisationPolicy.prefault({}),
  trust: TrustConfig.default({ mode: 'temporal' }),
  egress: z
    .strictObject({
      /** Origins that a run may name by URL. */
      runServers: z.array(HttpUrl).default([]),
      /** Origins of token endpoints that differ from their issuer's. */
      issuerEndpoints: z.array(HttpUrl).max(100).default([]),
      /** For development: this machine may be contacted, over plain HTTP too. */
      allowLoopback: z.boolean().default(false),
      /** Private ranges that may be contacted. */
      allowPrivate: z
        .array(z.union([z.cidrv4(), z.cidrv6()]))
        .max(100)
        .default([]),
      /** Plain HTTP to other hosts than loopback. */
      allowInsecure: z.boolean().default(false),
    })
    .prefault({}),
  artifacts: ArtifactsConfig.prefault({}),
  ledger: LedgerConfig.optional(),
  notify: NotifyConfig.prefault({}),
  /** Needed for servers whose credentials are `issued`. */
  issuer: Issuer.optional(),
  health: Health.optional(),
  gateway: GatewayConfig.optional(),
  codecServer: CodecServerConfig.optional(),
  /** P-256 keys, with which grants are sealed. */
  grants: z.strictObject({ keys: z.array(PrivateKeyFile).max(10).default([]) }).prefault({}),
  vault: VaultConfig.optional(),
  encryption: z.strictObject({ keys: z.array(CodecKey).max(10).default([]) }).prefault({}),
  /** Ceilings that no run may exceed; a larger limit is lowered to them. */
  limits: Ceilings.default({}),
  fairness: Fairness.prefault({}),
  execution: z
    .strictObject({
      /** Bounds of a stretch: an activity of model steps, and of calls between them that are allowed and repeatable. */
      stretch: z
        .strictObject({
          /** Model steps of one stretch. 0: each model step and each call is an activity of its own. */
          turns: z.int().min(0).max(100).default(10),
          /** No further model step begins after this time; a message waits for it, and for a turn begun in it. */
          seconds: z.int().min(1).max(300).default(15),
          /** Bytes of answers and results, which each heartbeat carries; one step or turn more fits into 2 MiB. */
          bytes: z.int().min(16_384).max(393_216).default(262_144),
        })
        .prefault({}),
    })
    .prefault({}),
  worker: z
    .strictObject({
      /** Memory of the process in MiB. Absent: the limit of its control group, or the memory of the machine. */
      memoryMiB: z.int().min(256).max(1_048_576).optional(),
      /** Absent: derived from memory (`workers/memory.ts`). */
      maxCachedWorkflows: z.int().min(0).optional(),
      /** For each queue. Absent: derived from memory. */
      maxConcurrentActivities: z.int().min(1).optional(),
      shutdownGraceSeconds: z.int().min(0).default(30),
      stickyQueueTimeoutMs: z.int().min(100).max(3_000).default(2_000),
      /** Runs can say where they wait, to the query `__stack_trace`. A replay then costs twice as much. */
      stackTraces: z.boolean().default(false),
      /** Runs stay with their build, and move when they continue as new. Absent: any worker takes any run. */
      deployment: z.strictObject({ name: DeploymentName }).optional(),
    })
    .prefault({}),
  metrics: z
    .strictObject({
      /** Address at which Prometheus scrapes a worker process, for Temporal's metrics and ours. */
      prometheus: SocketAddress,
    })
    .optional(),
  tracing: z.enum(['off', 'console']).default('off'),
  log: z.strictObject({ level: z.enum(['trace', 'debug', 'info', 'warn', 'error']).default('info') }).prefault({}),
});
export type Config = z.infer<typeof Config>;
export type ConfigInput = z.input<typeof Config>;
