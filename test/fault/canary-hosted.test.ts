/**
 * No secret of a hosted call stands anywhere (INV-S1, F29, docs/adr/0080): neither the key of the model, nor the token
 * and headers of the server that its provider calls. The provider says back what each request shows it: in lists,
 * requests for approval, texts, reasoning, results and errors. Then every store is read byte by byte.
 */
import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, expect, jest, test } from '@jest/globals';
import { MASK } from '../../activities/scrubbing/scrubber.ts';
import type { RunHandle } from '../../client/index.ts';
import { freePort } from '../../workers/dev-server.ts';
import { HOSTED_ENDINGS, type LeakingProvider, startLeakingProvider } from '../support/canary/hosting.ts';
import { endedPieces, type Piece, piecesOfRun, sightings, storedPieces } from '../support/canary/stores.ts';
import { type FaultWorld, startFaultWorld } from '../support/faults/world.ts';
import { type MessageReceiver, startMessageReceiver } from '../support/servers/message-receiver.ts';
import { privateLines } from '../support/oauth/grants.ts';
import { headKey, zoneKey } from '../support/signing/keys.ts';
import { outcomes, replayOwn } from '../support/world/run-record.ts';
import { decisionOn, openRequests } from '../support/world/world.ts';
import type { WorkerProcess } from '../support/world/worker-process.ts';
import { sharedBundle } from '../support/shared-bundle.ts';

jest.setTimeout(240_000);
const random = (): string => randomBytes(20).toString('hex');
const SECRETS = {
  API_KEY: `sk-${random()}-key`,
  HEADER_KEY: `header ${random()} "q" \\ %41 +/=`,
  MESSAGE_SECRET: `whsec_${randomBytes(33).toString('base64')}`,
};
const TOKEN = `given~${random()}+/x==`;
/** Names no server: `bank.example` is never looked up, because the provider calls it. */
const URL_OF_BANK = 'https://bank.example/mcp';

let provider: LeakingProvider;
let desk: MessageReceiver;
let world: FaultWorld;
let worker: WorkerProcess;
let run: RunHandle;
const storing: { keeping?: RunHandle; keyed?: RunHandle } = {};
let canaries: Readonly<Record<string, string>>;
let pieces: readonly Piece[];

beforeAll(async () => {
  provider = await startLeakingProvider();
  desk = await startMessageReceiver(SECRETS.MESSAGE_SECRET);
  const zone = await zoneKey();
  const signing = headKey();
  const port = await freePort();
  const gpt = {
    provider: 'openai',
    model: 'gpt-5.1',
    baseUrl: provider.baseUrl,
    asksBeforeCalls: true,
    apiKey: '${API_KEY}',
  } as const;
  world = await startFaultWorld({
    beside: [provider, desk],
    // Nobody kills these workers, and the search for secrets may keep one busy for longer than a short heartbeat
    // timeout.
    bundle: await sharedBundle(),
    config: {
      models: {
        gpt,
        keeping: { ...gpt, storesAnswers: true },
        keyed: { ...gpt, model: 'keyed', storesAnswers: true },
      },
      servers: {
        mine: { url: URL_OF_BANK, execute: 'hosted', headers: { 'x-api-key': '${HEADER_KEY}' }, recheckSeconds: 0 },
      },
      policy: {
        approvers: { ids: ['bob'] },
        notify: [{ channel: 'desk' }],
        unknownOutcomes: 'record',
        servers: { mine: { default: 'allow', tools: { words: 'ask', error: 'ask' } } },
      },
      ledger: { sign: { kid: signing.kid, privateKeyFile: 'ledger.pem' }, directory: 'ledger' },
      notify: { channels: { desk: { kind: 'webhook', url: desk.url, secret: '${MESSAGE_SECRET}' } } },
      grants: { keys: [{ kid: zone.kid, privateKeyFile: 'zone.pem' }] },
      log: { level: 'trace' },
      metrics: { prometheus: `127.0.0.1:${port}` },
    },
    files: { 'zone.pem': zone.pem, 'ledger.pem': signing.pem },
    env: SECRETS,
    client: { servers: { mine: { url: URL_OF_BANK, key: zone.publicJwk } } },
  });
  worker = await world.startWorker();
  const authorizations = { mine: `Bearer ${TOKEN}` };
  run = await world.start('gpt', { limits: { resultBytes: 16_384 } }, { authorizations });
  const requests = await openRequests(run, 2);
  const waiting = await piecesOfRun(world, run.runId);
  for (const request of requests) await run.decide(decisionOn(request, 'bob'));
  await run.result();
  const ended = await piecesOfRun(world, run.runId);
  const ofStored: Piece[] = [];
  for (const model of ['keeping', 'keyed'] as const) {
    const stored = await world.start(model, { limits: { resultBytes: 16_384 } }, { authorizations });
    for (const request of await openRequests(stored, 2)) await stored.decide(decisionOn(request, 'bob'));
    await stored.result();
    storing[model] = stored;
    ofStored.push(...(await piecesOfRun(world, stored.runId)));
  }
  provider.refuseSteps(true);
  const refused = await world.start('gpt', {}, { authorizations });
  const failed = await endedPieces(world, [refused.runId]);
  const ofFailed = await piecesOfRun(world, refused.runId);
  const told = desk.received.map(({ id, headers, body }): Piece => ({
    store: 'messages',
    place: String(id),
    content: `${JSON.stringify(headers)}\n${body}`,
  }));
  const scraped = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  const metrics: Piece = { store: 'metrics', place: 'worker', content: scraped };
  const logs: Piece = { store: 'logs', place: 'worker', content: worker.output() };
  const lines = [zone, signing].flatMap(({ pem }) => privateLines(pem));
  const keys = lines.map((line, index) => [`private key ${index}`, line] as const);
  canaries = { ...SECRETS, TOKEN, ...Object.fromEntries(keys) };
  pieces = [
    ...waiting,
    ...ended,
    ...ofStored,
    ...failed,
    ...ofFailed,
    ...told,
    logs,
    metrics,
    ...(await storedPieces(world)),
  ];
});

