/**
 * Serves decrypted payloads to Temporal UI and the `temporal` command, by Temporal's protocol of codec servers. It asks
 * Temporal nothing, and stores nothing.
 *
 * 1. It only reads: there is no `/encode`, since workers take messages in clear.
 * 2. Nothing is decrypted before a token says who is asking, and the configuration says that this person may read.
 * 3. A payload does not say whose it is. Whoever may read, may read every payload that these keys encrypt.
 * 4. An unreadable payload is answered as it came; the others beside it are readable.
 * 5. The log says who has read how many payloads, and nothing of them; metrics count them, and name nobody.
 */
import type { Payload, PayloadCodec } from '@temporalio/common';
import type { FastifyRequest } from 'fastify';
import { collectDefaultMetrics, Counter } from 'prom-client';
import { z } from 'zod';
import { defined } from '../../contracts/defined.ts';
import { CountersignError } from '../../contracts/errors.ts';
import { CODEC_METRICS } from '../../contracts/metrics.ts';
import { SEALED_ENCODING, UNDECODABLE_ENCODING } from '../../contracts/payload-converter.ts';
import type { CodecServerConfig } from '../../contracts/schemas/gateway.ts';
import type { IdCase } from '../../contracts/schemas/policy.ts';
import { askerOf, createServer, type GatewayLog, isLoopbackHost, listen, type Server } from '../http/server.ts';
import type { AskProvider } from '../identity/keys.ts';
import { type Asker, People } from '../identity/person.ts';
import { Tokens } from '../identity/tokens.ts';
import { HttpMetrics, serveMetrics } from '../metrics/server.ts';

export interface CodecServerOptions {
  readonly config: CodecServerConfig;
  /** Keys of this namespace decrypt; requests for another one are refused. */
  readonly namespace: string;
  /** Decrypts, and marks what it cannot read (`workers/codec.ts`). */
  readonly codec: Pick<PayloadCodec, 'decode'>;
  /** How the organisation's policy compares ids of people; absent: as written. */
  readonly idCase?: IdCase | undefined;
  readonly ask: AskProvider;
  readonly log?: CodecLog | undefined;
}

export interface CodecLog extends GatewayLog {
  info(message: string, fields: Readonly<Record<string, unknown>>): void;
}

export interface CodecServer {
  readonly url: string;
  /** Where Prometheus reads; absent unless configured. */
  readonly metricsUrl?: string;
  stop(): Promise<void>;
}

/** @throws CountersignError `CONFIG_INVALID` if nobody may read, or anybody; `SETUP_INCOMPLETE` if the port is taken */
export async function startCodecServer(options: CodecServerOptions): Promise<CodecServer> {
  const { config } = options;
  const tenants = assertKnowsReaders(config);
  const metrics = new CodecMetrics();
  const app = await createServer({
    config,
    tokens: tokensOf(options),
    origins: config.origins,
    log: options.log,
    warning: 'everybody may read',
    onAnswer: (answered) => metrics.answeredHttp(answered),
  });
  addRoutes(app, options, tenants, metrics);
  const served =
    config.metrics && (await serveMetrics(metrics, config.metrics.prometheus, 'codecServer.metrics.prometheus'));
  const url = await listen(app, config, 'codec server', 'codecServer.port').catch(async (error: unknown) => {
    await served?.close();
    throw error;
  });
  return {
    url,
    ...defined({ metricsUrl: served?.url }),
    stop: async () => void (await Promise.all([app.close(), served?.close()])),
  };
}

/** A server that everybody could read by, or nobody, is a mistake. @returns tenants whose people may read */
function assertKnowsReaders({ oidc, development, host, may, tenants }: CodecServerConfig): readonly string[] {
  const refuse = (path: string, reason: string): never => {
    throw new CountersignError('CONFIG_INVALID', `The codec server does not start: ${path} ${reason}.`, { path });
  };
  if (development === true) {
    if (!isLoopbackHost(host))
      refuse(
        'codecServer.development',
        `lets everybody read every run, and ${host} is reached from elsewhere: listen on 127.0.0.1`,
      );
    return [DEVELOPER.tenant];
  }
  if (oidc === undefined)
    return refuse(
      'codecServer.oidc',
      'must say whose tokens count: state it or gateway.oidc, or on your own machine codecServer.development: true',
    );
  if (may.ids.length + may.groups.length === 0)
    refuse('codecServer.may', 'names nobody: state the groups or ids of the people who may read every run');
  return (
    tenants ??
    (oidc.tenant === undefined
      ? refuse('codecServer.tenants', 'is missing: name the tenants whose people may read what the keys encrypt')
      : [oidc.tenant])
  );
}

const NOBODY = { ids: [], groups: [] };
const DEVELOPER = { id: 'developer', groups: [], tenant: 'default' };

function tokensOf({ config, idCase, ask }: CodecServerOptions): Pick<Tokens, 'askerOf' | 'isDevelopment'> {
  const people = (read: CodecServerConfig['may']) =>
    new People({ start: NOBODY, read, administer: NOBODY }, undefined, idCase);
  const { oidc, development, may } = config;
  if (development !== true) return new Tokens({ oidc, development }, people(may), ask);
  const developer = people({ ids: [DEVELOPER.id], groups: [] }).personOf({ ...DEVELOPER, exp: Infinity });
  return { isDevelopment: true, askerOf: async () => developer };
}

