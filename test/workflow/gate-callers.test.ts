/** Who may call through the gate: tokens for it and keys, never tokens of the API. What callers get, and what none gets at. */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { GatewayConfigInput } from '../../contracts/schemas/gateway.ts';
import { GATE_ORIGIN, type GateWorld, secretOf, startGateWorld } from '../support/scenes/gate-world.ts';
import { sightingsInHistory } from '../support/canary/stores.ts';
import { AUDIENCE, startTestGateway } from '../support/scenes/gateway-world.ts';
import { refusalOf } from '../support/world/run-record.ts';
import { decisionOn, openRequests } from '../support/world/world.ts';

let scene: GateWorld;

beforeAll(async () => (scene = await startGateWorld()));
afterAll(async () => scene.stop());

const HELLO = {
  jsonrpc: '2.0',
  id: 1,
  method: 'initialize',
  params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'raw', version: '1' } },
};

async function post(token: string | undefined, path = '/mcp', body: unknown = HELLO): Promise<Response> {
  return await fetch(`${scene.gateway.url}${path}`, {
    method: 'POST',
    headers: {
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
    },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  });
}

test('a call that is asked says that it waits; an equal one finds it, and gets its outcome once (INV-X1)', async () => {
  const client = await scene.connect('ann/coder');
  const call = async (tool: string, given: Record<string, unknown>) => {
    const result = await client.callTool({ name: `bank__${tool}`, arguments: given });
    // Sound: the gate writes this field (docs/guide/gate.md).
    const told = result._meta?.['countersign/call'] as { readonly reference: string; readonly status: string };
    return { ...told, result, text: result.content.map((part) => (part.type === 'text' ? part.text : '')).join('') };
  };
  const args = { purpose: 'later' };
  const waiting = await call('pay', args);
  expect(waiting).toMatchObject({
    status: 'waiting',
    result: { _meta: { 'countersign/call': { page: expect.stringContaining(waiting.reference) } } },
  });
  expect(waiting.result.isError).not.toBe(true);
  expect(waiting.text).toContain('has not run');
  const again = await call('pay', args);
  expect(again.reference).toBe(waiting.reference);
  expect(await openRequests(scene.world.countersign.run(waiting.reference))).toHaveLength(1);
  const [request] = await openRequests(scene.world.countersign.run(waiting.reference));
  await scene.world.countersign.run(waiting.reference).decide(decisionOn(request, 'ben'));
  const done = await call('pay', args);
  expect(done).toMatchObject({
    status: 'succeeded',
    reference: waiting.reference,
    text: 'pay did {"purpose":"later"}',
  });
  expect(scene.bank.callsFor('later')).toHaveLength(1);
  const anew = await call('pay', args);
  expect(anew).toMatchObject({ status: 'waiting' });
  expect(anew.reference).not.toBe(waiting.reference);
  expect(scene.bank.callsFor('later')).toHaveLength(1);
});

test('without a token it says where tokens come from (RFC 9728)', async () => {
  for (const path of ['/mcp', '/mcp/bank']) {
    const refused = await post(undefined, path);
    expect(refused.status).toBe(401);
    const metadata = `${GATE_ORIGIN}/.well-known/oauth-protected-resource${path}`;
    expect(refused.headers.get('www-authenticate')).toBe(`Bearer resource_metadata="${metadata}"`);
    const read = await fetch(`${scene.gateway.url}${new URL(metadata).pathname}`);
    expect(await read.json()).toEqual({
      resource: `${GATE_ORIGIN}${path}`,
      resource_name: 'Countersign',
      authorization_servers: [scene.provider.issuer],
      bearer_methods_supported: ['header'],
    });
  }
});

test.each([
  ['of the API', AUDIENCE, '/mcp', 401],
  ['of one server, at the address of all', `${GATE_ORIGIN}/mcp/bank`, '/mcp', 401],
  ['of another server', `${GATE_ORIGIN}/mcp/files`, '/mcp/bank', 401],
  ['of the gate', `${GATE_ORIGIN}/mcp`, '/mcp', 200],
  ['of the gate, at the address of one server', `${GATE_ORIGIN}/mcp`, '/mcp/bank', 200],
  ['of one server, at its address', `${GATE_ORIGIN}/mcp/bank`, '/mcp/bank', 200],
])('a token %s', async (_, aud, path, status) => {
  const token = await scene.provider.token({ sub: 'ann', aud });
  expect((await post(token, path)).status).toBe(status);
});

