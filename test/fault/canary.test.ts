/**
 * No secret stands anywhere (INV-S1, F29, H-3): every secret of a deployment is a canary, the servers that get them
 * give them all away, and every store is read byte by byte afterwards. A control plants a canary in each store and
 * finds it there.
 */
import { randomBytes } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { beforeAll, describe, expect, jest, test } from '@jest/globals';
import { MASK } from '../../activities/scrubbing/scrubber.ts';
import { Countersign, type RunHandle } from '../../client/index.ts';
import { RUN_WORKFLOW } from '../../contracts/names.ts';
import { type Canary, CanaryScanner, type Sighting } from '../support/canary/scan.ts';
import {
  catalogPieces,
  converse,
  LISTED,
  lyingPieces,
  refusedRuns,
  refusedStarts,
  REJECTED,
  startCanaryScene,
} from '../support/canary/scene.ts';
import { WITHHELD } from '../support/canary/secrets.ts';
import { CANARY_TOOLS, type CanaryServer, formsOf } from '../support/canary/server.ts';
import {
  describedPieces,
  failedPiece,
  type Piece,
  piecesOfCatalog,
  piecesOfRun,
  storedPieces,
  STORES,
} from '../support/canary/stores.ts';
import { answered } from '../support/models/bench.ts';
import { chatDialect } from '../support/models/chat.ts';
import { said } from '../support/models/dialect.ts';
import { connected, refreshed } from '../support/scenes/catalogs.ts';
import { until } from '../support/until.ts';
import { factsOf, replayOwn } from '../support/world/run-record.ts';
import { during } from '../support/world/during.ts';

jest.setTimeout(240_000);

let runs: readonly RunHandle[];
let pieces: readonly Piece[];

const scene = during(() => startCanaryScene());
beforeAll(async () => {
  const given = await converse(scene, 'given');
  const minted = await converse(scene, 'minted');
  const catalog = await catalogPieces(scene);
  const listed = await converse(scene, 'listed');
  const kept = await converse(scene, 'kept');
  runs = [given.run, minted.run, listed.run, kept.run];
  pieces = [
    ...given.pieces,
    ...minted.pieces,
    ...catalog,
    ...listed.pieces,
    ...kept.pieces,
    ...(await refusedRuns(scene)),
    ...(await refusedStarts(scene)),
    ...(await lyingPieces(scene)),
  ];
});

type Found = Sighting & { readonly store: string };

function sightings(canaries: readonly Canary[], among: readonly Piece[]): readonly Found[] {
  const scanner = new CanaryScanner(canaries);
  const found = new Map<string, Found>();
  for (const { store, place, content } of among) {
    // One of a kind is enough to go by.
    for (const sighting of scanner.scan(place, content))
      found.set(`${store} ${sighting.canary} ${sighting.form}`, { store, ...sighting });
  }
  return [...found.values()];
}

test('the secrets were really used, and really given away', () => {
  const { servers, secrets, provider, tokenServers, receiver } = scene;
  // Whoever does not have the secret cannot sign: this receiver keeps nothing then.
  expect(receiver.received.some(({ headers }) => String(headers['webhook-signature']).startsWith('v1,'))).toBe(true);
  // Receiver and mail server keep what came with the secret of their channel.
  expect([...new Set(scene.desk.received.map(({ message }) => message.type))].toSorted()).toEqual([
    'request.closed',
    'request.opened',
  ]);
  expect(new Set(scene.mail.users)).toEqual(new Set(['countersign']));
  const seen = (server: CanaryServer) =>
    server.seen.filter(({ rpcMethod }) => rpcMethod === 'tools/call').map(({ headers }) => headers);
  const authorizations = (server: CanaryServer) => [...new Set(seen(server).map(({ authorization }) => authorization))];
  expect(authorizations(servers.given)).toEqual([`Bearer ${secrets.GIVEN}`]);
  expect(authorizations(servers.minted)).toEqual([`Bearer ${scene.minted('minted')}`]);
  expect(authorizations(servers.kept)).toEqual([`Bearer ${scene.minted('kept')}`]);
  // The one that was put first, and the one that replaced it with each use.
  const renewed = tokenServers.flatMap(({ seen: requests }) =>
    requests.map(({ form }) => form.get('refresh_token') ?? undefined),
  );
  expect(new Set(renewed.filter(Boolean))).toEqual(new Set([secrets.STORED, secrets.REFRESH]));
  // Its metadata are asked for without one, after it has refused a token.
  const asked = servers.listed.seen.filter(({ rpcMethod }) => rpcMethod !== undefined);
  const sentToListed = asked.map(({ headers }) => headers.authorization);
  expect(new Set(sentToListed)).toEqual(new Set([`Bearer ${scene.minted('listed')}`]));
  expect(seen(servers.given)[0]).toMatchObject({
    'x-api-key': secrets.HEADER_KEY,
    'x-session-cookie': `Bearer ${secrets.HEADER_SCHEMED}`,
    'x-padded-secret': secrets.HEADER_PADDED,
  });
  expect([...new Set(provider.received.map(({ headers }) => headers.authorization))]).toEqual([
    `Bearer ${secrets.API_KEY}`,
  ]);
  expect(tokenServers.map(({ seen: requests }) => requests.length > 0)).toEqual([true, true]);
});

