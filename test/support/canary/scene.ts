/**
 * Starts a deployment whose every secret is a canary. Its servers, authorization server and model leak what
 * they are sent, and its runs bring all secrets through every path.
 */
import { join } from 'node:path';
import { createVaultDirectory } from '../../../activities/vault/directory.ts';
import type { RunHandle } from '../../../client/index.ts';
import { READ_RESOURCE } from '../../../contracts/names.ts';
import { hashOf } from '../../../domain/text/canonical.ts';
import { type FaultWorld, startFaultWorld } from '../faults/world.ts';
import { answered, failed } from '../models/bench.ts';
import { chatDialect } from '../models/chat.ts';
import { said } from '../models/dialect.ts';
import { type ModelProvider, startModelProvider } from '../models/provider.ts';
import { privateLines } from '../oauth/grants.ts';
import { type HostileServer, startHostile } from '../oauth/provider.ts';
import { putTokenFor } from '../oauth/refresh-bench.ts';
import { ADMINISTRATORS, allowed, ANN, connected, refreshed } from '../scenes/catalogs.ts';
import { type MailServer, startMailServer } from '../servers/mail-server.ts';
import { type MessageReceiver, startMessageReceiver } from '../servers/message-receiver.ts';
import { type LedgerReceiver, startLedgerReceiver } from '../servers/ledger-receiver.ts';
import { type ListingServer, startListingServer } from '../servers/raw-server.ts';
import { headKey, zoneKey } from '../signing/keys.ts';
import { until } from '../until.ts';
import type { WorkerProcess } from '../world/worker-process.ts';
import { decisionOn, openRequests } from '../world/world.ts';
import type { Canary } from './scan.ts';
import { newSecrets, WITHHELD } from './secrets.ts';
import { CANARY_TOOLS, type CanaryServer, formsOf, jwtOf, READABLE, startCanaryServer } from './server.ts';
import {
  describedPieces,
  endedPieces,
  failedPiece,
  type Piece,
  piecesOfCatalog,
  piecesOfRun,
  storedPieces,
} from './stores.ts';
import { sharedBundle } from '../shared-bundle.ts';

/** Vault entry of a refresh token, which each use replaces. */
const KEPT_REF = 'ann-kept';

export interface CanaryScene {
  readonly secrets: ReturnType<typeof newSecrets>;
  /** A JWT whose id is the client's secret; known once the token was requested. */
  minted(server: 'minted' | 'listed' | 'kept'): string;
  /** `listed` is known only by its catalog. */
  readonly servers: Readonly<Record<'given' | 'minted' | 'closed' | 'listed' | 'kept', CanaryServer>>;
  /** Leaks nothing except what the test tells it to. */
  readonly plain: ListingServer;
  readonly tokenServers: readonly HostileServer[];
  readonly provider: ModelProvider;
  readonly receiver: LedgerReceiver;
  /** People are told here. */
  readonly desk: MessageReceiver;
  readonly mail: MailServer;
  readonly world: FaultWorld;
  readonly worker: WorkerProcess;
  canaries(): readonly Canary[];
  close(): Promise<void>;
}

