/**
 * The Python example starts, decides and verifies against a real service. It was written by the pages for other
 * languages alone; whatever they leave out fails here.
 */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, test } from '@jest/globals';
import type { ApprovalRequest } from '../../contracts/schemas/request.ts';
import type { LedgerEntry } from '../../contracts/schemas/ledger.ts';
import { LedgerPage } from '../../contracts/schemas/run-state.ts';
import { ServerTools, ToolDefinition } from '../../contracts/schemas/tool.ts';
import { definitionHash } from '../../domain/request/digest.ts';
import { hashOf } from '../../domain/text/canonical.ts';
import { startTestGateway, startTestProvider } from '../support/scenes/gateway-world.ts';
import { listenOnLoopback } from '../support/servers/loopback-server.ts';
import { useBank } from '../support/world/bank-world.ts';
import { executions } from '../support/world/run-record.ts';
import { decisionOn, openRequests, type World } from '../support/world/world.ts';

const ROOT = join(import.meta.dirname, '../..');
const EXAMPLE = join(ROOT, 'examples/07-python');
const LIMIT_MS = 60_000;

const { world, bank } = useBank({ policy: { approvers: { ids: ['ben'] } } });

interface Ended {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** @param script a file of the example, or `-c` with a program */
async function python(script: string, ...args: readonly string[]): Promise<Ended> {
  return await pythonWith({}, script, ...args);
}

async function pythonWith(
  env: Readonly<Record<string, string>>,
  script: string,
  ...args: readonly string[]
): Promise<Ended> {
  const path = process.env['EXAMPLE_PYTHON'];
  if (path === undefined) throw new Error('EXAMPLE_PYTHON is not set: run the tests through `npm test`');
  const run = promisify(execFile)(path, [script === '-c' ? script : join(EXAMPLE, script), ...args], {
    cwd: EXAMPLE,
    env: { TEMPORAL_ADDRESS: world.engine.server.address, PYTHONDONTWRITEBYTECODE: '1', ...env },
    timeout: LIMIT_MS,
  });
  return await run.then(
    (said) => ({ code: 0, ...said }),
    // Sound: what `execFile` adds to the error of a command that fails.
    (error: Ended) => error,
  );
}

type Entries = readonly LedgerEntry[];
type Steps = Parameters<World['spec']>[0];

const TRANSFER = { tool: 'bank__transfer', arguments: { to: 'größe 😀', amount: 0.00001, é: 1, Z: [1e21] } };
/** The model asks for one transfer. */
const ONE: Steps = [{ calls: [TRANSFER] }, { text: 'paid' }];

/** Writes a spec, and starts it by Python. */
async function approve(
  runId: string,
  approver: string,
  steps = ONE,
  changed: object = {},
  env: Readonly<Record<string, string>> = {},
): Promise<Ended> {
  const file = join(world.engine.directory, `${runId}.json`);
  await writeFile(file, JSON.stringify({ ...world.spec(steps), ...changed }));
  return await pythonWith(env, 'approve.py', file, runId, approver);
}

test('its hashes are those of the vectors', async () => {
  expect(await python('check_vectors.py', join(ROOT, 'docs/vectors'))).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^\d\d checks of vectors: all as they should be\n$/),
  });
});

test('it starts a run, checks the digest, approves by an update, and verifies the ledger', async () => {
  const { code, stdout, stderr } = await approve('python-1', 'ben');
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  const entries = await world.countersign.run('python-1').ledger();
  expect(stdout).toContain('approved by ben at ');
  expect(stdout).toContain('completed: paid');
  expect(stdout).toContain(`ledger intact: ${entries.length} entries, head ${entries.at(-1)?.hash}`);
  expect(bank.calls.map(({ tool }) => tool)).toEqual(['transfer']);
});

/** Runs a step of the script on what a query would have answered. */
const TAMPERED = `
import asyncio, json, sys, types, approve
answer, step = json.loads(sys.argv[1]), getattr(approve, sys.argv[2])
async def ask(run, query, *bounds): return answer
async def is_running(client, run_id): return True
approve.ask, approve.is_running = ask, is_running
print(asyncio.run(step(None, types.SimpleNamespace(id='x'), set())))
`;
import { during } from '../support/world/during.ts';

