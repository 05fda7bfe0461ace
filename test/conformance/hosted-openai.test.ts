/**
 * The package `openai` and this project mean the same by a hosted tool: its client reads what the stand-in of the
 * provider says, and its types hold every request that is made here (docs/adr/0080, S4.7).
 */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import OpenAI from 'openai';
import { createMemoryStore } from '../../activities/artifacts/memory.ts';
import { createHostedServer, createHostingModel } from '../../activities/hosted/hosted-server.ts';
import type { ModelPart, ModelTool } from '../../activities/models/port.ts';
import type { ProviderConfig } from '../../activities/models/provider.ts';
import { createResponsesModel } from '../../activities/models/responses.ts';
import { defined } from '../../contracts/defined.ts';
import type { Message } from '../../contracts/schemas/transcript.ts';
import { aCall, aConnection } from '../support/activities/tool-call.ts';
import { toolDefinition } from '../support/builders/tool.ts';
import { resultOf } from '../../domain/views/model-text.ts';
import { loopbackEgress } from '../support/egress.ts';
import { HOSTING_KEY, type HostingProvider, startHostingProvider } from '../support/models/hosting-provider.ts';
import { type RecordingServer, startRecordingServer, TOOLS } from '../support/servers/recording-server.ts';

type Ask = OpenAI.Responses.ResponseCreateParamsStreaming;
type Item = OpenAI.Responses.ResponseOutputItem;

let provider: HostingProvider;
let bank: RecordingServer;
let client: OpenAI;

beforeAll(async () => {
  provider = await startHostingProvider();
  // The provider's client takes no list with a tool whose hints are of the wrong type.
  bank = await startRecordingServer({ tools: TOOLS.filter(({ name }) => name !== 'odd') });
  client = new OpenAI({ baseURL: provider.baseUrl, apiKey: HOSTING_KEY, maxRetries: 0 });
});
afterAll(async () => {
  await Promise.all([provider.close(), bank.close()]);
});

/** What their client reads of an answer. */
async function read(input: OpenAI.Responses.ResponseInput): Promise<readonly Item[]> {
  const tool = { type: 'mcp', server_label: 'bank', server_url: bank.url, require_approval: 'always' } as const;
  const stream = client.responses.stream({ model: 'gpt-5.1', store: false, input, tools: [tool] });
  return (await stream.finalResponse()).output;
}

function ofType<Type extends Item['type']>(items: readonly Item[], type: Type): Extract<Item, { type: Type }> {
  const [found, ...more] = items.filter((item): item is Extract<Item, { type: Type }> => item.type === type);
  if (found === undefined || more.length > 0) throw new Error(`there is no single ${type}: ${JSON.stringify(items)}`);
  return found;
}

/** Lets the model want a payment, and returns what the client has read until then. */
async function proposal(purpose: string) {
  const opening = { role: 'user', content: purpose } as const;
  const wanted = { server: 'bank', tool: 'pay', arguments: { purpose, amount: 5 } };
  provider.script(purpose, [{ calls: [wanted] }, { text: 'done' }]);
  const items = await read([opening]);
  return { opening, list: ofType(items, 'mcp_list_tools'), request: ofType(items, 'mcp_approval_request') };
}

test('their client reads the list and the request for approval, and the call once it has approved', async () => {
  const { opening, list, request } = await proposal('approved');
  expect(list.tools.map(({ name }) => name)).toContain('pay');
  expect(request).toMatchObject({ server_label: 'bank', name: 'pay', arguments: '{"purpose":"approved","amount":5}' });
  expect(bank.callsFor('approved')).toEqual([]);
  const answer = { type: 'mcp_approval_response', approval_request_id: request.id, approve: true } as const;
  const made = ofType(await read([opening, list, request, answer]), 'mcp_call');
  expect(made).toMatchObject({ approval_request_id: request.id, status: 'completed', name: 'pay' });
  expect(made.output).toContain('pay did {');
  expect(made.id).not.toBe(request.id);
  expect(bank.callsFor('approved')).toHaveLength(1);
});