export async function startCanaryScene(): Promise<CanaryScene> {
  const secrets = newSecrets();
  const { REFRESH, CLIENT_SECRET } = secrets;
  const tokens = new Map<string, string>();
  const minter = await startHostile({
    token: ({ form }) => {
      const aud = form.get('resource') ?? '';
      const token = tokens.get(aud) ?? jwtOf('at+jwt', { iss: minter.issuer, aud, jti: CLIENT_SECRET, sub: REFRESH });
      tokens.set(aud, token);
      return {
        body: {
          access_token: token,
          token_type: 'Bearer',
          expires_in: 90,
          refresh_token: REFRESH,
          note: CLIENT_SECRET,
        },
      };
    },
  });
  const refuser = await startHostile({
    token: ({ authorization, form }) => {
      const error_description = formsOf(`${authorization} ${CLIENT_SECRET}`).join(' ');
      return {
        status: 400,
        body: { error: 'invalid_client', error_description, error_uri: `https://x.test/?${form.toString()}` },
      };
    },
  });
  const servers = {
    given: await startCanaryServer(),
    minted: await startCanaryServer(),
    closed: await startCanaryServer({ refusesListing: true }),
    listed: await startCanaryServer(),
    kept: await startCanaryServer(),
  };
  const plain = await startListingServer();
  const provider = await startModelProvider(chatDialect.schema);
  const zone = await zoneKey();
  const receiver = await startLedgerReceiver(secrets.WEBHOOK_SECRET);
  const desk = await startMessageReceiver(secrets.MESSAGE_SECRET);
  const mail = await startMailServer();
  const signing = headKey();
  const headers = {
    'x-api-key': '${HEADER_KEY}',
    'x-session-cookie': 'Bearer ${HEADER_SCHEMED}',
    'x-padded-secret': '  ${HEADER_PADDED}  ',
  };
  const client = (issuer: string) => ({
    kind: 'client-credentials' as const,
    issuer,
    clientId: 'countersign',
    clientSecret: '${CLIENT_SECRET}',
  });
  const keptKind = { kind: 'refresh' as const, scopes: { discovery: ['list'], default: ['call'] } };
  const world = await startFaultWorld({
    // Nobody kills these workers, and the search for secrets may keep one busy for longer than a short heartbeat
    // timeout.
    bundle: await sharedBundle(),
    config: {
      servers: {
        // The tools are listed again before every call, so that leaks in a listing are covered there too.
        given: { url: servers.given.url, headers, recheckSeconds: 0, resourceLinks: 'read' },
        minted: { url: servers.minted.url, headers, credentials: client(minter.issuer), resourceLinks: 'read' },
        refused: { url: servers.given.url, headers, credentials: client(refuser.issuer) },
        closed: { url: servers.closed.url, headers },
        kept: { url: servers.kept.url, headers, credentials: { ...client(minter.issuer), ...keptKind } },
      },
      vault: { kind: 'directory', directory: 'vault', keys: [{ id: 'canary', key: '${VAULT_KEY}' }] },
      credentials: Object.fromEntries(
        Object.entries({ named: minter, rejected: refuser }).map(([name, { issuer }]) => [
          name,
          { use: client(issuer), origins: [new URL(servers.listed.url).origin] },
        ]),
      ),
      catalog: {
        administrators: ADMINISTRATORS,
        origins: [servers.listed, plain].map(({ url }) => new URL(url).origin),
      },
      policy: {
        approvers: { ids: ['bob'] },
        notify: [{ channel: 'desk' }, { channel: 'mail' }],
        redact: [{ server: 'given', arguments: ['withheld'] }],
        unknownOutcomes: 'record',
        servers: {
          given: { default: 'allow', tools: { words: 'ask' } },
          minted: { default: 'allow' },
          listed: { default: 'allow' },
          kept: { default: 'allow' },
        },
        // A server's message ends each call, so that all of it is seen in one turn.
        missingAuthorization: 'fail',
      },
      models: {
        main: {
          provider: 'openai-compatible',
          model: chatDialect.model,
          baseUrl: provider.baseUrl,
          apiKey: '${API_KEY}',
        },
      },
      ledger: {
        sign: { kid: signing.kid, privateKeyFile: 'ledger.pem' },
        directory: 'ledger',
        webhook: { url: receiver.url, secret: '${WEBHOOK_SECRET}' },
      },
      notify: {
        channels: {
          desk: { kind: 'webhook', url: desk.url, secret: '${MESSAGE_SECRET}' },
          mail: {
            kind: 'mail',
            host: '127.0.0.1',
            port: mail.port,
            tls: 'none',
            user: 'countersign',
            password: '${MAIL_PASSWORD}',
            from: 'countersign@example.com',
            to: ['audit@example.com'],
          },
        },
      },
      grants: { keys: [{ kid: zone.kid, privateKeyFile: 'zone.pem' }] },
      log: { level: 'trace' },
      tracing: 'console',
    },
    files: { 'zone.pem': zone.pem, 'ledger.pem': signing.pem },
    env: secrets,
    client: {
      servers: {
        given: { url: servers.given.url, key: zone.publicJwk },
        closed: { url: servers.closed.url, key: zone.publicJwk },
      },
    },
  });
  const worker = await world.startWorker();
  const vault = createVaultDirectory(join(world.engine.directory, 'vault'), [{ id: 'canary', key: secrets.VAULT_KEY }]);
  await putTokenFor(vault, secrets.STORED, minter.issuer, KEPT_REF, servers.kept.url);
  return {
    secrets,
    minted: (server) => tokens.get(servers[server].url) ?? '',
    servers,
    plain,
    tokenServers: [minter, refuser],
    provider,
    receiver,
    desk,
    mail,
    world,
    worker,
    canaries: () => [
      ...Object.entries(secrets).map(([name, value]) => ({ name, value })),
      ...[...tokens.values()].flatMap((token) => [
        { name: 'minted token', value: token },
        { name: 'signature of the minted token', value: token.split('.')[2] ?? '' },
      ]),
      ...[zone, signing].flatMap(({ pem }) => privateLines(pem)).map((value) => ({ name: 'private key', value })),
    ],
    close: async () => {
      await world.stop();
      await Promise.all(
        [...Object.values(servers), plain, minter, refuser, provider, receiver, desk, mail].map((part) => part.close()),
      );
    },
  };
}

