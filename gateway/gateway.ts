/**
 * Starts a gateway: an HTTP server over the client library. It is a client of Temporal like any other, and never the
 * truth: any number of gateways serve one namespace without knowing of each other.
 *
 * 1. Nothing is served before it is known who is asking: a token of the configured issuer, or the development login on
 *    this machine alone.
 * 2. In trust mode `signed` the gateway signs for people with a key of its own, or does not start.
 */
import type { Client } from '@temporalio/client';
import { Countersign } from '../client/countersign.ts';
import type { ArtifactReader } from '../client/ledger/ledger.ts';
import type { Signer } from '../client/signing/signing.ts';
import { defined } from '../contracts/defined.ts';
import { CountersignError } from '../contracts/errors.ts';
import type { GatewayConfig } from '../contracts/schemas/gateway.ts';
import type { IdCase } from '../contracts/schemas/policy.ts';
import { Callers } from './gate/callers.ts';
import { createGate, openGate, type OpenGate } from './gate/gate.ts';
import { WITHDRAWN } from './gate/tasks.ts';
import { registerGate } from './gate/routes.ts';
import { Catalogs, type CatalogSettings } from './catalog/catalogs.ts';
import { CatalogChanges } from './catalog/changes.ts';
import { CatalogWatch } from './catalog/watch.ts';
import { Answering } from './inbox/answering.ts';
import { type Explain, Explaining } from './inbox/explaining.ts';
import { Records } from './inbox/records.ts';
import { Definitions } from './catalog/definitions.ts';
import type { AskProvider } from './identity/keys.ts';
import { People, type Voice } from './identity/person.ts';
import { Sessions } from './identity/sessions.ts';
import { Tokens } from './identity/tokens.ts';
import { Feeds } from './projection/feeds.ts';
import { NewsDesk } from './projection/news.ts';
import { Opened } from './projection/opened.ts';
import { Projection } from './projection/projection.ts';
import { Reading } from './inbox/reading.ts';
import type { PageOptions } from './page/kit/page.ts';
import { browserTeller, registerPages } from './page/routes.ts';
import { pageSource } from './page/source.ts';
import { addCatalogRoutes } from './routes/catalogs.ts';
import { addEventRoutes } from './routes/events.ts';
import type { RouteParts } from './routes/parts.ts';
import { addRecordRoutes } from './routes/records.ts';
import { addRequestRoutes } from './routes/requests.ts';
import { addCallRoutes } from './routes/calls.ts';
import { addRunRoutes } from './routes/runs.ts';
import { addServiceRoutes } from './routes/service.ts';
import { Presses, type PressParts } from './slack/presses.ts';
import { registerSlack } from './slack/routes.ts';
import { addSignInRoutes } from './routes/sign-in.ts';
import { GatewayMetrics } from './metrics/metrics.ts';
import { type MetricsServer, serveMetrics } from './metrics/server.ts';
import { WaitingRequests } from './metrics/waiting.ts';
import { createServer, type GatewayLog, isLoopbackHost, listen, type Server } from './http/server.ts';
import { Streams, Waiters } from './http/streams.ts';

export interface GatewayOptions {
  readonly config: GatewayConfig;
  /** Connected to the namespace of the runs, with the payload codec of the workers. */
  readonly client: Client;
  readonly taskQueue: string;
  readonly artifacts?: ArtifactReader | undefined;
  /** Trust mode of the workers; in `signed` the key that speaks for people, and what it states of itself. */
  readonly trust: { readonly mode: 'temporal' } | { readonly mode: 'signed'; readonly speaking?: Speaking | undefined };
  /** How the organisation's policy compares ids of people; absent: as written. */
  readonly idCase?: IdCase | undefined;
  /** The part of the workers' configuration about catalogs. */
  readonly catalogs: CatalogSettings;
  readonly explain: Explain;
  readonly ask: AskProvider;
  /** Asks Slack; required with `config.slack`. */
  readonly askSlack?: AskProvider | undefined;
  readonly version: string;
  readonly log?: GatewayLog | undefined;
}

export interface Speaking {
  readonly signer: Signer;
  readonly voice: Voice;
}

export interface Gateway {
  readonly url: string;
  /** Where Prometheus reads; absent unless configured. */
  readonly metricsUrl?: string;
  readonly projection: Projection;
  /** Number of queries that runs were asked for lists and details. */
  queries(): number;
  stop(): Promise<void>;
}