/** Has Python read the first request of the vectors that fits, with some of it changed on the way. */
async function shown(fits: (request: ApprovalRequest) => boolean, changed: object = {}): Promise<Ended> {
  const vectors = await readFile(join(ROOT, 'docs/vectors/request-digest.json'), 'utf8');
  // Sound: the vectors have the fields that a digest covers, and each test looks at those alone.
  const all = (JSON.parse(vectors) as { vectors: { request: ApprovalRequest; digest: string }[] }).vectors;
  const found = all.find(({ request }) => fits(request));
  const request = { ...found?.request, status: 'open', digest: found?.digest, ...changed };
  return await python('-c', TAMPERED, JSON.stringify([request]), 'next_request');
}

test.each([
  ['the arguments', { arguments: { to: 'mallory', amount: 1 } }],
  ['the server', { serverUrl: 'https://evil.example/mcp' }],
  ['who may decide', { approvers: { allOf: [{ layer: 'organisation', ids: ['eve'], groups: [] }] } }],
])('a request is not decided if something on the way has changed %s', async (_what, changed) => {
  const isConsent = ({ about }: ApprovalRequest): boolean => about === undefined;
  expect(await shown(isConsent)).toMatchObject({
    code: 0,
    stdout: expect.stringContaining("'callId': 't1.c0'"),
  });
  expect(await shown(isConsent, changed)).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('t1.c0 is not what its digest says'),
  });
});

test.each(['outcome', 'authorization'])(
  'a request that asks for %s, and not for consent, is not approved',
  async (kind) => {
    expect(await shown(({ about }) => about?.kind === kind)).toMatchObject({
      code: 1,
      stdout: '',
      stderr: `t1.c0 asks for ${kind}: no approval answers that\n`,
    });
  },
);

test('it approves every request of a run, and each only once', async () => {
  const calls = [1, 2].map((amount) => ({ tool: 'bank__transfer', arguments: { to: 'ann', amount } }));
  const before = bank.calls.length;
  const { code, stdout, stderr } = await approve('python-many', 'ben', [
    { calls },
    { calls: [TRANSFER] },
    { text: 'paid' },
  ]);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  expect(stdout.match(/^\S+ wants /gm)).toEqual(['t1.c0 wants ', 't1.c1 wants ', 't2.c0 wants ']);
  expect(bank.calls).toHaveLength(before + 3);
});

test('a run that ends and asks nobody ends the script, too', async () => {
  const { code, stdout } = await approve('python-quiet', 'ben', [{ text: 'nothing to do' }]);
  expect({ code, stdout }).toEqual({
    code: 0,
    stdout: expect.stringMatching(/^completed: nothing to do\nledger intact/),
  });
});

test('a run that fails ends the script with its code', async () => {
  const { code, stderr } = await approve('python-wrong', 'ben', ONE, { servers: 'none' });
  expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringMatching(/^SPEC_INVALID: /) });
});

describe('a run that has continued as new', () => {
  const limits = { turnsPerExecution: 1 };
  const steps: Steps = [{ calls: [TRANSFER] }, { calls: [TRANSFER] }, { text: 'paid' }];
  const provider = during(() => startTestProvider());
  const gateway = during(() => startTestGateway(world, provider));

  /** @param sub whose token the script has */
  async function approveThrough(url: string, runId: string, sub = 'ben'): Promise<Ended> {
    const env = { GATEWAY_URL: url, GATEWAY_TOKEN: await provider.token({ sub }) };
    return await approve(runId, 'ben', steps, { limits }, env);
  }

  test('is verified from its first entry on: what is stored is read through the gateway', async () => {
    const { code, stdout, stderr } = await approveThrough(gateway.url, 'python-long');
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect((await executions(world, 'python-long')).length).toBeGreaterThan(1);
    const entries = await world.countersign.run('python-long').ledger();
    expect(stdout).toContain(`ledger intact: ${entries.length} entries, head ${entries.at(-1)?.hash}`);
  });

  test.each<[string, (entries: Entries) => Entries, string]>([
    ['changes', (entries) => entries.map((entry) => (entry.seq === 2 ? { ...entry, at: entry.at + 'x' } : entry)), '2'],
    ['leaves out', (entries) => entries.filter(({ seq }) => seq !== 3), '3'],
  ])('is not whole if something before the gateway %s an entry', async (how, change, broken) => {
    const liar = await listenOnLoopback((request, response) => {
      void fetch(`${gateway.url}${request.url}`, { headers: { authorization: String(request.headers.authorization) } })
        // Sound: the gateway's own answer.
        .then(async (answer) => ({ entries: change(((await answer.json()) as { entries: Entries }).entries) }))
        .then((told) => response.end(JSON.stringify(told)));
    });
    const { code, stderr } = await approveThrough(liar.origin, `python-${how.replace(' ', '-')}`);
    await liar.close();
    expect({ code, stderr }).toEqual({ code: 1, stderr: `the ledger is not intact: entry ${broken}\n` });
  });

  test('is not verified without a gateway, or by somebody who may not see it', async () => {
    expect(await approve('python-alone', 'ben', steps, { limits })).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^entries before \d+ are in the artifact store: set GATEWAY_URL /),
    });
    expect(await approveThrough(gateway.url, 'python-eve', 'eve')).toMatchObject({
      code: 1,
      stderr: 'the gateway does not give entry 0: HTTP Error 404: Not Found\n',
    });
  });
});