test('what their client rejects is not called', async () => {
  const { opening, list, request } = await proposal('rejected');
  const reason = 'not today';
  const answer = { type: 'mcp_approval_response', approval_request_id: request.id, approve: false, reason } as const;
  const items = await read([opening, list, request, answer]);
  expect(items.map(({ type }) => type)).toEqual(['message']);
  expect(bank.callsFor('rejected')).toEqual([]);
});

const PAY = { name: 'pay', description: 'Pays an amount.', inputSchema: { type: 'object' } } as const;
const STATED = { name: 'pay', description: 'Pays an amount.', input_schema: { type: 'object' } } as const;
const CONFIG: Omit<ProviderConfig, 'baseUrl'> = {
  provider: 'openai',
  model: 'gpt-5.1',
  apiKey: HOSTING_KEY,
  maxOutputTokens: 256,
  timeoutSeconds: 30,
};

const PAID = { content: [{ type: 'text' as const, text: 'paid' }] };

function proposed(index: number, name: string, approvalRequestId?: string) {
  return { callId: `t1.c${index}`, providerCallId: '', name, ...defined({ approvalRequestId }) };
}

/** Returns the requests that were made meanwhile, as they were sent. */
async function sent(work: () => Promise<unknown>): Promise<readonly unknown[]> {
  const before = provider.asked.length;
  await work();
  return provider.asked.slice(before).map(({ body }) => body);
}

test('their types hold the requests that list and call', async () => {
  const { request } = await proposal('ours');
  const hosting = createHostingModel('gpt', { ...CONFIG, baseUrl: provider.baseUrl }, loopbackEgress());
  const server = createHostedServer({ artifacts: createMemoryStore(), models: () => hosting });
  const at = { name: 'bank', url: bank.url, accessToken: 'token-of-ann', hosted: { model: 'gpt' } };
  const connection = aConnection({ ...at, headers: { 'x-team': 'red' } });
  const definition = toolDefinition({ ...PAY });
  const call = aCall({ definition, arguments: { purpose: 'ours', amount: 5 }, approvalRequestId: request.id });
  const bodies = await sent(async () => {
    await server.list(connection, new AbortController().signal);
    expect(await server.call(connection, call)).toMatchObject({ kind: 'executed' });
  });
  const place = { type: 'mcp', server_label: 'bank', server_url: bank.url, require_approval: 'always' } as const;
  const authority = { authorization: 'token-of-ann', headers: { 'x-team': 'red' } };
  const common = { model: 'gpt-5.1', stream: true, store: false, max_output_tokens: 16 } as const;
  const listing = {
    ...common,
    tool_choice: 'none',
    tools: [{ ...place, ...authority }],
    input: [{ role: 'user', content: 'Say which tools you have.' }],
  } satisfies Ask;
  const headers = { ...authority.headers, 'idempotency-key': call.idempotencyKey };
  const calling = {
    ...common,
    tools: [{ ...place, ...authority, headers, allowed_tools: ['pay'] }],
    input: [
      { role: 'user', content: 'Make the call that is approved.' },
      { type: 'mcp_list_tools', id: 'mcpl_bank', server_label: 'bank', tools: [{ ...STATED }] },
      {
        type: 'mcp_approval_request',
        id: request.id,
        server_label: 'bank',
        name: 'pay',
        arguments: '{"amount":5,"purpose":"ours"}',
      },
      { type: 'mcp_approval_response', approval_request_id: request.id, approve: true },
    ],
  } satisfies Ask;
  expect(bodies).toEqual([listing, calling]);
});