/** @throws CountersignError `CONFIG_INVALID`, `SETUP_INCOMPLETE`, `ENGINE_UNAVAILABLE` */
export async function startGateway(options: GatewayOptions): Promise<Gateway> {
  const { config } = options;
  assertKnowsPeople(options);
  const { app, parts, metrics, presses, gate, place } = await assemble(options);
  const { projection, streams, feeds, news, opened } = parts;
  let served: MetricsServer | undefined;
  try {
    if (config.metrics !== undefined)
      served = await serveMetrics(metrics, config.metrics.prometheus, 'gateway.metrics.prometheus');
    await projection.start();
    place.url = await listen(app, config, 'gateway', 'gateway.port');
  } catch (error) {
    await projection.stop();
    await served?.close();
    throw error;
  }
  return {
    url: place.url,
    ...defined({ metricsUrl: served?.url }),
    projection,
    queries: () => opened.asked,
    stop: async () => {
      await gate?.stop();
      news.close();
      feeds.close();
      streams.close();
      await app.close();
      await presses?.settled();
      await projection.stop();
      await served?.close();
    },
  };
}

interface Assembled {
  readonly app: Server;
  readonly parts: RouteParts;
  readonly metrics: GatewayMetrics;
  readonly presses: Presses | undefined;
  readonly gate: OpenGate | undefined;
  readonly place: { url?: string };
}

/** Runs do not go on for minutes before somebody is called. */
const STUCK_EVERY_MS = 30_000;

async function assemble(options: GatewayOptions): Promise<Assembled> {
  const { config, client, taskQueue, artifacts, trust, ask, log } = options;
  const speaking = trust.mode === 'signed' ? trust.speaking : undefined;
  const reaching = { client, taskQueue, ...(artifacts && { artifacts }) };
  const countersign = new Countersign(reaching);
  const onTrouble = (error: unknown): void =>
    log?.warn('visibility does not answer', { reason: error instanceof Error ? error.message : String(error) });
  const stuckEveryMs = config.metrics === undefined ? undefined : STUCK_EVERY_MS;
  const projection = new Projection({ client, most: config.limits.runs, onTrouble, ...defined({ stuckEveryMs }) });
  const metrics = new GatewayMetrics();
  const opened = new Opened(projection, countersign, (code) => metrics.readFailed(code));
  const streams = new Streams(config.limits);
  const reading = new Reading(client, projection, opened);
  const people = new People(config.may, speaking?.voice, options.idCase);
  const tokens = new Tokens(config, people, ask);
  const catalogs = new Catalogs(countersign, options.catalogs);
  // Messages to catalogs carry the groups of their sender.
  const sending = speaking === undefined ? countersign : new Countersign({ ...reaching, signer: speaking.signer });
  const parts: RouteParts = {
    projection,
    opened,
    reading,
    countersign,
    definitions: new Definitions(countersign, catalogs),
    answering: new Answering(
      { ...reaching, signer: speaking?.signer, onAnswer: (kind, refusal) => metrics.answered(kind, refusal) },
      { reading, opened, projection },
    ),
    catalogs,
    catalogWatch: new CatalogWatch(countersign, catalogs),
    explaining: new Explaining(options.explain, (asker) => catalogs.sees(asker), new Waiters(config.limits)),
    records: new Records({ reading, opened, countersign, artifacts }),
    catalogChanges: new CatalogChanges(sending, catalogs),
    news: new NewsDesk(projection, opened),
    feeds: new Feeds(countersign),
    streams,
    waiters: new Waiters(config.limits),
    tokens,
    sessions: new Sessions(config, people, tokens.keys, ask),
  };
  if (config.metrics !== undefined) {
    // It drops what it holds when Prometheus asks.
    const waiting = new WaitingRequests(projection, config.metrics.groups, metrics);
    projection.subscribe((changed) => {
      for (const known of changed) waiting.see(known, Date.now());
    });
    metrics.measure({ projection, waiting, streams, opened });
  }
  const presses = pressesOf(options, parts, people, metrics);
  const place: Assembled['place'] = {};
  const gate = gateOf(options, parts, people, metrics, place);
  const app = await createApp(options, parts, { metrics, presses, gate });
  return { app, parts, metrics, presses, gate, place };
}

function gateOf(
  { config, artifacts, log, version }: GatewayOptions,
  { tokens, catalogs, countersign, answering, waiters }: RouteParts,
  people: People,
  metrics: GatewayMetrics,
  place: Assembled['place'],
): OpenGate | undefined {
  const { gate, oidc, limits } = config;
  if (gate === undefined) return undefined;
  const callers = new Callers({ config, gate, people, tokens });
  const parts = createGate({
    gate,
    countersign,
    catalogs,
    artifacts,
    waiters,
    version,
    start: async ({ asker }, { runId, called, ...how }) =>
      (await answering.call(asker, { runId, ...called }, how)).started,
    stop: async ({ asker }, runId) =>
      void (await answering.tell(asker, runId, {}, async (run) => await run.stop({ by: asker.id, reason: WITHDRAWN }))),
    pages: () => (config.signIn === undefined ? callers.origin : new URL(config.signIn.publicUrl).origin) ?? place.url,
    onAnswer: (status) => metrics.answeredCall(status),
    onTrouble: (code, message) => {
      metrics.answeredCall(code);
      log?.warn(`call of the gate failed: ${message}`, { code });
    },
  });
  return openGate(parts, { callers, issuer: oidc?.issuer, bodyBytes: limits.bodyBytes });
}

