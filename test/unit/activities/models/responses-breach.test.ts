/** A provider that calls without asking is noticed by the first event that tells of it (docs/adr/0080). */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { createResponsesModel } from '../../../../activities/models/responses.ts';
import { createResponsesApi } from '../../../../activities/models/responses-api.ts';
import type { JsonObject } from '../../../../contracts/schemas/json.ts';
import { loopbackEgress } from '../../../support/egress.ts';
import { modelRequest } from '../../../support/models/request.ts';
import { withCode } from '../../../support/refusal.ts';
import { listenOnLoopback } from '../../../support/servers/loopback-server.ts';

type Ending = 'well' | 'reset' | 'closed' | 'error' | 'failed' | 'unreadable' | 'document';

const CALL = { type: 'mcp_call', id: 'mcp_1', server_label: 'bank', name: 'pay', arguments: '{}' };
const ASKS = { type: 'mcp_approval_request', id: 'mcpr_1', server_label: 'bank', name: 'pay', arguments: '{}' };
const CLOSING = { id: 'resp_1', status: 'completed', output: [], usage: {} };

const telling: readonly JsonObject[] = [
  { type: 'response.output_item.added', item: CALL },
  { type: 'response.output_item.done', item: CALL },
  { type: 'response.mcp_call.in_progress', item_id: 'mcp_1' },
  { type: 'response.mcp_call.failed', item_id: 'mcp_1' },
  { type: 'response.failed', response: { ...CLOSING, status: 'failed', output: [CALL] } },
  { type: 'response.incomplete', response: { ...CLOSING, status: 'incomplete', output: [CALL] } },
];
const endings: readonly Ending[] = ['well', 'reset', 'closed', 'error', 'failed', 'unreadable'];

let server: Awaited<ReturnType<typeof listenOnLoopback>>;
let says: { readonly event: JsonObject; readonly ending: Ending };
let asked = 0;

beforeAll(async () => {
  server = await listenOnLoopback((_request, response) => {
    asked += 1;
    const { event, ending } = says;
    if (ending === 'document')
      return void response.setHeader('content-type', 'application/json').end(JSON.stringify(event['response']));
    const emit = (data: JsonObject): void => void response.write(`data: ${JSON.stringify(data)}\n\n`);
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    emit(event);
    switch (ending) {
      case 'well':
        emit({ type: 'response.completed', response: CLOSING });
        break;
      case 'error':
        emit({ type: 'error', code: 'server_error', message: 'broken' });
        break;
      case 'failed':
        emit({ type: 'response.failed', response: { ...CLOSING, status: 'failed' } });
        break;
      case 'unreadable':
        response.write('data: {\n\n');
        break;
      case 'reset':
        // What was told has left before the connection breaks.
        return void response.write(':\n\n', () => response.socket?.resetAndDestroy());
      case 'closed':
        break;
    }
    response.end();
  });
});
afterAll(async () => await server.close());

const config = () => ({
  provider: 'openai' as const,
  model: 'gpt-5.1',
  baseUrl: `${server.origin}/v1`,
  maxOutputTokens: 100,
  timeoutSeconds: 30,
});

test.each(telling.flatMap((event) => endings.map((ending) => ({ event, ending, type: event['type'] }))))(
  '$type, and then the stream ends: $ending',
  async ({ event, ending }) => {
    says = { event, ending };
    const before = asked;
    const model = createResponsesModel('gpt', config(), loopbackEgress());
    await expect(model.step(modelRequest())).rejects.toMatchObject(withCode('HOSTED_UNSUPPORTED', 'without asking'));
    expect(asked).toBe(before + 1);
  },
);

test('whoever has called without asking is asked nothing more, and only the same run is told what was called', async () => {
  says = { event: { type: 'response.output_item.done', item: CALL }, ending: 'reset' };
  const model = createResponsesModel('gpt', config(), loopbackEgress());
  const first: unknown = await model.step(modelRequest()).catch((error: unknown) => error);
  const before = asked;
  // A stretch that has done something drops the error, and its run asks for the same step again.
  await expect(model.step(modelRequest())).rejects.toEqual(first);
  const other = model.step(modelRequest({ messages: [{ role: 'user', text: 'Something else.' }] }));
  await expect(other).rejects.toMatchObject({
    code: 'HOSTED_UNSUPPORTED',
    message: expect.not.stringMatching(/pay|bank/),
  });
  expect(asked).toBe(before);
});

test('a call is noticed in an answer that is no stream, and such an answer is not asked for again', async () => {
  const model = createResponsesModel('gpt', config(), loopbackEgress());
  says = { event: { response: { ...CLOSING, output: [] } }, ending: 'document' };
  await expect(model.step(modelRequest())).rejects.toMatchObject({ code: 'MODEL_OUTPUT_INVALID' });
  says = { event: { response: { ...CLOSING, output: [CALL] } }, ending: 'document' };
  await expect(model.step(modelRequest())).rejects.toMatchObject({ code: 'HOSTED_UNSUPPORTED' });
});

test('a request for approval is no call, and a stream that breaks after it is asked again', async () => {
  const model = createResponsesModel('gpt', config(), loopbackEgress());
  says = { event: { type: 'response.output_item.done', item: ASKS }, ending: 'reset' };
  await expect(model.step(modelRequest())).rejects.toMatchObject({ code: 'MODEL_UNAVAILABLE' });
  says = { ...says, ending: 'well' };
  expect(await model.step(modelRequest())).toMatchObject({ finish: 'calls' });
});

test.each(['', 'm'.repeat(201)])('a request for approval without a good id is malformed', async (id) => {
  const model = createResponsesModel('gpt', config(), loopbackEgress());
  says = { event: { type: 'response.output_item.done', item: { ...ASKS, id } }, ending: 'well' };
  const { parts } = await model.step(modelRequest());
  expect(parts).toEqual([
    expect.objectContaining({ type: 'call', malformed: expect.stringContaining('no id of 1 to') }),
  ]);
});

test('whoever asks is told as soon as an answer begins', async () => {
  const api = createResponsesApi('gpt', config(), loopbackEgress());
  says = { event: { type: 'response.output_item.done', item: ASKS }, ending: 'reset' };
  let answers = 0;
  const onAnswer = (): void => void (answers += 1);
  await expect(api({ body: {}, signal: new AbortController().signal, onAnswer })).rejects.toThrow();
  expect(answers).toBe(1);
});