test('an address that ends with a slash is the same address: many clients write it so', async () => {
  for (const path of ['/mcp/', '/mcp/bank/']) {
    const asked = await post(undefined, path);
    expect(asked.status).toBe(401);
    expect(asked.headers.get('www-authenticate')).toContain(
      `/.well-known/oauth-protected-resource${path.slice(0, -1)}"`,
    );
    const listed = await fetch(`${scene.gateway.url}/.well-known/oauth-protected-resource${path}`);
    expect(await listed.json()).toMatchObject({ resource: `${GATE_ORIGIN}${path.slice(0, -1)}` });
    const client = await scene.connect('ann/coder', path.slice('/mcp'.length));
    expect((await client.listTools()).tools.map(({ name }) => name)).toContain('countersign_result');
  }
});

test('a page of another origin makes no call, whatever token it has; one of the gate may (DNS rebinding)', async () => {
  const asked = async (origin: string): Promise<number> => {
    const headers = {
      authorization: `Bearer ${secretOf('ann/coder')}`,
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      origin,
    };
    return (await fetch(`${scene.gateway.url}/mcp`, { method: 'POST', headers, body: JSON.stringify(HELLO) })).status;
  };
  for (const origin of ['https://evil.example', 'null', scene.gateway.url]) expect(await asked(origin)).toBe(403);
  expect(await asked(GATE_ORIGIN)).toBe(200);
});

test('a token for the API and for the gate at once counts for neither', async () => {
  for (const other of [`${GATE_ORIGIN}/mcp`, `${GATE_ORIGIN}/mcp/bank`]) {
    const token = await scene.provider.token({ sub: 'ann', aud: [AUDIENCE, other] });
    expect((await post(token, '/mcp/bank')).status).toBe(401);
    const api = await fetch(`${scene.gateway.url}/v1/me`, { headers: { authorization: `Bearer ${token}` } });
    expect(api.status).toBe(401);
  }
});

test('a token of the gate, and a key, open nothing of the API: an agent approves nothing', async () => {
  const token = await scene.provider.token({ sub: 'ben', aud: `${GATE_ORIGIN}/mcp` });
  for (const each of [token, secretOf('ann/coder')])
    for (const path of ['/v1/requests', '/v1/me', '/v1/runs']) {
      const answer = await fetch(`${scene.gateway.url}${path}`, { headers: { authorization: `Bearer ${each}` } });
      expect([path, answer.status]).toEqual([path, 401]);
    }
});

test('who may not start calls is refused; a key that nobody has is no key', async () => {
  const token = await scene.provider.token({ sub: 'mallory', aud: `${GATE_ORIGIN}/mcp` });
  const refused = await post(token);
  expect([refused.status, await refused.json()]).toMatchObject([
    403,
    { code: 'ACTION_FORBIDDEN', detail: expect.stringContaining('name you') },
  ]);
  expect((await post(`${secretOf('ann/coder')}x`)).status).toBe(401);
  const forged = await scene.provider.forged({ sub: 'ann', aud: `${GATE_ORIGIN}/mcp` });
  expect((await post(forged)).status).toBe(401);
});

test('what is no message gets an answer of the protocol, and a path without a name of a server none', async () => {
  const broken = await post(secretOf('ann/coder'), '/mcp', '{');
  expect([broken.status, await broken.json()]).toMatchObject([400, { jsonrpc: '2.0', error: { code: -32_700 } }]);
  expect((await post(secretOf('ann/coder'), '/mcp/%20')).status).toBe(404);
});

test('INV-G1: a call whose numbers would be read as others is refused by its id, and nothing is called', async () => {
  const call = `{"jsonrpc":"2.0","id":"x7","method":"tools/call","params":{"name":"bank_pay","arguments":{"n":9007199254740993}}}`;
  const refused = await post(secretOf('ann/coder'), '/mcp', call);
  expect([refused.status, await refused.json()]).toMatchObject([
    200,
    { jsonrpc: '2.0', id: 'x7', error: { code: -32_602, message: expect.stringContaining('Nothing was called') } },
  ]);
  const unread = await post(secretOf('ann/coder'), '/mcp', '{"id": 1e999');
  expect(await unread.json()).toMatchObject({ id: null, error: { code: -32_602 } });
});

