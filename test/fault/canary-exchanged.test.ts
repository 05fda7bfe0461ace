/**
 * No secret of an exchange stands anywhere (INV-S1): assertions of callers and of the service, ID-JAGs, tokens, proofs,
 * keys. Authorization servers write what they were shown into the tokens they give, and tool servers give away what
 * they read there.
 */
import { beforeAll, expect, test } from '@jest/globals';
import { decodeJwt } from 'jose';
import { EXCHANGED, startExchangedScene } from '../support/canary/exchanged.ts';
import { CanaryScanner } from '../support/canary/scan.ts';
import type { Piece } from '../support/canary/stores.ts';
import { factsOf, replayOwn } from '../support/world/run-record.ts';
import { during } from '../support/world/during.ts';

const LONG_MS = 240_000;

let pieces: readonly Piece[];

const scene = during(() => startExchangedScene(), LONG_MS);
beforeAll(async () => {
  pieces = await scene.pieces();
}, LONG_MS);

test('every tool of every server was called, with tokens that hold what was to be hidden', async () => {
  for (const name of EXCHANGED) expect(scene.servers[name].executions()).toBeGreaterThanOrEqual(6);
  const token = scene.servers.exchanged.seen.at(-1)?.headers.authorization?.replace('DPoP ', '') ?? '';
  expect(decodeJwt(token).jti).toBe(scene.subject);
  // Two kinds are bound to keys, and one is not.
  const shown = EXCHANGED.map((name) =>
    scene.servers[name].seen.flatMap(({ headers: { authorization, dpop } }) =>
      authorization === undefined ? [] : [`${authorization.split(' ')[0]} ${typeof dpop}`],
    ),
  );
  expect(shown.map((each) => [...new Set(each)])).toEqual([['DPoP string'], ['Bearer undefined'], ['DPoP string']]);
  const [runId = ''] = scene.world.runs;
  const facts = factsOf(await scene.world.countersign.run(runId).ledger(), 'outcome');
  const strategies = new Set(facts.map(({ token: evidence }) => evidence?.strategy));
  expect([...strategies]).toEqual(expect.arrayContaining(['token-exchange', 'enterprise-managed', 'issued']));
  // What is recorded of a token is not what its issuer hid there.
  const exchanged = facts.filter(({ token: evidence }) => evidence?.strategy === 'token-exchange');
  expect(exchanged.map(({ token: evidence }) => evidence?.jti)).toEqual(exchanged.map(() => undefined));
});

test(
  'none of it is found in any store',
  () => {
    const canaries = scene.canaries();
    expect(canaries.length).toBeGreaterThan(20);
    const scanner = new CanaryScanner(canaries);
    const found = pieces.flatMap(({ store, place, content }) =>
      scanner.scan(place, content).map(({ canary, form, near }) => ({ store, place, canary, form, near })),
    );
    expect(found.slice(0, 5)).toEqual([]);
  },
  LONG_MS,
);

test('control: what the servers say is there, and where it was hidden it was masked', () => {
  const stores = new Set<string>(pieces.map(({ store }) => store));
  expect([...stores]).toEqual(
    expect.arrayContaining([
      'history',
      'exported history',
      'queries',
      'SQLite file',
      'artifacts',
      'logs',
      'command line',
    ]),
  );
  const masked = pieces.filter(
    ({ store, content }) => store === 'history' && Buffer.from(content).includes('[redacted]'),
  );
  expect(masked).not.toEqual([]);
  const scanner = new CanaryScanner([{ name: 'control', value: 'Do it.' }]);
  expect(pieces.flatMap(({ place, content }) => scanner.scan(place, content))).not.toEqual([]);
});

test('the run replays', async () => {
  await replayOwn(scene.world);
});
