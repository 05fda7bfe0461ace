/**
 * No secret of a call that an MCP client makes stands anywhere (INV-S1, INV-S2, S1.4, F29): neither the token or key
 * that the client shows the gate, nor those that workers get for a server that gives away all it is sent. Its tools are
 * called over HTTP, all of them by a key and some by a token; then every store is read byte by byte: histories and
 * memos of runs and tickets, files, messages, logs and metrics of worker and gateway, and what clients were answered.
 */
import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, expect, jest, test } from '@jest/globals';
import type { Client } from '@modelcontextprotocol/client';
import { TICKET_WORKFLOW } from '../../contracts/names.ts';
import type { Gateway } from '../../gateway/gateway.ts';
import { type CanaryScene, LISTED, lyingPieces, startCanaryScene } from '../support/canary/scene.ts';
import { CANARY_TOOLS } from '../support/canary/server.ts';
import { describedPieces, type Piece, piecesOfRun, sightings } from '../support/canary/stores.ts';
import { allowed, changed, connected } from '../support/scenes/catalogs.ts';
import { connectClient, GATE_ORIGIN, gatewayConfigOf } from '../support/scenes/gate-world.ts';
import { startTestGateway, startTestProvider, type TestProvider } from '../support/scenes/gateway-world.ts';
import { until } from '../support/until.ts';
import { executions, replayOwn } from '../support/world/run-record.ts';
import { decisionOn, openRequests } from '../support/world/world.ts';

const LONG_MS = 240_000;
jest.setTimeout(LONG_MS);

/** The catalog has Bob asked about this one; the others are allowed. */
const ASKED = 'words';
/** One of each way to say something: what is left of their runs is read to the end. */
const READ = [ASKED, 'error', 'link', 'rpc-failed', 'unauthorized'];
const KEY = `gate-key-${randomBytes(24).toString('hex')}`;

let scene: CanaryScene;
let provider: TestProvider;
let gateway: Gateway;
let token: string;
let pieces: readonly Piece[];
const clients: Client[] = [];
const ended: { readonly reference: string; readonly tool: string }[] = [];

/** Calls a tool until its outcome is there, and keeps every answer on the way. */
async function called(client: Client, tool: string, by: string): Promise<readonly Piece[]> {
  const answers: Piece[] = [];
  let isDecided = false;
  await until(
    async () => {
      const result = await client.callTool({ name: `${LISTED}__${tool}`, arguments: { note: `${by} ${tool}` } });
      answers.push({ store: 'answers of the gate', place: `${by} ${tool}`, content: JSON.stringify(result) });
      // Sound: compared below.
      const told = result._meta?.['countersign/call'] as { readonly reference: string; readonly status: string };
      if (told.status !== 'waiting')
        return told.status !== 'running' && ended.push({ reference: told.reference, tool });
      const run = scene.world.countersign.run(told.reference);
      answers.push(...(await piecesOfRun(scene.world, run.runId)));
      if (!isDecided) await run.decide(decisionOn((await openRequests(run))[0], 'bob'));
      isDecided = true;
      return false;
    },
    { what: `the outcome of ${tool}`, withinMs: 60_000 },
  );
  return answers;
}

/** Tickets have their arguments in no place, and nothing of who calls but a hash. */
async function ticketPieces(): Promise<readonly Piece[]> {
  const { client } = scene.world;
  const found: Piece[] = [];
  for await (const { workflowId, runId } of client.workflow.list({ query: `WorkflowType = '${TICKET_WORKFLOW}'` })) {
    found.push(...(await describedPieces(scene.world, workflowId)));
    const history = (await executions(scene.world, workflowId)).map((each) => JSON.stringify(each.history));
    found.push({ store: 'history', place: `${workflowId} ${runId}`, content: history.join('\n') });
  }
  return found;
}

