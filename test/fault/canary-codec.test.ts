/**
 * With payload encryption on, nothing that a run is about stands in Temporal's database in clear (F29, F30): neither
 * what goes in, nor arguments, results, decisions or the answer. The record of a stretch is looked at while it is a
 * heartbeat. The same run without a key is the control.
 */
import { randomBytes } from 'node:crypto';
import { expect, jest, test } from '@jest/globals';
import { defined } from '../../contracts/defined.ts';
import type { ConfigInput } from '../../contracts/schemas/config.ts';
import { type Canary, CanaryScanner } from '../support/canary/scan.ts';
import { describedPieces, type Piece, storedPieces } from '../support/canary/stores.ts';
import { expectSound } from '../support/faults/oracle.ts';
import { type FaultWorld, startFaultWorld } from '../support/faults/world.ts';
import { Holds } from '../support/servers/holds.ts';
import { acts, startRawServer } from '../support/servers/raw-server.ts';
import { replayOwn } from '../support/world/run-record.ts';
import { decisionOn, openRequests } from '../support/world/world.ts';
import { sharedBundle } from '../support/shared-bundle.ts';
import { during } from '../support/world/during.ts';

jest.setTimeout(120_000);

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

/** What a stretch has on record while its second turn waits for the server. */
const ON_RECORD = ['argument', 'input', 'instructions', 'key', 'result'];

let holds: Holds;

const server = during(() =>
  startRawServer({
    era: 'modern',
    tools: {
      act: acts((exchange) => exchange.result({ content: [{ type: 'text', text: valueOf('result') }] })),
      look: acts((exchange) => exchange.result({ content: [{ type: 'text', text: valueOf('result') }] })),
      wait: (exchange) => {
        exchange.execute();
        holds.hold(() => exchange.text('It took its time.'), 'wait');
      },
      fail: acts((exchange) => exchange.result({ isError: true, content: [{ type: 'text', text: valueOf('fault') }] })),
    },
  }),
);

interface Seen {
  /** In the details of the heartbeat, while a call of the stretch is under way. */
  readonly heartbeat: readonly string[];
  /** In the database at that time. */
  readonly meanwhile: readonly string[];
  /** In the database at the end. */
  readonly database: readonly string[];
}

function namesIn(pieces: readonly Piece[], store: Piece['store']): readonly string[] {
  const scanner = new CanaryScanner(CANARIES);
  const own = pieces.filter((piece) => piece.store === store);
  expect(own.length).toBeGreaterThan(0);
  const found = own.flatMap(({ place, content }) => scanner.scan(place, content));
  return [...new Set(found.map(({ canary }) => canary))].toSorted();
}

/** One run that says everything there is to say; returns where which canaries are found. */
async function sightingsAfter(encryption: ConfigInput['encryption']): Promise<Seen> {
  holds = new Holds();
  const args = { note: valueOf('argument'), [valueOf('key')]: true };
  const world: FaultWorld = await startFaultWorld({
    // Nobody kills these workers, and the search for secrets may keep one busy for longer than a short heartbeat
    // timeout.
    bundle: await sharedBundle(),
    config: {
      servers: { tools: { url: server.url, credentials: { kind: 'none' }, repeatable: ['look', 'wait'] } },
      policy: { approvers: { ids: ['bob'] }, servers: { tools: { tools: { look: 'allow', wait: 'allow' } } } },
      models: {
        main: {
          provider: 'scripted',
          script: {
            steps: [
              { calls: [{ tool: 'tools/look', arguments: args }] },
              { calls: [{ tool: 'tools/wait', arguments: args }] },
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
    await holds.held('wait');
    const heartbeat = namesIn(await describedPieces(world, run.runId), 'heartbeat details');
    const meanwhile = namesIn(await storedPieces(world), 'SQLite file');
    holds.release('wait');
    const [first, second, third] = await openRequests(run, 3);
    // The client has the key: people see what they decide.
    expect(first.arguments).toEqual(args);
    await run.say({ messageId: 'm-1', text: valueOf('message'), from: 'ann' });
    await run.decide({ ...decisionOn(first, 'bob'), kind: 'approve', comment: valueOf('comment') });
    await run.decide(decisionOn(second, 'bob'));
    await run.decide({ ...decisionOn(third, 'bob'), kind: 'reject', reason: valueOf('reason') });
    expect(await run.result()).toMatchObject({ status: 'completed', output: valueOf('answer') });
    await expectSound(run, server.calls, { repeatable: ['look', 'wait'] });
    await replayOwn(world);
    await world.engine.close();
    return { heartbeat, meanwhile, database: namesIn(await storedPieces(world), 'SQLite file') };
  } finally {
    await world.stop();
  }
}

test('control: without a key the database holds all of it in clear', async () => {
  const { heartbeat, meanwhile, database } = await sightingsAfter(undefined);
  expect(heartbeat).toEqual(ON_RECORD);
  expect(meanwhile).toEqual(expect.arrayContaining(ON_RECORD));
  expect(database).toEqual(CANARIES.map(({ name }) => name).toSorted());
});

test('with a key the database holds none of it, and the run works and replays', async () => {
  const keys = [{ id: 'k1', key: randomBytes(32).toString('base64') }];
  expect(await sightingsAfter({ keys })).toEqual({ heartbeat: [], meanwhile: [], database: [] });
});