/** `clear`: it was not encrypted. `unreadable`: no key of this server reads it. */
type Read = 'decrypted' | 'clear' | 'unreadable';

export class CodecMetrics extends HttpMetrics {
  readonly #payloads: Counter<'result'>;

  constructor() {
    super(CODEC_METRICS);
    this.#payloads = new Counter({
      name: CODEC_METRICS.payloads,
      help: 'Payloads that were asked for, by what became of them.',
      labelNames: ['result'],
      registers: [this.registry],
    });
    for (const result of ['decrypted', 'clear', 'unreadable'] satisfies Read[]) this.#payloads.inc({ result }, 0);
    collectDefaultMetrics({ register: this.registry });
  }

  read(result: Read): void {
    this.#payloads.inc({ result });
  }
}

/** A payload in the JSON form of Protocol Buffers: bytes are base64. */
const SentPayload = z.looseObject({
  metadata: z.record(z.string(), z.string()).optional(),
  data: z.string().optional(),
});
type SentPayload = z.infer<typeof SentPayload>;

const Sent = z.looseObject({ payloads: z.array(SentPayload.nullable()).max(10_000).default([]) });

function addRoutes(
  app: Server,
  options: CodecServerOptions,
  tenants: readonly string[],
  metrics: Pick<CodecMetrics, 'read'>,
): void {
  const { namespace, codec, log } = options;
  app.get('/health', { config: { isOpen: true, isUncounted: true } }, async () => ({ status: 'ok' }));
  const route = {
    // Before the body is read: it may be large.
    onRequest: async (request: FastifyRequest): Promise<void> => {
      assertReader(askerOf(request), tenants);
      assertNamespace(request, namespace);
    },
    schema: { body: Sent },
  };
  const decode = async (request: FastifyRequest): Promise<{ readonly payloads: readonly unknown[] }> => {
    // Sound: the schema of the route has read it.
    const { payloads } = request.body as z.infer<typeof Sent>;
    const read = await Promise.all(payloads.map(async (payload) => await decoded(payload, codec)));
    for (const { payload, result } of read) if (payload !== null) metrics.read(result);
    const { id, tenant } = askerOf(request);
    log?.info('payloads decoded', {
      requestId: request.id,
      reader: id,
      tenant,
      namespace,
      payloads: payloads.length,
      unreadable: read.filter(({ result }) => result === 'unreadable').length,
    });
    return { payloads: read.map(({ payload }) => payload) };
  };
  app.post('/decode', route, decode);
  // The endpoint of the `temporal` command may hold `{namespace}`.
  app.post('/:namespace/decode', route, decode);
}

function assertReader({ may, id, tenant }: Asker, tenants: readonly string[]): void {
  if (may.has('read') && tenants.includes(tenant)) return;
  throw new CountersignError(
    'ACTION_FORBIDDEN',
    `${id} may not read encrypted runs. An operator names who may in codecServer.may, and of which tenants in codecServer.tenants.`,
  );
}

/** The same keys may serve another namespace, whose readers are others. */
function assertNamespace({ headers, params }: FastifyRequest, namespace: string): void {
  // Sound: values of a path are texts.
  const { namespace: inPath = namespace } = params as { readonly namespace?: string };
  if (headers['x-namespace'] === namespace && inPath === namespace) return;
  throw new CountersignError(
    'USAGE',
    `This codec server reads payloads of namespace ${namespace} alone. Send it in the header X-Namespace, as Temporal UI and the temporal command do.`,
    { path: 'x-namespace' },
  );
}

interface Decoded {
  readonly payload: SentPayload | null;
  readonly result: Read;
}

/** Payloads that are not encrypted, or cannot be decrypted, stay as they came, byte for byte. */
async function decoded(sent: SentPayload | null, codec: Pick<PayloadCodec, 'decode'>): Promise<Decoded> {
  if (sent === null || encodingOf(fromJson(sent)) !== SEALED_ENCODING) return { payload: sent, result: 'clear' };
  const [payload] = await codec.decode([fromJson(sent)]);
  if (payload === undefined || encodingOf(payload) === UNDECODABLE_ENCODING)
    return { payload: sent, result: 'unreadable' };
  return { payload: toJson(payload), result: 'decrypted' };
}

function encodingOf({ metadata }: Payload): string {
  return Buffer.from(metadata?.['encoding'] ?? []).toString('utf8');
}

function fromJson({ metadata = {}, data = '' }: SentPayload): Payload {
  const entries = Object.entries(metadata).map(([name, value]) => [name, Buffer.from(value, 'base64')] as const);
  return { metadata: Object.fromEntries(entries), data: Buffer.from(data, 'base64') };
}

function toJson({ metadata, data }: Payload): SentPayload {
  const base64 = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64');
  const entries = Object.entries(metadata ?? {}).map(([name, value]) => [name, base64(value)] as const);
  return { metadata: Object.fromEntries(entries), data: base64(data ?? new Uint8Array()) };
}
