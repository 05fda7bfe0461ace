/**
 * A provider that no one here wrote, and that does not ask before it calls: llama-stack. It is refused where nobody
 * said that it asks; where the operator said so wrongly, nothing is called twice, and the run says what is wrong
 * (docs/adr/0080, S4.7). The judge is the MCP server behind it.
 */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { createMemoryStore } from '../../activities/artifacts/memory.ts';
import { createHostedServer, createHostingModel } from '../../activities/hosted/hosted-server.ts';
import type { ServerConnection } from '../../activities/mcp/port.ts';
import type { ModelConfig } from '../../contracts/schemas/config.ts';
import { aCall, aConnection, aDefinition } from '../support/activities/tool-call.ts';
import { loopbackEgress } from '../support/egress.ts';
import { INSTALL_MS } from '../support/foreign/clients.ts';
import { type LlamaStack, startLlamaStack } from '../support/foreign/llama-stack.ts';
import { type SseBridge, startSseBridge } from '../support/foreign/sse-bridge.ts';
import { OBEDIENT } from '../support/models/obedient-model.ts';
import { withCode } from '../support/refusal.ts';
import { type FilesystemServer, startFilesystemServer } from '../support/servers/real-servers.ts';
import { type RecordingServer, startRecordingServer, TOOLS } from '../support/servers/recording-server.ts';
import { refusalOf } from '../support/world/run-record.ts';
import { startWorld, type World } from '../support/world/world.ts';

/** What this service says to a provider of which it wants a list. */
const LISTING = 'Say which tools you have.';

let stack: LlamaStack;
let bank: RecordingServer;
let files: FilesystemServer;
let bridges: Readonly<Record<'bank' | 'files', SseBridge>>;
let world: World;

beforeAll(async () => {
  stack = await startLlamaStack();
  bank = await startRecordingServer({ tools: TOOLS.filter(({ name }) => name !== 'odd') });
  files = await startFilesystemServer();
  bridges = { bank: await startSseBridge(() => bank.url), files: await startSseBridge(() => files.url) };
  const model = { provider: 'openai', model: OBEDIENT, baseUrl: stack.baseUrl, apiKey: 'none' } as const;
  world = await startWorld({
    beside: [bridges.bank, bridges.files, files, bank, stack],
    config: {
      models: { unsure: model, sure: { ...model, asksBeforeCalls: true } },
      servers: {
        bank: { url: bridges.bank.url, execute: 'hosted', credentials: { kind: 'none' }, repeatable: ['pay'] },
      },
      policy: { servers: { bank: { default: 'allow' } } },
    },
  });
}, INSTALL_MS);
afterAll(async () => await world?.stop());

async function endOf(model: 'sure' | 'unsure') {
  const agent = { name: 'clerk', model };
  return await refusalOf((await world.start([{ text: 'unused' }], { agent, input: 'Pay.' })).result());
}

function adapter() {
  const config = { provider: 'openai', model: OBEDIENT, baseUrl: stack.baseUrl, apiKey: 'none' } as const;
  const limits = { maxOutputTokens: 256, timeoutSeconds: 30 } satisfies Partial<ModelConfig>;
  const hosting = createHostingModel('sure', { ...config, ...limits }, loopbackEgress());
  return createHostedServer({ artifacts: createMemoryStore(), models: () => hosting });
}

function connectionTo(name: 'bank' | 'files', over: Partial<ServerConnection> = {}): ServerConnection {
  return aConnection({ name, url: bridges[name].url, hosted: { model: 'sure' }, ...over });
}

test('it is refused at the start, and asked nothing, until the operator says that it asks', async () => {
  const before = stack.model.asked();
  expect(await endOf('unsure')).toMatchObject(withCode('HOSTED_UNSUPPORTED', 'asksBeforeCalls: true'));
  expect(stack.model.asked()).toBe(before);
  expect(bank.methods).toEqual([]);
});

test('its list of a real server is read; hints and all but the outer properties are lost on the way', async () => {
  const { tools } = await adapter().list(connectionTo('files'), new AbortController().signal);
  expect(tools.map(({ name }) => name)).toEqual(expect.arrayContaining(['read_text_file', 'write_file', 'edit_file']));
  const write = tools.find(({ name }) => name === 'write_file');
  expect(write).toMatchObject({ inputSchema: { type: 'object', properties: { path: { type: 'string' } } } });
  expect(write).not.toHaveProperty('annotations');
});

test('headers of one request reach the server in this request alone', async () => {
  const { signal } = new AbortController();
  for (const team of ['red', 'blue'])
    await adapter().list(connectionTo('bank', { headers: { authorization: `Bearer ${team}` } }), signal);
  const shown = bank.seen
    .filter(({ rpcMethod }) => rpcMethod === 'tools/list')
    .map(({ headers }) => headers.authorization);
  expect(shown).toEqual(['Bearer red', 'Bearer blue']);
});

test('a run ends before any call: it does not know the items that a step consists of', async () => {
  expect(await endOf('sure')).toMatchObject({ code: 'MODEL_REJECTED' });
  expect(bank.calls).toEqual([]);
});

test('an approved call is refused by it, which proves that it was not made', async () => {
  const definition = aDefinition({ name: 'pay' });
  const args = { purpose: 'approved' };
  stack.model.obey('Make the call that is approved.', 'pay', args);
  const call = aCall({ definition, arguments: args, approvalRequestId: 'mcpr_1' });
  expect(await adapter().call(connectionTo('bank'), call)).toMatchObject({ kind: 'refused', code: 'MODEL_REJECTED' });
  expect(bank.callsFor('approved')).toEqual([]);
});

test('a call of a stored answer is not made either: it does not have one, and nothing is approved', async () => {
  const definition = aDefinition({ name: 'pay' });
  const ids = { approvalRequestId: 'mcpr_1', storedAnswerId: 'resp_1' };
  const before = stack.model.asked();
  const ending = await adapter().call(
    connectionTo('bank'),
    aCall({ definition, arguments: { purpose: 'stored' }, ...ids }),
  );
  expect(ending).toMatchObject({
    kind: 'refused',
    code: 'MODEL_REJECTED',
    message: expect.stringMatching(/stored answer .* could not be read.*HTTP 400/),
  });
  expect(stack.model.asked()).toBe(before);
  expect(bank.callsFor('stored')).toEqual([]);
});

test('a call that it makes unasked, where it was asked for a list, ends the run and is not made again', async () => {
  stack.model.obey(LISTING, 'pay', { purpose: 'unasked' });
  expect(await endOf('sure')).toMatchObject(withCode('HOSTED_UNSUPPORTED', 'has called a tool of server "bank"'));
  expect(bank.callsFor('unasked')).toHaveLength(1);
});
