/**
 * Schemathesis makes requests from the gateway's own document, good ones and bad ones, and sends them to a gateway that
 * runs: it never answers with a fault, and never otherwise than its document says.
 */
import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { CatalogRight } from '../../contracts/schemas/catalog.ts';
import type { Gateway } from '../../gateway/gateway.ts';
import { ensureVenv } from '../../scripts/python-venv.mjs';
import { connected } from '../support/scenes/catalogs.ts';
import { startTestGateway } from '../support/scenes/gateway-world.ts';
import { until } from '../support/until.ts';
import { startBank } from '../support/world/bank-world.ts';
import { openRequests, type World } from '../support/world/world.ts';

const REQUIREMENTS = fileURLToPath(new URL('../support/fuzz/requirements.txt', import.meta.url));
/** An install without a cache may take minutes; each run of requests is bounded by itself. */
const INSTALL_MS = 600_000;
const RUN_SECONDS = 25;
const CHECKS = [
  'not_a_server_error',
  'status_code_conformance',
  'content_type_conformance',
  'response_headers_conformance',
  'response_schema_conformance',
  'negative_data_rejection',
];
const OFFERED = { ids: ['fuzzer'], groups: [] };

let python: string;
let world: World;
let gateway: Gateway;
let token: string;

beforeAll(async () => {
  python = await ensureVenv('schemathesis', REQUIREMENTS);
  const administrators = [{ ids: ['fuzzer'], may: [...CatalogRight.options] }];
  ({ world } = await startBank({ policy: { approvers: { ids: ['fuzzer'] } }, catalog: { administrators } }));
  gateway = await startTestGateway(
    world,
    { issuer: '' },
    {
      config: {
        oidc: undefined,
        development: true,
        may: { start: OFFERED, read: OFFERED, administer: OFFERED },
        limits: { requestsPerMinute: 1_000_000 },
      },
    },
  );
  const answer = await fetch(`${gateway.url}/v1/development/sign-in`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ id: 'fuzzer' }),
  });
  ({ token } = (await answer.json()) as { token: string });
}, INSTALL_MS);
afterAll(async () => {
  await gateway.stop();
  await world.stop();
});

function argumentsOf(config: string): string[] {
  const options = {
    '--header': `Authorization: Bearer ${token}`,
    '--checks': CHECKS.join(','),
    '--phases': 'coverage,fuzzing',
    '--seed': '16',
    '--max-time': String(RUN_SECONDS),
    '--max-examples': '15',
    '--workers': '1',
    '--request-timeout': '40',
    '--generation-database': 'none',
    // Streams do not end.
    '--exclude-path-regex': '/events$',
  };
  return [
    '-m',
    'schemathesis.cli',
    '--config-file',
    config,
    'run',
    `${gateway.url}/openapi.json`,
    '--no-color',
    '--no-shrink',
    '--continue-on-failure',
    ...Object.entries(options).flat(),
  ];
}

/**
 * @param parameters values of path parameters; others are made up
 * @throws with the report, if an answer was not as the document says
 */
async function fuzz(
  name: string,
  parameters: Readonly<Record<string, string>>,
  args: readonly string[],
): Promise<string> {
  const config = join(world.engine.directory, `${name}.toml`);
  const values = Object.entries(parameters).map(
    ([parameter, value]) => `"path.${parameter}" = ${JSON.stringify(value)}`,
  );
  // A refusal may have any status of refusals: 412 and 431 too.
  const refused = ['[checks.negative_data_rejection]', 'expected-statuses = ["4xx"]'];
  await writeFile(config, ['[parameters]', ...values, ...refused, ''].join('\n'));
  try {
    const { stdout } = await promisify(execFile)(python, [...argumentsOf(config), ...args], {
      cwd: world.engine.directory,
      timeout: 4 * RUN_SECONDS * 1_000,
      maxBuffer: 64 * 1_024 * 1_024,
    });
    return stdout;
  } catch (error) {
    // Sound: `execFile` rejects with these.
    const { stdout = '', stderr = '' } = error as { stdout?: string; stderr?: string };
    throw new Error(`${stdout}\n${stderr}`, { cause: error });
  }
}

test('made-up requests to every route get what the document says', async () => {
  expect(await fuzz('made-up', {}, [])).toMatch(/\d+ generated/);
});

test('made-up messages to a run that waits, and to a catalog that is there, get what the document says', async () => {
  const catalog = world.countersign.catalog('bank');
  await connected(catalog, world.config.servers['bank']?.url ?? '', { by: { id: 'fuzzer' } });
  const run = await world.start([{ calls: [{ tool: 'bank/pay', arguments: { purpose: 'fuzz' } }] }, { text: 'done' }]);
  await openRequests(run);
  await until(() => gateway.projection.run(run.runId)?.row.pending === 1, { what: 'the projection' });
  const there = { runId: run.runId, callId: 't1.c0', server: 'bank', tool: 'pay', changeId: 'change-1' };
  // What ends the run or closes the server would leave nothing to speak to.
  const out = await fuzz('there', there, ['--exclude-path-regex', '/(?:stop|disconnect|events)$']);
  expect(out).toMatch(/\d+ generated/);
});