afterAll(async () => world?.stop());

test('the provider was shown the secrets, where they belong, and every ending came through the run', async () => {
  expect(new Set(provider.asked.map(({ authorization }) => authorization))).toEqual(
    new Set([`Bearer ${SECRETS.API_KEY}`]),
  );
  const [executing, others] = [true, false].map((each) => provider.asked.filter(({ executes }) => executes === each));
  expect(executing?.length).toBeGreaterThanOrEqual(HOSTED_ENDINGS.length);
  for (const { body } of executing ?? [])
    expect(body['tools']).toMatchObject([{ authorization: TOKEN, headers: { 'x-api-key': SECRETS.HEADER_KEY } }]);
  // A model step is shown no token; what it repeats of earlier answers holds none any more.
  const steps = (others ?? []).filter(({ body }) => body['include'] !== undefined);
  expect(steps.length).toBeGreaterThan(1);
  const shown = steps.map(({ body }, index): Piece => ({
    store: 'queries',
    place: `step ${index}`,
    content: JSON.stringify(body),
  }));
  expect(sightings({ TOKEN, HEADER_KEY: SECRETS.HEADER_KEY }, shown)).toEqual([]);
  expect(new Set(Object.values(await outcomes(run)))).toEqual(new Set(['succeeded', 'failed', 'unknown']));
});

test('calls continued stored answers, and none of an answer whose id holds the key', async () => {
  const { keeping, keyed } = storing;
  if (keeping === undefined || keyed === undefined) throw new Error('nothing was stored');
  expect(provider.reads()).toBeGreaterThan(HOSTED_ENDINGS.length);
  const continuing = provider.asked.filter(({ body }) => body['previous_response_id'] !== undefined);
  expect(continuing.map(({ executes, body }) => [executes, body['previous_response_id']])).toEqual(
    HOSTED_ENDINGS.map(() => [true, 'resp_1']),
  );
  expect(new Set(Object.values(await outcomes(keeping)))).toEqual(new Set(['succeeded', 'failed', 'unknown']));
  expect(new Set(Object.values(await outcomes(keyed)))).toEqual(new Set(['failed']));
});

test('no secret stands anywhere, in any form', () => {
  expect([...new Set(pieces.map(({ store }) => store))]).toEqual(
    expect.arrayContaining([
      'history',
      'memo',
      'search attributes',
      'failures',
      'queries',
      'SQLite file',
      'artifacts',
      'ledger directory',
      'messages',
      'logs',
      'metrics',
      'command line',
      'client errors',
    ]),
  );
  expect(sightings(canaries, pieces)).toEqual([]);
});

test('control: the provider’s own words are found, and where a secret stood among them it was masked', () => {
  const found = sightings({ said: 'mcpr_in-words', masked: MASK }, pieces);
  for (const what of ['said', 'masked'])
    for (const store of ['history', 'queries', 'SQLite file']) expect(found).toContain(`${what} in ${store} as raw`);
  expect(found).toContain('masked in artifacts as raw');
});

test('and all of it replays', async () => {
  await replayOwn(world);
});
