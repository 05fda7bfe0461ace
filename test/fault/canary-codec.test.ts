/**
 * With payload encryption on, nothing that a run is about stands in Temporal's database in clear (F29, F30): neither what goes in,
 * nor arguments, results, decisions or the answer. The same run without a key is the control.
 */
import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { defined } from '../../contracts/defined.ts';
import type { ConfigInput } from '../../contracts/schemas/config.ts';
import { type Canary, CanaryScanner } from '../support/canary/scan.ts';
import { storedPieces } from '../support/canary/stores.ts';
import { expectSound } from '../support/faults/oracle.ts';
import { type FaultWorld, startFaultWorld } from '../support/faults/world.ts';
import { acts, type RawServer, startRawServer } from '../support/servers/raw-server.ts';
import { replayOwn } from '../support/world/run-record.ts';
import { decisionOn, openRequests } from '../support/world/world.ts';

const LONG_MS = 120_000;

const random = (what: string): string => `${what}-${randomBytes(16).toString('hex')}`;
const CANARIES: readonly Canary[] = [
  'instructions',
  'input',
  'argument',
  'result',
  'fault',
  'comment',
  'reason',
  'message',
  'answer',
  'key',
].map((name) => ({ name, value: random(name) }));
const valueOf = (name: string): string => CANARIES.find((canary) => canary.name === name)?.value ?? '';

let server: RawServer;

beforeAll(async () => {
  server = await startRawServer({
    era: 'modern',
    tools: {
      act: acts((exchange) => exchange.result({ content: [{ type: 'text', text: valueOf('result') }] })),
      fail: acts((exchange) => exchange.result({ isError: true, content: [{ type: 'text', text: valueOf('fault') }] })),
    },
  });
});

afterAll(async () => server?.close());

/** One run that says everything there is to say; returns which canaries lie in the database. */
async function sightingsAfter(encryption: ConfigInput['encryption']): Promise<readonly string[]> {
  const args = { note: valueOf('argument'), [valueOf('key')]: true };
  const world: FaultWorld = await startFaultWorld({
    config: {
      servers: { tools: { url: server.url, credentials: { kind: 'none' } } },
      policy: { approvers: { ids: ['bob'] } },
      models: {
        main: {
          provider: 'scripted',
          script: {
            steps: [
              {
                calls: [
                  { tool: 'tools/act', arguments: args },
                  { tool: 'tools/fail', arguments: args },
                  { tool: 'tools/act', arguments: args },
                ],
              },
              { text: valueOf('answer') },
            ],
          },
        },
      },
      ...defined({ encryption }),
    },
  });
  try {
    await world.startWorker();
    const run = await world.start('main', {
      agent: { name: 'clerk', model: 'main', instructions: valueOf('instructions') },
      input: valueOf('input'),
    });
    const [first, second, third] = await openRequests(run, 3);
    // The client has the key: people see what they decide.
    expect(first.arguments).toEqual(args);
    await run.say({ messageId: 'm-1', text: valueOf('message'), from: 'ann' });
    await run.decide({ ...decisionOn(first, 'bob'), kind: 'approve', comment: valueOf('comment') });
    await run.decide(decisionOn(second, 'bob'));
    await run.decide({ ...decisionOn(third, 'bob'), kind: 'reject', reason: valueOf('reason') });
    expect(await run.result()).toMatchObject({ status: 'completed', output: valueOf('answer') });
    await expectSound(run, server.calls);
    await replayOwn(world);
    await world.engine.close();
    const scanner = new CanaryScanner(CANARIES);
    const database = (await storedPieces(world)).filter(({ store }) => store === 'SQLite file');
    expect(database.length).toBeGreaterThan(0);
    return [
      ...new Set(database.flatMap(({ place, content }) => scanner.scan(place, content)).map(({ canary }) => canary)),
    ].toSorted();
  } finally {
    await world.stop();
  }
}

test(
  'control: without a key the database holds all of it in clear',
  async () => {
    expect(await sightingsAfter(undefined)).toEqual(CANARIES.map(({ name }) => name).toSorted());
  },
  LONG_MS,
);

test(
  'with a key the database holds none of it, and the run works and replays',
  async () => {
    expect(await sightingsAfter({ keys: [{ id: 'k1', key: randomBytes(32).toString('base64') }] })).toEqual([]);
  },
  LONG_MS,
);
