/** A grant that will not outlive the deadline of a request is said when the request opens, wherever people look (F13). */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { stringify } from 'yaml';
import { runCommand } from '../support/cli.ts';
import { startEngine } from '../support/engine.ts';
import { keepZoneKey } from '../support/signing/keys.ts';
import { type RawServer, startRawServer, succeedWith } from '../support/servers/raw-server.ts';
import { factsOf } from '../support/world/run-record.ts';
import { decisionOn, openRequests, startWorld, type World } from '../support/world/world.ts';

/** The client seals for as long as the run may take. */
const GRANT_SECONDS = 3_600;
let server: RawServer;
let world: World;

beforeAll(async () => {
  server = await startRawServer({ era: 'modern', tools: { act: succeedWith('done') } });
  const engine = await startEngine();
  const zone = await keepZoneKey(engine.directory);
  await writeFile(join(engine.directory, 'countersign.yaml'), stringify({ servers: { mine: { url: server.url } } }));
  world = await startWorld({
    engine,
    client: { servers: { mine: { url: server.url, key: zone.publicJwk } } },
    config: {
      servers: { mine: { url: server.url } },
      grants: zone.grants,
    },
  });
});
afterAll(async () => {
  await world?.stop();
  await world?.engine.stop();
  await server?.close();
});

const STEPS = [{ calls: [{ tool: 'mine/act' }] }, { text: 'done' }];

async function cli(...args: string[]): Promise<string> {
  const { address, namespace } = world.engine.server;
  const where = ['--address', address, '--namespace', namespace];
  return (await runCommand([...args, ...where], { directory: world.engine.directory })).out;
}

test.each([
  ['that ends first', 2 * GRANT_SECONDS, true],
  ['that lasts longer', GRANT_SECONDS / 2, false],
] as const)('of a grant %s', async (_, deadlineSeconds, isTold) => {
  const over = { limits: { wallClockSeconds: GRANT_SECONDS }, policy: { deadlineSeconds } };
  const before = Date.now();
  const run = await world.start(STEPS, over, { authorizations: { mine: 'token' } });
  const [request] = await openRequests(run);
  if (request === undefined) throw new Error('no request');
  const ends = { request: request.grantExpiresAt, state: (await run.state()).grantEnds };
  const facts = factsOf(await run.ledger(), 'request.opened');
  const texts = await Promise.all([cli('show', run.runId), cli('requests', run.runId), cli('ledger', run.runId)]);
  if (isTold) {
    const at = request.grantExpiresAt ?? '';
    // A moment at the issuer of the grant, which is the client.
    expect(Date.parse(at)).toBeGreaterThanOrEqual(Math.floor(before / 1_000) * 1_000 + GRANT_SECONDS * 1_000 - 1_000);
    expect(Date.parse(at)).toBeLessThan(Date.parse(request.deadline));
    expect(ends.state).toEqual([{ callId: 't1.c0', server: 'mine', at }]);
    expect(facts).toMatchObject([{ callId: 't1.c0', grantExpiresAt: at }]);
    for (const text of texts) expect(text).toMatch(/grant ends/);
  } else {
    expect(ends).toEqual({ request: undefined, state: undefined });
    expect(facts.map((fact) => fact.grantExpiresAt)).toEqual([undefined]);
    for (const text of texts) expect(text).not.toMatch(/grant ends/);
  }
  await run.decide(decisionOn(request, 'ann'));
  await run.result();
});