/** Runs a conversation in which model and server leak all they know in everything they say. */
export async function converse(
  { world, servers, provider, secrets }: CanaryScene,
  name: 'given' | 'minted' | 'listed' | 'kept',
): Promise<{ readonly run: RunHandle; readonly pieces: readonly Piece[] }> {
  const echo = formsOf(secrets.API_KEY).join('\n');
  const calls = [...Object.keys(CANARY_TOOLS), 'held'].map((tool) => ({
    type: 'call' as const,
    id: `id-${tool}`,
    name: `${name}__${tool}`,
    json: JSON.stringify({ note: echo, withheld: WITHHELD }),
  }));
  const first = said([{ type: 'reasoning', text: echo, seal: '' }, { type: 'text', text: echo }, ...calls]);
  const last = said([{ type: 'text', text: echo }]);
  provider.enqueue(
    failed(500, echo),
    failed(429, JSON.stringify({ error: { message: echo } }), { 'retry-after': '1' }),
  );
  provider.enqueue(...[first, ...readingTurns(name, echo), last].map((answer) => answered(chatDialect.events(answer))));
  const authorizations = name === 'given' ? { authorizations: { given: `Bearer ${secrets.GIVEN}` } } : {};
  const run = await world.start(
    'main',
    {
      servers: [{ name }],
      limits: { callsPerTurn: 32, resultBytes: 16_384 },
      ...(name === 'kept' ? { grants: [{ server: name, ref: KEPT_REF }] } : {}),
    },
    authorizations,
  );
  await servers[name].held();
  // Progress stands in the heartbeat only after the notification was read with all its text.
  const reported = ({ store, content }: Piece): boolean =>
    store === 'heartbeat details' && Buffer.from(content).includes('"progress":7');
  const pieces = await until(
    async () => {
      const described = await describedPieces(world, run.runId);
      return described.some(reported) ? [...described] : undefined;
    },
    { what: 'a heartbeat with progress', withinMs: 60_000 },
  );
  if (name === 'given') {
    const [request] = await openRequests(run);
    pieces.push(...(await piecesOfRun(world, run.runId)));
    await run.decide(decisionOn(request, 'bob'));
  }
  servers[name].release();
  await run.result();
  pieces.push(...(await piecesOfRun(world, run.runId)));
  return { run, pieces };
}

/** Runs that end with an error whose text a server wrote. */
export async function refusedRuns({
  world,
  provider,
  secrets: { GIVEN, API_KEY },
}: CanaryScene): Promise<readonly Piece[]> {
  provider.enqueue(
    failed(400, JSON.stringify({ error: { message: formsOf(API_KEY).join(' '), type: 'invalid_request_error' } })),
  );
  const runs = [
    await world.start('main', { servers: [{ name: 'refused' }] }),
    await world.start('main', { servers: [{ name: 'closed' }] }, { authorizations: { closed: GIVEN } }),
    await world.start('main', { servers: [] }),
  ];
  const ids = runs.map(({ runId }) => runId);
  const ended = await endedPieces(world, ids);
  return [...ended, ...(await Promise.all(ids.map((id) => piecesOfRun(world, id)))).flat()];
}