function pressesOf(
  { config, askSlack, log }: GatewayOptions,
  { answering }: RouteParts,
  people: People,
  metrics: GatewayMetrics,
): Presses | undefined {
  const { slack, oidc } = config;
  if (slack === undefined) return undefined;
  if (askSlack === undefined) throw new CountersignError('INTERNAL', 'There is no way to Slack.');
  const onRefusal: PressParts['onRefusal'] = (kind, code) => metrics.answered(kind, code);
  return new Presses({ config: slack, oidc, people, answering, askSlack, onRefusal, log });
}

async function createApp(
  { config, log, version }: GatewayOptions,
  parts: RouteParts,
  { metrics, presses, gate }: Pick<Assembled, 'metrics' | 'presses' | 'gate'>,
): Promise<Server> {
  const { projection, tokens, sessions } = parts;
  const staleness = (): Readonly<Record<string, string>> =>
    defined({
      'x-countersign-stale-seconds':
        projection.asOf === undefined
          ? undefined
          : String(Math.max(0, Math.floor((Date.now() - projection.asOf) / 1_000))),
      'x-countersign-cut': projection.isCut ? 'true' : undefined,
    });
  const app = await createServer({
    config,
    tokens,
    sessions,
    version,
    log,
    staleness,
    onAnswer: (answered) => metrics.answeredHttp(answered),
  });
  addApiRoutes(app, parts);
  const pageOptions: PageOptions = {
    source: pageSource(parts, config),
    streams: parts.streams,
    sessions,
    isDevelopment: tokens.isDevelopment,
    hasSignIn: config.signIn !== undefined,
    log,
  };
  addSignInRoutes(app, parts, browserTeller(pageOptions));
  const { slack } = config;
  if (slack !== undefined && presses !== undefined)
    await app.register(async (inner) => registerSlack(inner, slack, presses));
  if (gate !== undefined) await app.register(async (inner) => registerGate(inner, gate.routes));
  await app.register(async (pages) => registerPages(pages, pageOptions));
  return app;
}

/** Routes that the document of the API lists. */
function addApiRoutes(app: Server, parts: RouteParts): void {
  addServiceRoutes(app, parts);
  addRunRoutes(app, parts);
  addCallRoutes(app, parts);
  addRequestRoutes(app, parts);
  addRecordRoutes(app, parts);
  addCatalogRoutes(app, parts);
  addEventRoutes(app, parts);
}

function assertKnowsPeople({ config, trust }: GatewayOptions): void {
  const { oidc, development, host } = config;
  const refuse = (path: string, reason: string): never => {
    throw new CountersignError('CONFIG_INVALID', `The gateway does not start: ${path} ${reason}.`, { path });
  };
  if (oidc === undefined && development !== true)
    refuse(
      'gateway',
      'must say whose tokens it believes: state gateway.oidc, or on your own machine gateway.development: true',
    );
  if (development === true && !isLoopbackHost(host))
    refuse(
      'gateway.development',
      `lets everybody sign in as anybody, and ${host} is reached from elsewhere: listen on 127.0.0.1`,
    );
  for (const [member, { tenant = oidc?.tenant }] of Object.entries(config.slack?.people ?? {}))
    if (tenant === undefined)
      refuse(`gateway.slack.people.${member}`, 'must state a tenant, since gateway.oidc.tenant does not');
  if (trust.mode === 'temporal') return;
  const { speaking } = trust;
  if (speaking === undefined)
    return refuse(
      'gateway.signing',
      'is missing: in trust mode signed the gateway needs a key that may speak for people',
    );
  if (oidc !== undefined && speaking.voice.iss !== oidc.issuer)
    refuse('gateway.signing', `has a key for issuer ${speaking.voice.iss}, and tokens are of ${oidc.issuer}`);
}

export async function openApiDocument(config: GatewayConfig): Promise<object> {
  // Sound: the routes are listed and never called.
  const parts = { tokens: { isDevelopment: false } } as RouteParts;
  const app = await createServer({ config, tokens: parts.tokens, version: '1.0.0-rc.1' });
  addApiRoutes(app, parts);
  await app.ready();
  return { ...app.swagger(), openapi: '3.1.0' };
}