test('what a caller shows the gate reaches no server, no history and no memo (INV-S1, S1.4)', async () => {
  const token = await scene.provider.token({ sub: 'ann', aud: `${GATE_ORIGIN}/mcp` });
  const secrets = [token, secretOf('ann/coder')];
  for (const [index, secret] of secrets.entries())
    for (const name of ['bank__lookup', 'bank__pay']) {
      const params = { name, arguments: { purpose: `shown-${index}` } };
      const answer = await post(secret, '/mcp', { ...HELLO, method: 'tools/call', params });
      expect([answer.status, await answer.text()]).toEqual([200, expect.stringContaining('countersign/call')]);
    }
  const { client } = scene.world;
  const held: string[] = [];
  for await (const { workflowId } of client.workflow.list()) held.push(workflowId);
  expect(held.filter((id) => id.startsWith('gate'))).not.toHaveLength(0);
  const seen = [];
  for (const workflowId of held) {
    seen.push(...(await sightingsInHistory(scene.world, workflowId, secrets)));
    seen.push(...found(await client.workflow.getHandle(workflowId).describe(), secrets));
  }
  expect(seen).toEqual([]);
  expect(scene.bank.callsFor('shown-0')).not.toHaveLength(0);
  expect(found(scene.bank.calls, secrets)).toEqual([]);
  // The scan finds what is there.
  expect(found([{ headers: { authorization: `Bearer ${token}` } }], secrets)).not.toEqual([]);
});

function found(value: unknown, secrets: readonly string[]): readonly string[] {
  const text = JSON.stringify(value, (_, each: unknown) => (typeof each === 'bigint' ? String(each) : each));
  return secrets.filter((secret) => text.includes(secret));
}

test('only POST is served, one message in each request', async () => {
  const headers = { authorization: `Bearer ${secretOf('ann/coder')}`, accept: 'text/event-stream' };
  for (const method of ['GET', 'DELETE'])
    expect((await fetch(`${scene.gateway.url}/mcp`, { method, headers })).status).toBe(405);
  expect((await post(secretOf('ann/coder'), '/mcp', [HELLO, HELLO])).status).toBe(400);
});

test('nobody starts a run under the id of a ticket, or of a call of an MCP client', async () => {
  const token = await scene.provider.token({ sub: 'ann', aud: AUDIENCE });
  for (const runId of [
    `gate/default/${'0'.repeat(16)}/${'0'.repeat(64)}`,
    'gate-00000000-0000-0000-0000-000000000000',
  ]) {
    const answer = await fetch(`${scene.gateway.url}/v1/calls`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: JSON.stringify({ runId, server: 'bank', tool: 'lookup' }),
    });
    expect([answer.status, await answer.json()]).toMatchObject([422, { code: 'SPEC_INVALID' }]);
  }
});

test('the gateway does not start if the audience of the API is an address of the gate', async () => {
  const oidc = { issuer: scene.provider.issuer, audience: `${GATE_ORIGIN}/mcp/bank`, tenant: 'default' };
  const config: GatewayConfigInput = { oidc, gate: { publicUrl: GATE_ORIGIN } };
  const facts = { path: 'gateway.gate.audience' };
  expect(await refusalOf(startTestGateway(scene.world, scene.provider, { config }))).toMatchObject({ facts });
});

test.each<[string, Partial<NonNullable<GatewayConfigInput['gate']>>, string]>([
  ['one audience for API and gate', { audience: AUDIENCE }, 'gateway.gate.audience'],
  ['no address', { publicUrl: undefined }, 'gateway.gate.publicUrl'],
  ['an address with a path', { publicUrl: `${GATE_ORIGIN}/countersign` }, 'gateway.gate.publicUrl'],
  [
    'one secret for two clients',
    { keys: ['a', 'b'].map((client) => ({ client, id: 'ann', secret: 's'.repeat(32) })) },
    'gateway.gate.keys',
  ],
])('the gateway does not start with %s', async (_, gate, path) => {
  const config: GatewayConfigInput = { gate: { publicUrl: GATE_ORIGIN, ...gate } };
  const starting = startTestGateway(scene.world, scene.provider, { config });
  expect(await refusalOf(starting)).toMatchObject({ code: 'CONFIG_INVALID', facts: { path } });
});
