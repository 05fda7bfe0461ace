/** What an answer of the provider proves of a hosted call (docs/adr/0080, INV-X1). */
import { describe, expect, test } from '@jest/globals';
import { createMemoryStore } from '../../../../activities/artifacts/memory.ts';
import { createHostedServer } from '../../../../activities/hosted/hosted-server.ts';
import type { CallEnding, ToolServer } from '../../../../activities/mcp/port.ts';
import {
  type ResponsesApi,
  ResponsesRefusal,
  type StoredAnswers,
} from '../../../../activities/models/responses-api.ts';
import type { JsonObject } from '../../../../contracts/schemas/json.ts';
import { aCall, aConnection } from '../../../support/activities/tool-call.ts';

const NOTHING_STORED: StoredAnswers = async () => {
  throw new ResponsesRefusal(404, {}, {});
};

const CALL = aCall({ approvalRequestId: 'mcpr_1', arguments: { path: 'a' } });
const MADE = {
  type: 'mcp_call',
  id: 'mcp_1',
  server_label: 'files',
  name: 'write_file',
  arguments: '{"path":"a"}',
  approval_request_id: 'mcpr_1',
};

const CONNECTION = aConnection({ url: 'https://files.example/mcp', hosted: { model: 'gpt' } });

function asking(ask: ResponsesApi): ToolServer {
  return createHostedServer({ artifacts: createMemoryStore(), models: () => ({ ask, stored: NOTHING_STORED }) });
}

async function ended(ask: ResponsesApi): Promise<CallEnding> {
  return await asking(ask).call(CONNECTION, CALL);
}

/** The provider tells of the call as made, with these fields. */
async function told(fields: JsonObject): Promise<CallEnding> {
  const item: JsonObject = { ...MADE, ...fields };
  return await ended(async ({ onItem, onAnswer }) => {
    onAnswer?.();
    onItem?.(item);
    return { items: [item] };
  });
}

function networkError(code: string, syscall?: string): TypeError {
  const cause = Object.assign(new Error(code), { code, ...(syscall === undefined ? {} : { syscall }) });
  return new TypeError('fetch failed', { cause });
}

const failing = (error: unknown, begun: boolean): ResponsesApi => {
  return async ({ onAnswer }) => {
    if (begun) onAnswer?.();
    throw error;
  };
};

describe('an item that tells of the call', () => {
  test('with a result is a success', async () => {
    expect(await told({ status: 'completed', output: 'done', error: null })).toMatchObject({ kind: 'executed' });
  });

  test('with the error of the tool shows that it ran', async () => {
    const error = { type: 'mcp_tool_execution_error', content: [{ type: 'text', text: 'no room' }] };
    const ending = await told({ status: 'failed', output: null, error });
    expect(ending).toMatchObject({ kind: 'executed', isError: true });
  });

  test.each<JsonObject[string]>([
    'Error calling tool: Connection closed',
    'timed out',
    { type: 'http_error', code: 401, message: 'Unauthorized' },
    { type: 'http_error', code: 403, message: 'Forbidden' },
    { type: 'http_error', code: 504, message: 'Gateway Timeout' },
    { type: 'mcp_protocol_error', code: -32603, message: 'internal' },
    { type: 'something_new' },
  ])('with an error that proves neither that the tool ran nor that it did not is unknown: %j', async (error) => {
    for (const status of ['failed', 'completed', 'incomplete'])
      expect(await told({ status, output: null, error })).toMatchObject({ kind: 'unknown', code: 'OUTCOME_UNKNOWN' });
  });
});

describe('the state of the call', () => {
  test.each([undefined, null, 'completed'])('%j with a result is a success', async (status) => {
    expect(await told({ ...(status === undefined ? {} : { status }), output: 'done' })).toMatchObject({
      kind: 'executed',
    });
  });

  test.each(['in_progress', 'calling', 'incomplete', 'something_new', 7])('%j is no ending', async (status) => {
    const error = { type: 'http_error', code: 401, message: 'no' };
    expect((await told({ status, output: 'done' })).kind).toBe('unknown');
    expect((await told({ status, output: null, error })).kind).toBe('unknown');
  });

  test('failed without an error is unknown', async () => {
    expect((await told({ status: 'failed', output: 'done' })).kind).toBe('unknown');
    expect((await told({ status: 'failed', output: null })).kind).toBe('unknown');
  });
});