describe('what the pages say', () => {
  test('of the end: a message that was answered gets its first answer, any other Temporal does not find', async () => {
    const handle = world.client.workflow.getHandle('python-1');
    const [decided] = (await world.countersign.run('python-1').ledger()).flatMap(({ fact }) =>
      fact.kind === 'decision.accepted' ? [fact] : [],
    );
    if (decided === undefined) throw new Error('no decision');
    const { callId, digest, runId, approver, decisionId } = decided;
    const message = { kind: 'approve', decisionId, callId, digest, runId, approver };
    const send = async (updateId: string): Promise<unknown> =>
      await handle.executeUpdate<unknown, [object]>('decide', { args: [message], updateId });
    const first = `decide/${decisionId}/${hashOf(message).slice(0, 16)}`;
    expect(await send(first)).toMatchObject({ decisionId, status: 'approved', decidedBy: 'ben' });
    await expect(send('another')).rejects.toThrow('workflow execution already completed');
  });

  test('of pages: `to` is left out, bounds beyond the end are the end, and `from` goes on', async () => {
    const handle = world.client.workflow.getHandle('python-1');
    const page = async (...bounds: readonly unknown[]): Promise<LedgerPage> =>
      LedgerPage.parse(await handle.query('ledger', ...bounds));
    const whole = await page();
    expect(whole).toMatchObject({ from: 0, total: whole.entries.length, head: whole.entries.at(-1)?.hash });
    expect((await page(2, 4)).entries.map(({ seq }) => seq)).toEqual([2, 3]);
    expect((await page(2, 1e9)).entries).toEqual(whole.entries.slice(2));
    expect(await page(1e9, 1e9)).toMatchObject({ entries: [], total: whole.total });
    await expect(page('first')).rejects.toThrow('from must be a whole number');
  });

  test('of definitions: the ledger names the list, and the list has the definition of the request', async () => {
    const run = await world.start([
      { calls: [{ tool: 'bank__transfer', arguments: { to: 'x', amount: 1 } }] },
      { text: 'done' },
    ]);
    const [waiting] = await openRequests(run);
    const listed = (await run.ledger()).flatMap(({ fact }) =>
      fact.kind === 'tools.discovered' && fact.server === waiting.server ? [fact.toolsHash] : [],
    );
    const name = listed.at(-1) ?? '';
    const store = join(world.engine.directory, world.config.artifacts.directory);
    const bytes = await readFile(join(store, name.slice(0, 2), name.slice(2, 4), name));
    expect(createHash('sha256').update(bytes).digest('hex')).toBe(name);
    const { tools } = ServerTools.parse(JSON.parse(bytes.toString('utf8')));
    const found = tools.find(({ definition }) => definition.name === waiting.tool);
    expect(found).toBeDefined();
    expect(definitionHash(ToolDefinition.parse(found?.definition))).toBe(waiting.definitionHash);
    await run.decide(decisionOn(waiting, 'ben', 'reject'));
    await run.result();
  });
});

test('somebody who may not decide is refused with the code of the table', async () => {
  const { code, stderr } = await approve('python-2', 'eve');
  expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringContaining('APPROVER_NOT_ENTITLED') });
  await world.countersign.run('python-2').stop({ by: 'ann', reason: 'over' });
});