beforeAll(async () => {
  scene = await startCanaryScene();
  const { world, servers } = scene;
  provider = await startTestProvider();
  token = await provider.token({ sub: 'ann', aud: `${GATE_ORIGIN}/mcp`, azp: 'shell', lives: 3_600 });
  const catalog = world.countersign.catalog(LISTED);
  await connected(catalog, servers.listed.url, { credentials: 'named' });
  await allowed(catalog, ...Object.keys(CANARY_TOOLS));
  await changed(catalog, {
    tool: ASKED,
    requiresApproval: true,
    denied: false,
    approvers: { ids: ['bob'], groups: [] },
  });
  const log: string[] = [];
  const config = gatewayConfigOf({ servers: [LISTED], keys: [{ id: 'ann', client: 'coder', secret: KEY }] });
  gateway = await startTestGateway(world, provider, {
    config: { ...config, metrics: { prometheus: '127.0.0.1:0' } },
    log: { warn: (message, fields) => void log.push(JSON.stringify([message, fields])) },
  });
  const found: Piece[] = [];
  for (const [by, secret] of [
    ['key', KEY],
    ['token', token],
  ] as const) {
    const client = await connectClient(gateway, secret);
    clients.push(client);
    const list = JSON.stringify(await client.listTools());
    found.push({ store: 'answers of the gate', place: `${by} tools/list`, content: list });
    for (const tool of by === 'key' ? Object.keys(CANARY_TOOLS) : READ) found.push(...(await called(client, tool, by)));
  }
  for (const stale of [`${KEY}x`, `${token}x`]) {
    const refused = await fetch(`${gateway.url}/mcp`, {
      method: 'POST',
      headers: { authorization: `Bearer ${stale}` },
    });
    const head = JSON.stringify(Object.fromEntries(refused.headers));
    found.push({ store: 'client errors', place: 'a refused token', content: `${head}\n${await refused.text()}` });
  }
  for (const { reference, tool } of ended)
    found.push(...(await (READ.includes(tool) ? piecesOfRun : describedPieces)(world, reference)));
  found.push(...(await ticketPieces()));
  const metrics = await (await fetch(gateway.metricsUrl ?? '')).text();
  found.push({ store: 'metrics', place: 'gateway', content: metrics });
  found.push({ store: 'logs', place: 'gateway', content: log.join('\n') });
  pieces = [...found, ...(await lyingPieces(scene))];
}, 2 * LONG_MS);

afterAll(async () => {
  await Promise.all(clients.map(async (client) => await client.close()));
  await gateway?.stop();
  await provider?.close();
  await scene?.close();
});

test('every tool was called, each with a token of the server and with none of the caller', () => {
  const sent = scene.servers.listed.seen.filter(({ rpcMethod }) => rpcMethod === 'tools/call');
  expect(sent.length).toBeGreaterThanOrEqual(Object.keys(CANARY_TOOLS).length + READ.length);
  expect(new Set(sent.map(({ headers }) => headers.authorization))).toEqual(
    new Set([`Bearer ${scene.minted('listed')}`]),
  );
  const all = JSON.stringify(scene.servers.listed.seen.map(({ headers }) => headers));
  for (const secret of [KEY, token]) expect(all).not.toContain(secret);
});

test('no secret stands anywhere, in any form: not in histories, memos, files, logs, metrics, messages or answers', () => {
  const stores = [...new Set(pieces.map(({ store }) => store))];
  expect(stores).toEqual(
    expect.arrayContaining([
      'history',
      'memo',
      'search attributes',
      'queries',
      'SQLite file',
      'artifacts',
      'ledger directory',
      'messages',
      'logs',
      'metrics',
      'answers of the gate',
      'command line',
      'client errors',
    ]),
  );
  const workers = scene.canaries().map(({ name, value }, index) => [`${name} ${index}`, value] as const);
  const [head = '', body = '', signature = ''] = token.split('.');
  const callers = { KEY, token, 'token, its claims': `${head}.${body}`, 'token, its signature': signature };
  expect(sightings({ ...Object.fromEntries(workers), ...callers }, pieces)).toEqual([]);
});

test('control: what a call is about is found where it may be, and in no metric', () => {
  const found = sightings({ note: `key ${ASKED}` }, pieces);
  for (const store of ['history', 'messages']) expect(found).toContain(`note in ${store} as raw`);
  expect(found.filter((each) => each.includes(' in metrics as '))).toEqual([]);
  const metrics = pieces.filter(({ store }) => store === 'metrics');
  expect(metrics.map(({ content }) => String(content))).toEqual([expect.stringContaining('countersign_')]);
});

test('and all of it replays', async () => {
  await replayOwn(scene.world);
});