describe('a call that nobody approved, beside the one that was', () => {
  const good: JsonObject = { ...MADE, status: 'completed', output: 'done' };
  const answering = (...events: readonly JsonObject[]): ResponsesApi => {
    return async ({ onItem, onAnswer, onEvent }) => {
      onAnswer?.();
      for (const event of events) {
        onEvent?.(event);
        const { type, item } = event;
        if (type === 'response.output_item.done') onItem?.(item as JsonObject);
      }
      return { items: [], response: {} };
    };
  };
  const done = (item: JsonObject): JsonObject => ({ type: 'response.output_item.done', item });
  const ofTheOne: readonly JsonObject[] = [
    { type: 'response.output_item.added', item: { ...good, status: 'in_progress', output: null } },
    { type: 'response.mcp_call.completed', item_id: 'mcp_1' },
    done(good),
    { type: 'response.completed', response: { output: [good] } },
  ];

  test('is not seen in the events of the one', async () => {
    expect((await ended(answering(...ofTheOne))).kind).toBe('executed');
  });

  test.each<[string, JsonObject]>([
    ['has begun', { type: 'response.output_item.added', item: { ...good, id: 'mcp_2' } }],
    ['is under way', { type: 'response.mcp_call.in_progress', item_id: 'mcp_2' }],
    ['is done', done({ ...good, id: 'mcp_2' })],
    ['is done under the same id', done(good)],
    ['of another server', done({ ...good, id: 'mcp_2', server_label: 'far' })],
    ['is told at the end', { type: 'response.completed', response: { output: [good, { ...good, id: 'mcp_2' }] } }],
  ])('makes the outcome unknown: it %s', async (_, event) => {
    const ending = await ended(answering(...ofTheOne, event));
    expect(ending).toMatchObject({ kind: 'unknown', message: expect.stringContaining('other calls') });
  });

  test('in an answer to the question for a list is told aloud, and the list is read to its end', async () => {
    const list = { type: 'mcp_list_tools', id: 'mcpl_1', server_label: 'files', tools: [] };
    const bodies: JsonObject[] = [];
    const listing = async (events: readonly JsonObject[], response?: JsonObject) => {
      const ask: ResponsesApi = async ({ body, onEvent }) => {
        bodies.push(body);
        for (const event of events) onEvent?.(event);
        return { items: [list], ...(response === undefined ? {} : { response }) };
      };
      return await asking(ask).list(CONNECTION, new AbortController().signal);
    };
    expect(await listing([done(list)], {})).toMatchObject({ tools: [] });
    await expect(listing([done(list), done(good)], {})).rejects.toMatchObject({ code: 'HOSTED_UNSUPPORTED' });
    await expect(listing([done(list)])).rejects.toMatchObject({ code: 'DISCOVERY_FAILED' });
    expect(bodies.map((body) => body['tool_choice'])).toEqual(['none', 'none', 'none']);
  });
});

