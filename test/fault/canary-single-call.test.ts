/**
 * No secret of a single call stands anywhere (S2.3, INV-S1, F29): neither the caller's own token nor those that workers
 * get, at servers that give away all they are sent; and with payload encryption not even what the call is about. Calls
 * come by the library and over HTTP. What is clear where it may be is the control.
 */
import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import type { CallSpecInput, SingleCall } from '../../client/index.ts';
import { StartedCall } from '../../contracts/schemas/http/calls.ts';
import type { ConfigInput } from '../../contracts/schemas/config.ts';
import type { Gateway } from '../../gateway/gateway.ts';
import { type CanaryScene, lyingPieces, startCanaryScene } from '../support/canary/scene.ts';
import { WITHHELD } from '../support/canary/secrets.ts';
import { CANARY_TOOLS } from '../support/canary/server.ts';
import {
  describedPieces,
  failedPiece,
  type Piece,
  piecesOfRun,
  sightings,
  storedPieces,
} from '../support/canary/stores.ts';
import { startFaultWorld } from '../support/faults/world.ts';
import { callerOf, startTestGateway, startTestProvider, type TestProvider } from '../support/scenes/gateway-world.ts';
import { acts, startRawServer } from '../support/servers/raw-server.ts';
import { until } from '../support/until.ts';
import { replayOwn } from '../support/world/run-record.ts';
import { decisionOn, openRequests } from '../support/world/world.ts';
import { sharedBundle } from '../support/shared-bundle.ts';

const LONG_MS = 240_000;
jest.setTimeout(LONG_MS);

describe('tokens', () => {
  let scene: CanaryScene;
  let provider: TestProvider;
  let gateway: Gateway;
  let pieces: readonly Piece[];

  const args = { note: 'Do it.', withheld: WITHHELD };

  async function byLibrary(runId: string, server: 'given' | 'minted', tool: string): Promise<SingleCall> {
    const { world, secrets } = scene;
    const call: CallSpecInput = { server, tool, arguments: args, initiator: { id: 'ann' } };
    const authorizations = server === 'given' ? { authorizations: { given: `Bearer ${secrets.GIVEN}` } } : {};
    return await world.countersign.call({ runId, taskQueue: world.config.taskQueue, call, ...authorizations });
  }

  beforeAll(async () => {
    scene = await startCanaryScene();
    const { world, secrets } = scene;
    provider = await startTestProvider();
    gateway = await startTestGateway(world, provider, { config: { may: { start: { ids: ['ann'] } } } });
    const token = await provider.token({ sub: 'ann', lives: 3_600 });
    const backend = callerOf(gateway, token);
    const found: Piece[] = [];
    const tools = Object.keys(CANARY_TOOLS);
    const ids = tools.map((tool) => `given-${tool}`);
    const answered = async (tool: string): Promise<void> => {
      const call = await byLibrary(`given-${tool}`, 'given', tool);
      // Policy asks about this one: people are told of it.
      if (tool === 'words') {
        const [request] = await openRequests(call.run);
        await call.run.decide(decisionOn(request, 'bob'));
      }
      found.push({ store: 'queries', place: `answer of ${tool}`, content: JSON.stringify(await call.answer()) });
    };
    // Its request is read before the worker searches what all the others return for secrets.
    await answered('words');
    await Promise.all(tools.filter((tool) => tool !== 'words').map(answered));
    for (const tool of tools) {
      const said = { server: 'minted', tool, arguments: args, runId: `http-${tool}`, waitSeconds: 30 };
      // The same again finds the same call: a worker that searches for secrets on a busy machine may need longer.
      await until(
        async () => {
          const { body } = await backend('POST', '/v1/calls', said);
          found.push({ store: 'queries', place: `POST /v1/calls ${tool}`, content: JSON.stringify(body) });
          return StartedCall.parse(body).status === 'ended';
        },
        { what: `the end of ${said.runId}`, withinMs: LONG_MS / 2 },
      );
    }
    const place = 'an authorization with spaces';
    const wrong = { given: `${secrets.GIVEN} ${secrets.GIVEN}` };
    const call = { server: 'given', tool: 'words', initiator: { id: 'ann' } };
    found.push(await failedPiece(place, world.countersign.call({ runId: 'wrong', call, authorizations: wrong })));
    // The API takes sealed grants alone; a plain token has no place there, and its refusal does not repeat it.
    const plain = await backend('POST', '/v1/calls', { server: 'given', tool: 'words', authorizations: wrong });
    expect(plain.status).toBe(422);
    found.push({ store: 'client errors', place: 'a token over HTTP', content: JSON.stringify(plain.body) });
    for (const runId of [...ids, ...tools.map((tool) => `http-${tool}`)])
      found.push(...(await describedPieces(world, runId)));
    for (const tool of ['words', 'error', 'link', 'large', 'rpc-failed', 'unauthorized'])
      for (const way of ['given', 'http']) found.push(...(await piecesOfRun(world, `${way}-${tool}`)));
    pieces = [...found, ...(await lyingPieces(scene))];
  });

  afterAll(async () => {
    await gateway?.stop();
    await provider?.close();
    await scene?.close();
  });

  test('were sent to the servers, once with each call', () => {
    const { servers, secrets } = scene;
    const sent = (server: 'given' | 'minted') =>
      servers[server].seen.filter(({ rpcMethod }) => rpcMethod === 'tools/call').map(({ headers }) => headers);
    expect(new Set(sent('given').map(({ authorization }) => authorization))).toEqual(
      new Set([`Bearer ${secrets.GIVEN}`]),
    );
    expect(new Set(sent('minted').map(({ authorization }) => authorization))).toEqual(
      new Set([`Bearer ${scene.minted('minted')}`]),
    );
    // One whose token is refused is sent again with a fresh one, where there is one.
    expect(servers.given.executions()).toBeGreaterThanOrEqual(Object.keys(CANARY_TOOLS).length);
  });

  test('stand nowhere, in any form: not in histories, answers over HTTP, messages, logs, errors or files', () => {
    expect(new Set(pieces.map(({ store }) => store)).size).toBeGreaterThanOrEqual(12);
    const canaries = Object.fromEntries(scene.canaries().map(({ name, value }, index) => [`${name} ${index}`, value]));
    expect(sightings(canaries, pieces)).toEqual([]);
  });

  test('an argument that policy redacts stands in no message and no log; it is in histories, and would be found', () => {
    const outside = pieces.filter(({ store }) => ['messages', 'logs', 'client errors'].includes(store));
    expect(outside.some(({ store, content }) => store === 'messages' && String(content).includes('given-words'))).toBe(
      true,
    );
    expect(sightings({ WITHHELD }, outside)).toEqual([]);
    const histories = pieces.filter(({ store }) => store === 'history');
    expect(sightings({ WITHHELD }, histories)).not.toEqual([]);
  });

  test('and all of it replays', async () => {
    await replayOwn(scene.world);
  });
});