test('their types hold a model step, with calls that were made and calls that were not', async () => {
  const model = createResponsesModel('gpt', { ...CONFIG, baseUrl: provider.baseUrl }, loopbackEgress());
  const tools: readonly ModelTool[] = [
    { name: 'local__pay', qualifiedName: 'local/pay', inputSchema: PAY.inputSchema },
    {
      ...PAY,
      name: 'bank__pay',
      qualifiedName: 'bank/pay',
      hosted: { server: 'bank', serverUrl: bank.url, tool: 'pay' },
    },
  ];
  const parts = [
    { ...proposed(0, 'bank__pay', 'mcpr_a'), outcome: { kind: 'succeeded', result: PAID } },
    { ...proposed(1, 'bank__pay', 'mcpr_b'), outcome: { kind: 'rejected', by: 'ann', reason: 'not today' } },
    { ...proposed(2, 'local__pay'), outcome: { kind: 'succeeded', result: PAID } },
  ] as const;
  const [, rejected] = parts;
  const messages: readonly Message[] = [
    { role: 'user', text: 'Pay.' },
    {
      role: 'assistant',
      parts: parts.map(({ outcome: _, ...part }) => ({ type: 'call', arguments: { amount: 5 }, ...part })),
    },
    {
      role: 'tool',
      results: parts.map(({ approvalRequestId, ...result }) => ({
        ...result,
        ...(approvalRequestId === undefined
          ? {}
          : { approvalResponse: { approvalRequestId, approve: result.outcome.kind === 'succeeded' } }),
      })),
    },
  ];
  const { signal } = new AbortController();
  const [body] = await sent(async () => await model.step({ turn: 2, messages, tools, signal }));
  const same = { server_label: 'bank', name: 'pay', arguments: '{"amount":5}' } as const;
  const step = {
    model: 'gpt-5.1',
    stream: true,
    store: false,
    max_output_tokens: 256,
    include: ['reasoning.encrypted_content'],
    tools: [
      { type: 'function', name: 'local__pay', parameters: { type: 'object' }, strict: false },
      { type: 'mcp', server_label: 'bank', server_url: bank.url, require_approval: 'always', allowed_tools: ['pay'] },
    ],
    input: [
      { type: 'mcp_list_tools', id: 'mcpl_bank', server_label: 'bank', tools: [{ ...STATED }] },
      { role: 'user', content: 'Pay.' },
      { type: 'mcp_call', id: 'mcp_t1_c0', ...same, output: 'paid', status: 'completed' },
      { type: 'mcp_approval_request', id: 'mcpr_t1_c1', ...same },
      { type: 'function_call', call_id: 'call_t1_c2', name: 'local__pay', arguments: '{"amount":5}' },
      {
        type: 'mcp_approval_response',
        approval_request_id: 'mcpr_t1_c1',
        approve: false,
        reason: resultOf(rejected).text,
      },
      { type: 'function_call_output', call_id: 'call_t1_c2', output: 'paid' },
    ],
  } satisfies Ask;
  expect(body).toEqual(step);
});