describe('a provider that has made a call unasked', () => {
  const made = { type: 'response.output_item.done', item: { ...MADE, status: 'completed', output: 'done' } };
  const served = () => {
    const asked: string[] = [];
    /** The events of the next answers. */
    const events: JsonObject[][] = [];
    const ask: ResponsesApi = async ({ onEvent, onItem, onAnswer }) => {
      asked.push('asked');
      onAnswer?.();
      for (const event of events.shift() ?? []) {
        onEvent?.(event);
        onItem?.(event['item'] as JsonObject);
      }
      return { items: [{ type: 'mcp_list_tools', server_label: 'files', tools: [] }], response: {} };
    };
    const server = asking(ask);
    const list = async (by = CONNECTION) => await server.list(by, new AbortController().signal);
    return { asked, events, list, call: async () => await server.call(CONNECTION, CALL) };
  };

  test('for a list is asked neither for a call nor for another list, also of another server; another model is', async () => {
    const { asked, events, list, call } = served();
    events.push([made]);
    await expect(list()).rejects.toMatchObject({ code: 'HOSTED_UNSUPPORTED' });
    await expect(list()).rejects.toMatchObject({ code: 'HOSTED_UNSUPPORTED' });
    await expect(list({ ...CONNECTION, name: 'far' })).rejects.toMatchObject({ code: 'HOSTED_UNSUPPORTED' });
    expect(await call()).toMatchObject({ kind: 'refused', code: 'HOSTED_UNSUPPORTED' });
    expect(asked).toHaveLength(1);
    expect(await list({ ...CONNECTION, hosted: { model: 'other' } })).toMatchObject({ tools: [] });
  });

  test('beside the approved one is asked nothing more', async () => {
    const { asked, events, list, call } = served();
    events.push([made, { ...made, item: { ...made.item, id: 'mcp_2' } }]);
    expect(await call()).toMatchObject({ kind: 'unknown' });
    expect(await call()).toMatchObject({ kind: 'refused', code: 'HOSTED_UNSUPPORTED' });
    await expect(list()).rejects.toMatchObject({ code: 'HOSTED_UNSUPPORTED' });
    expect(asked).toHaveLength(1);
  });

  test.each<[string, JsonObject]>([
    ['of another tool', { name: 'wipe' }],
    ['with other arguments', { arguments: '{"path":"b"}' }],
    ['for another request', { approval_request_id: 'mcpr_2' }],
    ['of another server', { server_label: 'far' }],
  ])('than was approved, one %s, is asked nothing more', async (_, fields) => {
    const { asked, events, call } = served();
    events.push([{ ...made, item: { ...made.item, ...fields } }]);
    expect((await call()).kind).toBe('unknown');
    expect(await call()).toMatchObject({ kind: 'refused', code: 'HOSTED_UNSUPPORTED' });
    expect(asked).toHaveLength(1);
  });
});

test('a call through a model that this worker does not have is refused, and not taken for one that may have left', async () => {
  const server = createHostedServer({ artifacts: createMemoryStore(), models: () => undefined });
  expect(await server.call(CONNECTION, CALL)).toMatchObject({ kind: 'refused', code: 'HOSTED_UNSUPPORTED' });
});

test.each(['', ' ', '{}'])(
  'a call without arguments is this one, however the provider writes none: %j',
  async (none) => {
    const item: JsonObject = { ...MADE, arguments: none, status: 'completed', output: 'done' };
    const ask: ResponsesApi = async ({ onItem }) => {
      onItem?.(item);
      return { items: [item] };
    };
    const server = asking(ask);
    expect((await server.call(CONNECTION, { ...CALL, arguments: {} })).kind).toBe('executed');
    expect((await server.call(CONNECTION, CALL)).kind).toBe('unknown');
  },
);

describe('without such an item', () => {
  test.each(['EHOSTUNREACH', 'ENETUNREACH', 'ETIMEDOUT'])('%s of a connection that stood is unknown', async (code) => {
    expect((await ended(failing(networkError(code, 'connect'), false))).kind).toBe('not-sent');
    expect((await ended(failing(networkError(code, 'read'), false))).kind).toBe('unknown');
  });

  test.each(['ENOTFOUND', 'ECONNREFUSED', 'UND_ERR_CONNECT_TIMEOUT', 'EHOSTUNREACH'])(
    '%s proves nothing once the provider has begun to answer',
    async (code) => {
      expect((await ended(failing(networkError(code, 'connect'), false))).kind).toBe('not-sent');
      expect((await ended(failing(networkError(code, 'connect'), true))).kind).toBe('unknown');
    },
  );

  test('a status that refuses the request is a refusal, and an error within the stream is unknown', async () => {
    expect((await ended(failing(new ResponsesRefusal(429, {}, {}), true))).kind).toBe('refused');
    expect((await ended(failing(new ResponsesRefusal(500, {}, {}), true))).kind).toBe('unknown');
    expect((await ended(failing(new ResponsesRefusal(undefined, {}, {}), true))).kind).toBe('unknown');
  });
});
