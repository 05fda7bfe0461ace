/**
 * The MCP project's own server scenarios against the gate, at the address of one server, each in the era of its set.
 * What is not named in `unoffered-scenarios.json` with a reason must pass.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { readFileSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { startFixtureServer } from '../support/conformance/fixture-server.ts';
import { checksIn, listedScenarios, type Named, REVISIONS, scenariosOf, suite } from '../support/conformance/suite.ts';
import { configOf, connectBank, gatewayConfigOf, secretOf } from '../support/scenes/gate-world.ts';
import { startTestGateway, startTestProvider } from '../support/scenes/gateway-world.ts';
import { listenOnLoopback, type LoopbackServer } from '../support/servers/loopback-server.ts';
import { startWorld, type World } from '../support/world/world.ts';

const SCENARIO_MS = 60_000;

// Sound: the file beside this one; the first test looks at what it names.
const named = JSON.parse(readFileSync(new URL('unoffered-scenarios.json', import.meta.url), 'utf8')) as Named;

let folder: string;
let world: World;
let stop: () => Promise<void>;
let front: LoopbackServer;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'conformance-results-'));
  const provider = await startTestProvider();
  const fixture = await startFixtureServer();
  world = await startWorld({
    beside: [provider, fixture],
    config: { ...configOf(fixture), policy: { servers: { bank: { default: 'allow' } } } },
  });
  await connectBank(world, fixture);
  let url = '';
  front = await withKey(() => url);
  // Clients reach the gate in front, so that is the origin of its own pages.
  const config = gatewayConfigOf({ holdSeconds: 30, publicUrl: front.origin });
  const gateway = await startTestGateway(world, provider, { config });
  url = gateway.url;
  stop = async () => {
    await front.close();
    await gateway.stop();
    await world.stop();
  };
});
afterAll(async () => {
  await stop();
  await rm(folder, { recursive: true, force: true });
});

/** The suite has no way to send a token: this hands on its requests with a key, and changes nothing else. */
async function withKey(target: () => string): Promise<LoopbackServer> {
  return await listenOnLoopback((asked, answer) => {
    const { hostname, port } = new URL(target());
    const headers = { ...asked.headers, authorization: `Bearer ${secretOf('ann/coder')}` };
    const way = request({ hostname, port, method: asked.method, path: asked.url, headers }, (answered) => {
      answer.writeHead(answered.statusCode ?? 502, answered.headers).flushHeaders();
      answered.pipe(answer);
    });
    way.on('error', () => answer.destroy());
    answer.once('close', () => way.destroy());
    asked.pipe(way);
  });
}

test('every server scenario of the suite stands in a set or is named, and every named one exists', async () => {
  const listed = await listedScenarios('server');
  expect(listed.length).toBeGreaterThan(40);
  const sets = REVISIONS.flatMap((revision) => scenariosOf(revision, 'server'));
  expect(listed.filter((name) => !sets.includes(name)).toSorted()).toEqual(
    Object.keys(named['in no set'] ?? {}).toSorted(),
  );
  for (const revision of REVISIONS)
    expect(scenariosOf(revision, 'server')).toEqual(expect.arrayContaining(Object.keys(named[revision] ?? {})));
  expect(Object.keys(named).toSorted()).toEqual([...REVISIONS, 'in no set']);
});

describe.each(REVISIONS)('the gate conforms to MCP %s', (revision) => {
  const offered = scenariosOf(revision, 'server').filter((name) => !Object.hasOwn(named[revision] ?? {}, name));

  test.each(offered)(
    '%s',
    async (scenario) => {
      const out = join(folder, revision, scenario);
      // By `--force`, because a scenario of another revision would be left out without a word.
      const options = ['--spec-version', revision, '--force', '--timeout', `${SCENARIO_MS}`, '-o', out];
      const said = await suite('server', '--url', `${front.origin}/mcp/bank`, '--scenario', scenario, ...options);
      const checks = await checksIn(out);
      const failed = checks.filter(({ status }) => status === 'FAILURE' || status === 'WARNING');
      expect({ said: failed.length > 0 || checks.length === 0 ? said : '', failed }).toEqual({ said: '', failed: [] });
      expect(checks.some(({ status }) => status === 'SUCCESS')).toBe(true);
    },
    2 * SCENARIO_MS,
  );
});