describe('what a call is about', () => {
  const random = (what: string): string => `${what}-${randomBytes(16).toString('hex')}`;
  const secret = { argument: random('argument'), result: random('result'), comment: random('comment') };
  const key = { id: 'canary', key: randomBytes(32).toString('base64') };

  /** Everything that stands in Temporal and in the worker's log after one call that was approved. */
  async function leftBy(encryption: ConfigInput['encryption']): Promise<readonly Piece[]> {
    const server = await startRawServer({
      era: 'modern',
      tools: { act: acts((exchange) => exchange.text(secret.result)) },
    });
    const world = await startFaultWorld({
      // Nobody kills these workers, and the search for secrets may keep one busy for longer than a short heartbeat
      // timeout.
      bundle: await sharedBundle(),
      config: {
        servers: { bank: { url: server.url, credentials: { kind: 'none' } } },
        policy: { approvers: { ids: ['bob'] } },
        log: { level: 'trace' },
        ...(encryption === undefined ? {} : { encryption }),
      },
    });
    try {
      const worker = await world.startWorker();
      const call = {
        server: 'bank',
        tool: 'act',
        arguments: { purpose: secret.argument },
        initiator: { id: 'ann' },
      };
      const single = await world.countersign.call({ runId: 'single', taskQueue: world.config.taskQueue, call });
      const [request] = await openRequests(single.run);
      await single.run.decide({ ...decisionOn(request, 'bob'), kind: 'approve', comment: secret.comment });
      expect(JSON.stringify(await single.answer())).toContain(secret.result);
      expect(server.calls).toMatchObject([{ arguments: { purpose: secret.argument } }]);
      const described = await describedPieces(world, 'single');
      await replayOwn(world);
      // It writes the rest into the file.
      await world.engine.close();
      const stored = (await storedPieces(world)).filter(({ store }) => store === 'SQLite file');
      return [...described, ...stored, { store: 'logs', place: 'worker', content: worker.output() }];
    } finally {
      await world.stop();
      await server.close();
    }
  }

  test('stands nowhere in clear where payloads are encrypted', async () => {
    expect(sightings(secret, await leftBy({ keys: [key] }))).toEqual([]);
  });

  test('control: without a key it stands in the database, and in no log', async () => {
    const pieces = await leftBy(undefined);
    const stores = new Set(pieces.filter((piece) => sightings(secret, [piece]).length > 0).map(({ store }) => store));
    expect([...stores]).toEqual(['SQLite file']);
  });
});