describe('stored answers', () => {
  const kept = async (purposes: readonly string[]) => {
    const [name = ''] = purposes;
    const wanted = purposes.map((purpose) => ({ server: 'bank', tool: 'pay', arguments: { purpose, amount: 5 } }));
    provider.script(name, [{ calls: wanted }, { text: 'done' }]);
    const config = { ...CONFIG, baseUrl: provider.baseUrl, storesAnswers: true };
    const model = createResponsesModel('gpt', config, loopbackEgress());
    const hosted = { server: 'bank', serverUrl: bank.url, tool: 'pay' };
    const tools: readonly ModelTool[] = [{ ...PAY, name: 'bank__pay', qualifiedName: 'bank/pay', hosted }];
    const { signal } = new AbortController();
    const messages: readonly Message[] = [{ role: 'user', text: name }];
    const { parts } = await model.step({ turn: 1, messages, tools, signal });
    return parts.flatMap((part) => (part.type === 'call' ? [part] : []));
  };
  const adapter = () => {
    const hosting = createHostingModel('gpt', { ...CONFIG, baseUrl: provider.baseUrl }, loopbackEgress());
    return createHostedServer({ artifacts: createMemoryStore(), models: () => hosting });
  };
  const connection = () => aConnection({ name: 'bank', url: bank.url, hosted: { model: 'gpt' } });
  const called = async ({
    arguments: args,
    ...ids
  }: Pick<ModelCall, 'arguments' | 'approvalRequestId' | 'storedAnswerId'>) =>
    await adapter().call(
      connection(),
      aCall({
        definition: toolDefinition({ ...PAY }),
        arguments: args,
        ...defined({ approvalRequestId: ids.approvalRequestId, storedAnswerId: ids.storedAnswerId }),
      }),
    );

  test('are read by their client, and continued by it in branches, as ours are', async () => {
    const [first, second] = await kept(['by them', 'by us']);
    const id = first?.storedAnswerId ?? '';
    expect(ofAll((await client.responses.retrieve(id)).output)).toEqual([
      first?.approvalRequestId,
      second?.approvalRequestId,
    ]);
    const tool = { type: 'mcp', server_label: 'bank', server_url: bank.url, require_approval: 'always' } as const;
    const input = [first, second].map(
      (part, index) =>
        ({
          type: 'mcp_approval_response',
          approval_request_id: part?.approvalRequestId ?? '',
          approve: index === 0,
        }) as const,
    );
    const body = { model: 'gpt-5.1', store: false, previous_response_id: id, input, tools: [tool] };
    const made = ofType((await client.responses.stream(body).finalResponse()).output, 'mcp_call');
    expect(made).toMatchObject({ approval_request_id: first?.approvalRequestId, status: 'completed' });
    const [ours] = await sent(async () => {
      if (second !== undefined) expect(await called(second)).toMatchObject({ kind: 'executed', isError: false });
    });
    const continuing = {
      model: 'gpt-5.1',
      stream: true,
      store: false,
      max_output_tokens: 16,
      previous_response_id: id,
      tools: [{ ...tool, allowed_tools: ['pay'], headers: { 'idempotency-key': 'run-1/t1.c0' } }],
      input: [
        { type: 'mcp_approval_response', approval_request_id: second?.approvalRequestId ?? '', approve: true },
        {
          type: 'mcp_approval_response',
          approval_request_id: first?.approvalRequestId ?? '',
          approve: false,
          reason: 'It is answered apart from this.',
        },
      ],
    } satisfies Ask;
    expect(ours).toEqual(continuing);
    expect(['by them', 'by us'].map((purpose) => bank.callsFor(purpose).length)).toEqual([1, 1]);
  });

  test('execute what is stored, whatever a request says: so a call with ids of another one approves nothing', async () => {
    const [shown] = await kept(['shown']);
    const [meant] = await kept(['meant']);
    if (shown === undefined || meant === undefined) throw new Error('there are no calls');
    const { storedAnswerId, approvalRequestId } = meant;
    const before = provider.asked.length;
    for (const swapped of [{ storedAnswerId, approvalRequestId }, { storedAnswerId }, { approvalRequestId }])
      expect(await called({ ...shown, ...defined(swapped) })).toMatchObject({
        kind: 'refused',
        code: 'DISPATCH_FORBIDDEN',
      });
    expect(provider.asked).toHaveLength(before);
    // Control: the provider would have executed the other call.
    await called(meant);
    expect([bank.callsFor('shown'), bank.callsFor('meant')].map(({ length }) => length)).toEqual([0, 1]);
  });

  test('that are forgotten are continued by nobody, and nothing is executed', async () => {
    const [part] = await kept(['forgotten']);
    if (part === undefined) throw new Error('there is no call');
    provider.forget('forgotten');
    const retrieved = client.responses.retrieve(part.storedAnswerId ?? '');
    await expect(retrieved).rejects.toMatchObject({ status: 404 });
    expect(await called(part)).toMatchObject({ kind: 'refused', code: 'STORED_ANSWER_GONE' });
    expect(bank.callsFor('forgotten')).toEqual([]);
  });
});

type ModelCall = Extract<ModelPart, { type: 'call' }>;

function ofAll(items: readonly Item[]): readonly string[] {
  return items.flatMap((item) => (item.type === 'mcp_approval_request' ? [item.id] : []));
}