test('every kind of result and error came through the whole run', async () => {
  for (const run of runs) {
    const all = factsOf(await run.ledger(), 'outcome');
    const outcomes = all.filter(({ callId }) => callId.startsWith('t1.'));
    expect(outcomes).toHaveLength(Object.keys(CANARY_TOOLS).length + 1);
    expect(new Set(outcomes.map(({ outcome }) => outcome))).toEqual(new Set(['succeeded', 'failed', 'unknown']));
  }
  for (const server of ['given', 'minted'] as const) {
    const read = scene.servers[server].seen.filter(({ rpcMethod }) => rpcMethod === 'resources/read');
    expect(read).toMatchObject([{ headers: { authorization: expect.stringMatching(/^Bearer ./) } }]);
  }
});

test('a catalog was told of tools and of failures, each with secrets in it that were taken out', async () => {
  const [listed, rejected] = [LISTED, REJECTED].map((name) => scene.world.countersign.catalog(name));
  const snapshot = await listed?.snapshot();
  expect(snapshot).toMatchObject({ lastRefresh: { ok: true, refused: [{}, {}] } });
  expect(snapshot?.entries).toHaveLength(Object.keys(CANARY_TOOLS).length + 1);
  const stored = Object.values(snapshot?.listings ?? {}).map((ref) => scene.world.artifacts.get(ref));
  for (const listing of await Promise.all(stored)) expect(Buffer.from(listing).toString()).toContain(MASK);
  expect(factsOf((await listed?.ledger()) ?? [], 'catalog.refresh-failed')).toMatchObject([
    { message: expect.stringContaining(MASK) },
  ]);
  expect((await rejected?.snapshot())?.lastRefresh).toMatchObject({ ok: false, code: 'TOKEN_REFUSED' });
});

test('no secret stands anywhere, in any form', () => {
  const canaries = scene.canaries();
  expect(canaries.filter(({ value }) => value.length < 32)).toEqual([]);
  // Something was read of each store.
  expect(new Set(pieces.map(({ store }) => store))).toEqual(new Set(STORES));
  expect(sightings(canaries, pieces)).toEqual([]);
});

test('no redacted argument is in any message, and what a message shows of the others is masked', () => {
  const told = pieces.filter(({ store }) => store === 'messages');
  expect(told.length).toBeGreaterThan(2);
  expect(sightings([{ name: 'withheld', value: WITHHELD }], told)).toEqual([]);
  // It is where it must be, so it would have been found.
  const histories = pieces.filter(({ store }) => store === 'history');
  expect(sightings([{ name: 'withheld', value: WITHHELD }], histories)).not.toEqual([]);
  for (const { content } of told) expect(String(content)).toContain('[redacted]');
});

test('no run was changed by what its servers said: all replays', async () => {
  await replayOwn(scene.world);
});