/** Starts that the client refuses before anything is sent. */
export async function refusedStarts({ world, secrets: { GIVEN } }: CanaryScene): Promise<readonly Piece[]> {
  const servers = [{ name: 'given' }];
  return [
    await failedPiece(
      'an authorization with spaces',
      world.start('main', { servers }, { authorizations: { given: `${GIVEN} ${GIVEN}` } }),
    ),
    await failedPiece(
      'an authorization with a line break',
      world.start('main', { servers }, { authorizations: { given: `${GIVEN}\n` } }),
    ),
    await failedPiece(
      'an authorization without a key',
      world.start('main', { servers }, { authorizations: { minted: GIVEN } }),
    ),
    await failedPiece(
      'a token in clear',
      world.start('main', { servers, agent: { name: 'clerk', model: `Bearer ${GIVEN}` } }),
    ),
    await failedPiece(
      'a URL with a token',
      world.start('main', { servers: [{ name: 'given', url: `https://x.test/mcp?access_token=${GIVEN}` }] }),
    ),
  ];
}

/** Collects files on disk, output of the worker, requests to the ledger's webhook, and messages to people. */
export async function lyingPieces({ world, worker, receiver, desk, mail }: CanaryScene): Promise<readonly Piece[]> {
  const sent = receiver.received.map(({ headers, body }): Piece => ({
    store: 'ledger webhook',
    place: String(headers['webhook-id']),
    content: `${JSON.stringify(headers)}\n${body}`,
  }));
  const told = [
    ...desk.received.map(({ id, headers, body }) => [id, `${JSON.stringify(headers)}\n${body}`] as const),
    ...mail.mails.map(({ raw, text }, index) => [`mail ${index}`, `${raw}\n${text}`] as const),
  ].map(([place, content]): Piece => ({ store: 'messages', place, content }));
  return [
    ...(await storedPieces(world)),
    ...sent,
    ...told,
    { store: 'logs', place: 'worker', content: worker.output() },
  ];
}

// Makes the model read a resource that a leaking server has linked to.

/** Servers of the scene whose links may be read. */
const READ = ['given', 'minted'];

/** Returns the model's turns that read, with everything the model knows; none for other servers. */
function readingTurns(server: string, echo: string): ReturnType<typeof said>[] {
  if (!READ.includes(server)) return [];
  const name = `${server}__resources_read_${hashOf([server, READ_RESOURCE]).slice(0, 16)}`;
  const call = { type: 'call' as const, id: 'id-read', name, json: JSON.stringify({ uri: READABLE }) };
  return [said([{ type: 'text', text: echo }, call])];
}

// Connects catalogs whose server leaks the credentials that they name, in listings and in refused listings.

/**
 * The catalog whose server gets the secrets. The other one gets no token, only an error that quotes the token request.
 */
export const LISTED = 'listed';
export const REJECTED = 'rejected';

/** Connects the catalogs, refreshes them with success and failure, and allows every tool. */
export async function catalogPieces({ world, servers, secrets }: CanaryScene): Promise<readonly Piece[]> {
  const pieces: Piece[] = [];
  const catalog = world.countersign.catalog(LISTED);
  const { url } = servers.listed;
  const first = await connected(catalog, url, { credentials: 'named' });
  const names = first.entries.map((entry) => entry.name);
  pieces.push(...(await piecesOfCatalog(world, LISTED, names)));

  servers.listed.refuseListing(true);
  const broken = await refreshed(catalog);
  if (broken.lastRefresh?.ok !== false) throw new Error('the refresh has not failed');
  pieces.push(...(await piecesOfCatalog(world, LISTED)));
  servers.listed.refuseListing(false);
  await refreshed(catalog);
  await allowed(catalog, ...Object.keys(CANARY_TOOLS), 'held');
  pieces.push(...(await piecesOfCatalog(world, LISTED)));

  const rejected = await connected(world.countersign.catalog(REJECTED), url, { credentials: 'rejected' });
  if (rejected.lastRefresh?.ok !== false) throw new Error('the refresh has not failed');
  pieces.push(...(await piecesOfCatalog(world, REJECTED)));

  const misplaced = { by: ANN, url: `${url}?access_token=${secrets.GIVEN}` };
  pieces.push(await failedPiece('a catalog with a token in its address', catalog.connect(misplaced)));
  return pieces;
}