describe('control: a canary that is planted', () => {
  const CONTROL = `control-${randomBytes(20).toString('hex')}`;
  const CANARY = [{ name: 'control', value: CONTROL }];
  const runId = `run-${CONTROL}`;
  let found: readonly Found[];
  let ofCatalog: readonly Piece[];

  beforeAll(async () => {
    const { world, provider, servers, secrets } = scene;
    ofCatalog = await catalogWithControl();
    const json = JSON.stringify({ planted: [CONTROL, Buffer.from(CONTROL).toString('hex'), `-${CONTROL}-`] });
    const call = said([{ type: 'call', id: 'held', name: 'given__held', json }]);
    const answer = said([{ type: 'text', text: `${CONTROL} ${formsOf(`"${CONTROL}"`).join(' ')}` }]);
    provider.enqueue(...[call, answer].map((each) => answered(chatDialect.events(each))));
    const over = { servers: [{ name: 'given' }], initiator: { id: CONTROL }, input: CONTROL };
    const run = await world.start('main', over, { runId, authorizations: { given: secrets.GIVEN } });
    const activityId = await until(async () => await callUnderWay(), { what: 'the call under way' });
    const heartbeat = { note: CONTROL, packed: gzipSync(CONTROL).toString('base64') };
    const planted: Piece[] = await until(
      async () => {
        await world.client.activity.heartbeat({ workflowId: runId, activityId }, heartbeat);
        const described = [...(await describedPieces(world, runId))];
        // The worker's own heartbeat may come in between: the server keeps the last one only.
        const stores = sightings(CANARY, described).map(({ store }) => store);
        return stores.includes('heartbeat details') ? described : undefined;
      },
      { what: 'the control in the heartbeat' },
    );
    await world.client.activity.fail({ workflowId: runId, activityId }, new Error(`it failed: ${CONTROL}`));
    await run.result();
    servers.given.release();
    await tellOfControl();
    const nobody = new Countersign({ client: world.client }).run(`no-${CONTROL}`);
    await writeFile(join(world.engine.directory, 'vault', 'planted'), CONTROL);
    await world.artifacts.put(gzipSync(`in an artifact: ${CONTROL}`), 'application/gzip');
    planted.push(
      ...(await piecesOfRun(world, runId)),
      ...(await memoPieces()),
      await failedPiece('an unknown run', nobody.state()),
    );
    found = sightings(CANARY, [...planted, ...(await lyingPieces(scene))]);
    await replayOwn(world);
  });

  /** A person is told who started a run. */
  async function tellOfControl(): Promise<void> {
    const { world, provider, secrets, desk } = scene;
    const ask = said([{ type: 'call', id: 'asks', name: 'given__words', json: '{}' }]);
    provider.enqueue(answered(chatDialect.events(ask)));
    const over = { servers: [{ name: 'given' }], initiator: { id: CONTROL } };
    const run = await world.start('main', over, { authorizations: { given: secrets.GIVEN } });
    await until(() => desk.of(run.runId).length > 0, { what: 'a message about the control' });
    await run.stop({ by: CONTROL, reason: 'told' });
    await run.result();
  }

  async function callUnderWay(): Promise<string | undefined> {
    const { connection, options } = scene.world.client;
    const { pendingActivities } = await connection.workflowService.describeWorkflowExecution({
      namespace: options.namespace,
      execution: { workflowId: runId },
    });
    return pendingActivities?.find(({ activityType }) => activityType?.name === 'callTool')?.activityId ?? undefined;
  }

  /** A run writes no free text into its memo; a starter may. */
  async function memoPieces(): Promise<readonly Piece[]> {
    const { world, provider } = scene;
    const workflowId = 'run-with-memo';
    provider.enqueue(answered(chatDialect.events(said([{ type: 'text', text: 'Done.' }]))));
    const spec = { agent: { name: 'clerk', model: 'main' }, input: 'Do it.', initiator: { id: 'ann' } };
    await world.client.workflow.execute(RUN_WORKFLOW, {
      workflowId,
      taskQueue: world.config.taskQueue,
      args: [spec],
      memo: { note: CONTROL },
    });
    return await describedPieces(world, workflowId);
  }

  /** Two tools whose server writes the control where a hostile one writes a secret; then one of them says it otherwise. */
  async function catalogWithControl(): Promise<readonly Piece[]> {
    const { world, plain } = scene;
    const names = [`tool-${CONTROL}`, 'other'];
    plain.lists(names, CONTROL);
    await connected(world.countersign.catalog('plain'), plain.url);
    plain.lists(names, `${CONTROL}-again`);
    await refreshed(world.countersign.catalog('plain'));
    return await piecesOfCatalog(world, 'plain', ['other']);
  }

  test.each([
    'catalog/default/plain snapshot',
    'catalog/default/plain ledger',
    'catalog/default/plain definitions',
    'countersign catalog list plain',
    'countersign catalog list plain --json',
    'countersign catalog show plain other',
    'countersign catalog diff plain',
    'countersign catalog export plain',
    'countersign ledger catalog/default/plain',
  ])('is found in what a catalog shows: %s', (place) => {
    const there = ofCatalog.filter((piece) => piece.place === place);
    expect(there).toHaveLength(1);
    expect(sightings(CANARY, there)).not.toEqual([]);
  });

  test('is found in the history of a catalog, and in its listing where that is stored', async () => {
    const stores = new Set(sightings(CANARY, ofCatalog).map(({ store }) => store));
    expect([...stores]).toEqual(expect.arrayContaining(['history', 'exported history', 'queries', 'command line']));
    const listings = Object.values((await scene.world.countersign.catalog('plain').snapshot()).listings);
    const stored = await Promise.all(listings.map(async (ref) => await scene.world.artifacts.get(ref)));
    const asPieces = stored.map((content): Piece => ({ store: 'artifacts', place: 'listing', content }));
    expect(sightings(CANARY, asPieces)).not.toEqual([]);
  });

  test.each(STORES)('is found in: %s', (store) => {
    expect(found.filter((sighting) => sighting.store === store)).not.toEqual([]);
  });

  test.each(['raw', 'base64', 'base64url', 'hex', 'gzip > raw', 'base64 > gzip > raw', 'base64 > raw'])(
    'is found as: %s',
    (form) => {
      expect(found.map((sighting) => sighting.form)).toContain(form);
    },
  );
});

test('stopped in order, the file of Temporal holds none either', async () => {
  scene.worker.terminate();
  await scene.worker.ended;
  await scene.world.engine.close();
  expect(sightings(scene.canaries(), await storedPieces(scene.world))).toEqual([]);
});
