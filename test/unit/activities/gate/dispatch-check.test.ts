/**
 * What stands between a call and its server: its definition, its link, and what a reset has discarded.
 *
 * One file, because each is one check of the same dispatch.
 */
import { beforeEach, describe, expect, test } from '@jest/globals';
import { WorkflowNotFoundError } from '@temporalio/client';
import { defaultPayloadConverter } from '@temporalio/common';
import { msToTs } from '@temporalio/common/lib/time.js';
import type { ToolNow } from '../../../../activities/catalog/reader.ts';
import {
  checkDefinition,
  checkLink,
  checkReach,
  checkTool,
  describeDrift,
  lostInReset,
  weigh,
} from '../../../../activities/gate/dispatch-check.ts';
import { ArgumentChecker } from '../../../../activities/policy/judge.ts';
import { Conditions } from '../../../../activities/policy/condition.ts';
import { reachHash } from '../../../../activities/tokens/configured.ts';
import { createDiscardedReader, type ReadDiscarded } from '../../../../activities/run/discarded-tail.ts';
import { defined } from '../../../../contracts/defined.ts';
import { READ_RESOURCE } from '../../../../contracts/names.ts';
import type { Verdict } from '../../../../contracts/schemas/call.ts';
import { Config } from '../../../../contracts/schemas/config.ts';
import type { Message } from '../../../../contracts/schemas/transcript.ts';
import type { DispatchInput } from '../../../../contracts/wire/tools.ts';
import { assembleToolset, type OfferedTool } from '../../../../domain/run/toolset.ts';
import { approvedDispatch } from '../../../support/builders/dispatch.ts';
import { serverTools, toolDefinition, toolTarget } from '../../../support/builders/tool.ts';
import { fakeClient } from '../../../support/servers/fake-client.ts';
import { withCode } from '../../../support/refusal.ts';

// A tool that has changed since it was shown is asked about once, of those whom policy names now (H-7).

const [SHOWN, NOW] = ['a'.repeat(64), 'b'.repeat(64)];
// Sound: nothing else of it is read.
const SENT = { target: { definitionHash: SHOWN } } as unknown as DispatchInput;
const offered = (hash: string, description: string): OfferedTool => ({
  modelName: 'bank__pay',
  server: 'bank',
  serverUrl: 'https://bank.example/mcp',
  definition: { name: 'pay', description, inputSchema: { type: 'object' } },
  hash,
});
const tool = (hash: string): ToolNow => ({ tool: offered(hash, 'Pays twice.'), pinned: offered(SHOWN, 'Pays.') });
const approvers = { allOf: [{ layer: 'catalog' as const, ids: [], groups: ['leads'] }] };
const ask: Verdict = { kind: 'ask', rules: ['catalog/bank/tools/pay/drift'], approvers, deadlineSeconds: 60 };

// What was approved for one way of calling is not sent by the other (docs/adr/0080).

describe('who calls', () => {
  const pinned = { ...offered(SHOWN, 'Pays.'), hosted: { model: 'gpt' } };
  const at = { server: 'bank', serverUrl: 'https://bank.example/mcp', tool: 'pay', definitionHash: SHOWN };
  const binding = { name: 'bank', url: at.serverUrl };
  const sent = (over: object): DispatchInput =>
    // Sound: nothing else of it is read.
    ({
      target: { ...at, hosted: 'gpt' },
      server: { ...binding, hosted: 'gpt' },
      approvalRequestId: 'mcpr_1',
      ...over,
    }) as unknown as DispatchInput;

  const config = (server: object = {}, model: object = {}) =>
    Config.parse({
      servers: { bank: { url: at.serverUrl, execute: 'hosted', ...server } },
      models: { gpt: { provider: 'openai', model: 'gpt-5.1', ...model } },
    });

  test('is who was approved', () => {
    expect(checkTool(sent({}), pinned, config())).toBeUndefined();
    expect(
      checkTool(sent({ target: at, server: binding, approvalRequestId: undefined }), offered(SHOWN, 'Pays.'), config()),
    ).toBe(undefined);
  });

  test.each([
    ['a local call, sent to the provider', { target: at }],
    ['a hosted call, sent by this service', { server: binding }],
    ['a hosted call, sent to another provider', { server: { ...binding, hosted: 'other' } }],
    ['a call for which the provider did not ask', { approvalRequestId: undefined }],
  ])('%s is not sent', (_what, over) => {
    expect(checkTool(sent(over), pinned, config())).toMatchObject({ kind: 'refused', code: 'DISPATCH_FORBIDDEN' });
  });

  test('a local call that names a stored answer of a provider is not sent', () => {
    const local = { target: at, server: binding, approvalRequestId: undefined };
    const named = sent({ ...local, storedAnswerId: 'resp_1' });
    expect(checkTool(named, offered(SHOWN, 'Pays.'), config())).toMatchObject({ code: 'DISPATCH_FORBIDDEN' });
    expect(checkTool(sent({ storedAnswerId: 'resp_1' }), pinned, config())).toBeUndefined();
  });

  test('a hosted call of a tool that is pinned as local is not sent', () => {
    expect(checkTool(sent({}), offered(SHOWN, 'Pays.'), config())).toMatchObject({ code: 'DISPATCH_FORBIDDEN' });
  });

  const there = { baseUrl: 'https://eu.models.example/v1' };
  const mail = { connectorId: 'connector_gmail' };
  test.each([
    ['another address of the provider', {}, there, {}],
    ["the provider's own address in place of another one", there, {}, {}],
    ['a connector in place of the server', {}, {}, mail],
    ['another connector', mail, {}, { connectorId: 'connector_dropbox' }],
  ])('a call, whoever approved it, does not go by %s', (_what, listed, model, server) => {
    const by = { ...pinned, hosted: { model: 'gpt', ...listed } };
    expect(checkTool(sent({}), by, config(server, model))).toMatchObject(
      withCode('DISPATCH_FORBIDDEN', 'than when the run listed its tools'),
    );
  });

  test('a call goes by the address and the connector by which its tools were listed', () => {
    const by = { ...pinned, hosted: { model: 'gpt', ...there, ...mail } };
    expect(checkTool(sent({}), by, config(mail, there))).toBeUndefined();
  });
});

// A tool that has changed.

test('with the definition that it has now, its approvers and its time', () => {
  expect(checkDefinition(SENT, tool(NOW), ask)).toMatchObject({
    kind: 'reopen',
    code: 'DEFINITION_CHANGED',
    message: 'The definition of the tool is not the one that was shown: description was "Pays.", is "Pays twice.".',
    definition: { hash: NOW, description: 'Pays twice.' },
    approvers,
    deadlineSeconds: 60,
  });
});

test('also where policy would let it pass: then by those who were asked before', () => {
  const reopened = checkDefinition(SENT, tool(NOW), { kind: 'allow', rules: ['organisation/strategy/never'] });
  expect(reopened).toMatchObject({ kind: 'reopen', code: 'DEFINITION_CHANGED' });
  expect(reopened).not.toHaveProperty('approvers');
});

test('and not at all where it is as it was shown', () => {
  expect(checkDefinition(SENT, tool(SHOWN), ask)).toBeUndefined();
});

// What changed in a definition is told in one bounded line (F24).

const HEAD = 'The definition of the tool is not the one that was shown';

test('field by field: what is new, what is gone, what is other', () => {
  const before = toolDefinition({ title: 'Write', annotations: { readOnlyHint: true } });
  const { title: _, ...now } = toolDefinition({ ...before, annotations: { readOnlyHint: false, openWorldHint: true } });
  expect(describeDrift(before, now)).toBe(
    `${HEAD}: annotations.openWorldHint is new: true; annotations.readOnlyHint was true, is false; title is gone, was "Write".`,
  );
});

test('long texts are cut and many fields are counted', () => {
  const properties = Object.fromEntries(Array.from({ length: 9 }, (_, index) => [`p${index}`, { type: 'string' }]));
  const now = toolDefinition({ description: 'x'.repeat(5_000), inputSchema: { type: 'object', properties } });
  const told = describeDrift(toolDefinition(), now);
  expect(told.length).toBeLessThan(2_000);
  expect(told).toMatch(/description was "Writes a file\.", is "x+… \(\d+ more characters\)/);
  expect(told).toMatch(/; and \d+ more fields\.$/);
});

test('where it is not known what was shown, it says no more', () => {
  expect(describeDrift(undefined, toolDefinition())).toBe(`${HEAD}.`);
});

describe("A read leaves only where the run's own conversation has the link: dispatch believes nothing it is given (INV-G1)", () => {
  const config = Config.parse({
    servers: {
      docs: { url: 'https://docs.example/mcp', resourceLinks: 'read' },
      files: { url: 'https://files.example/mcp', resourceLinks: 'read' },
      silent: { url: 'https://silent.example/mcp' },
    },
  });
  const loadToolset = async () =>
    assembleToolset([{ tools: serverTools('docs', ['search']) }, { tools: serverTools('files', ['list']) }]);
  const linking: Message = {
    role: 'tool',
    results: [
      {
        callId: 't1.c0',
        providerCallId: 'p',
        name: 'docs__search',
        outcome: { kind: 'succeeded', result: { content: [{ type: 'resource_link', uri: 'doc://1', name: 'one' }] } },
      },
    ],
  };

  let asked: unknown[][];
  let read: () => Promise<Message | undefined>;
  beforeEach(() => {
    asked = [];
    read = async () => linking;
  });
  const readMessage = async (...which: unknown[]): Promise<Message | undefined> => {
    asked.push(which);
    return await read();
  };

  const genuine = approvedDispatch();
  const dispatch = (over: Partial<DispatchInput> = {}): DispatchInput => ({
    ...genuine,
    target: toolTarget({ server: 'docs', tool: READ_RESOURCE }),
    arguments: { uri: 'doc://1' },
    link: { at: 3 },
    ...over,
  });
  const check = (input: DispatchInput) => checkLink(input, { config, loadToolset, readMessage });

  test('control: a link that stands where the run says is read, from the run that Temporal names', async () => {
    expect(await check(dispatch())).toBeUndefined();
    expect(asked).toEqual([['run/1', 'run-1', 3]]);
  });

  describe('refused, and nothing is sent', () => {
    test.each<[string, Partial<DispatchInput>]>([
      ['a foreign URI', { arguments: { uri: 'doc://2' } }],
      ['the link of another server', { target: toolTarget({ server: 'files', tool: READ_RESOURCE }) }],
      ['a URI that is no text', { arguments: { uri: ['doc://1'] } }],
      ['no URI', { arguments: {} }],
      ['a place that is none', { link: { at: -1 } }],
      ['a place between messages', { link: { at: 1.5 } }],
    ])('%s', async (_, over) => {
      expect(await check(dispatch(over))).toMatchObject({ kind: 'refused', code: 'RESOURCE_NOT_LINKED' });
    });

    test('no link at all', async () => {
      const { link: _, ...bare } = dispatch();
      expect(await check(bare)).toMatchObject({ code: 'RESOURCE_NOT_LINKED' });
      expect(asked).toEqual([]);
    });

    test('a place where nothing stands, or something else', async () => {
      read = async () => undefined;
      expect(await check(dispatch())).toMatchObject({ code: 'RESOURCE_NOT_LINKED' });
      read = async () => ({ role: 'user', text: '[resource one: doc://1]' });
      expect(await check(dispatch())).toMatchObject({ code: 'RESOURCE_NOT_LINKED' });
    });

    test.each(['silent', 'gone', 'constructor'])('server %s, whose links this worker does not read', async (server) => {
      const target = toolTarget({ server, tool: READ_RESOURCE });
      expect(await check(dispatch({ target }))).toMatchObject({ kind: 'refused', code: 'TOOL_DISABLED' });
    });
  });

  test('a conversation that cannot be had is no answer: the call was not sent, and may be tried again', async () => {
    read = async () => {
      throw new Error('secret detail');
    };
    await expect(check(dispatch())).rejects.toMatchObject({
      code: 'TOOL_UNAVAILABLE',
      message: expect.not.stringContaining('secret'),
    });
  });
});

// What a dispatch asks of the history before a reset, and when it does not (INV-X1).

const SCHEDULER = { workflowId: 'run-1', runId: 'r-2' };
// Sound for the test: no other field of a dispatch is looked at.
const INPUT = {
  callId: 't1.c0',
  idempotencyKey: 'run-1/t1.c0',
  decidedIn: ['r-2'],
  target: { server: 'bank', serverUrl: 'https://bank.example/', tool: 'pay', definitionHash: '' },
  arguments: {},
} as unknown as DispatchInput;

test('nothing is asked where the call may be repeated, or somebody has said that it is sent again', async () => {
  const never: ReadDiscarded = async () => {
    throw new Error('asked');
  };
  expect(await lostInReset(INPUT, SCHEDULER, true, never)).toBeUndefined();
  // Sound: that there is a word is all that counts here; it was proven before.
  const retry = {} as NonNullable<DispatchInput['retry']>;
  expect(await lostInReset({ ...INPUT, retry }, SCHEDULER, false, never)).toBeUndefined();
  await expect(lostInReset(INPUT, SCHEDULER, false, never)).rejects.toThrow('asked');
});

interface Execution {
  readonly originalRunId: string;
  readonly firstRunId?: string;
  readonly before?: string;
  readonly events?: readonly object[];
}

/** A client of a namespace that has these executions; what is not there was forgotten. */
function namespaceOf(
  executions: Readonly<Record<string, Execution>>,
  listed: readonly string[] = Object.keys(executions),
) {
  const eventsOf = (runId: string): readonly object[] => {
    const execution = executions[runId];
    if (execution === undefined) throw new WorkflowNotFoundError('gone', 'run-1', runId);
    const { originalRunId, firstRunId = 'r-1', before, events = [] } = execution;
    const started = {
      originalExecutionRunId: originalRunId,
      firstExecutionRunId: firstRunId,
      ...defined({ continuedExecutionRunId: before }),
    };
    return [{ eventId: 1, workflowExecutionStartedEventAttributes: started }, ...events];
  };
  let requests = 0;
  const client = fakeClient({
    options: { loadedDataConverter: { payloadConverter: defaultPayloadConverter, payloadCodecs: [] } },
    workflowService: {
      getWorkflowExecutionHistory: async ({ execution }: { execution: { runId: string } }) => {
        requests += 1;
        return { history: { events: eventsOf(execution.runId).slice(0, 1) } };
      },
    },
    workflow: {
      getHandle: (_id: string, runId: string) => ({
        fetchHistory: async () => {
          requests += 1;
          return { events: eventsOf(runId) };
        },
      }),
      async *list() {
        for (const runId of listed) yield { runId };
      },
    },
  });
  const read = createDiscardedReader(client);
  return { read, requests: () => requests };
}

const reset = (eventId: number, baseRunId: string, newRunId = 'r-2') => ({
  eventId,
  workflowTaskFailedEventAttributes: { baseRunId, newRunId },
});
/** A run that was reset after these events, and has had the others since. */
function wasReset(discarded: readonly object[], since: readonly object[] = []) {
  const { read } = namespaceOf({
    'r-1': { originalRunId: 'r-1', events: discarded },
    'r-2': { originalRunId: 'r-1', events: [...since] },
  });
  return async (input: DispatchInput = INPUT) => await read('run-1', 'r-2', input);
}

const at = msToTs(1_000_000);
const dispatched = (eventId: number, input: object) => ({
  eventId,
  eventTime: at,
  activityTaskScheduledEventAttributes: {
    activityType: { name: 'callTool' },
    input: { payloads: [defaultPayloadConverter.toPayload({ ...INPUT, ...input })] },
  },
});

describe('a call that left within a stretch before the reset', () => {
  const sent = (over: object = {}) => ({ callId: 't1.c0', digest: 'd', sentAt: 2_000_000, ...over });
  const turnOf = (call: object, args: object = INPUT.arguments, callId = 't1.c0') => ({
    at: 1_000_000,
    step: {
      parts: [{ type: 'call', callId, providerCallId: 'p', name: 'bank__pay', arguments: args }],
      usage: { inputTokens: 1, outputTokens: 1 },
      finish: 'calls',
      judged: { policyVersion: 'v', judgements: [{ callId, verdict: { kind: 'allow' }, target: INPUT.target }] },
    },
    calls: [call],
  });
  const timedOut = (eventId: number, record: object) => ({
    eventId,
    eventTime: at,
    activityTaskTimedOutEventAttributes: {
      scheduledEventId: 9,
      failure: {
        timeoutFailureInfo: { lastHeartbeatDetails: { payloads: [defaultPayloadConverter.toPayload(record)] } },
      },
    },
  });
  const scheduled = (eventId: number, name = 'stretch') => ({
    eventId,
    eventTime: at,
    activityTaskScheduledEventAttributes: { activityType: { name } },
  });
  const readAfter = async (...discarded: readonly object[]) =>
    await wasReset([scheduled(9), ...discarded], [reset(7, 'r-1')])();
  const succeeded = { kind: 'ended', outcome: { kind: 'succeeded', result: { content: [] } } };

  test('is found in the result of the stretch, and in the last record of a lost worker', async () => {
    const found = { kind: 'sent', send: { callId: 't1.c0', at: 2_000_000, runId: 'r-1' } };
    const ended = { turns: [turnOf(sent({ result: succeeded }))] };
    expect(await readAfter(endedAs(10, 9, ended))).toMatchObject({ ...found, send: { ending: 'succeeded' } });
    const open = { turns: [turnOf(sent())] };
    expect(await readAfter(timedOut(10, open))).toMatchObject({ ...found, send: { ending: 'unknown' } });
  });

  test('counts for the same call under another id, and not for another call under its id', async () => {
    const moved = { turns: [turnOf(sent({ callId: 't3.c1' }), INPUT.arguments, 't3.c1')] };
    expect(await readAfter(endedAs(10, 9, moved))).toMatchObject({ kind: 'sent', send: { callId: 't3.c1' } });
    expect(await readAfter(endedAs(10, 9, { turns: [turnOf(sent(), { other: 1 })] }))).toBeUndefined();
  });

  test('that did not leave, or stands before the reset, is none', async () => {
    const { calls: _, ...unsent } = turnOf(sent());
    expect(await readAfter(endedAs(10, 9, { turns: [unsent] }))).toBeUndefined();
    expect(await readAfter(endedAs(10, 9, { turns: [turnOf(sent({ result: NOT_SENT }))] }))).toBeUndefined();
    const kept = endedAs(5, 4, { turns: [turnOf(sent({ result: succeeded }))] });
    expect(await wasReset([scheduled(4), kept], [scheduled(4), kept, reset(7, 'r-1')])()).toBeUndefined();
  });

  test('may be any call where the record cannot be read, or has a wrong form', async () => {
    const sealed = { metadata: { encoding: Buffer.from('binary/of-a-lost-key') }, data: Buffer.from('x') };
    const unread = { scheduledEventId: 9, result: { payloads: [sealed] } };
    const completed = { eventId: 10, eventTime: at, activityTaskCompletedEventAttributes: unread };
    const any = { kind: 'sent', send: { at: 1_000_000, ending: 'unknown' } };
    expect(await readAfter(completed)).toMatchObject(any);
    for (const turns of ['none', null, [{}], [turnOf(sent({ sentAt: 8.64e15 + 1 }))]])
      expect(await readAfter(endedAs(10, 9, { turns }))).toMatchObject(any);
    expect(await readAfter(timedOut(10, { turns: 'none' }))).toMatchObject(any);
  });

  test('is none where the first activity took no turn, or another activity answers', async () => {
    expect(await readAfter(scheduled(11, 'prepareRun'), endedAs(12, 11, { specHash: 'a' }))).toBeUndefined();
    expect(await readAfter(scheduled(11, 'modelStep'), endedAs(12, 11, { parts: 'none' }))).toBeUndefined();
  });
});

test('a run that was never reset costs one request for each execution, which is kept', async () => {
  const { read, requests } = namespaceOf({ 'r-2': { originalRunId: 'r-2', before: 'r-1' } });
  const input = { ...INPUT, decidedIn: ['r-1', 'r-2'] };
  expect(await read('run-1', 'r-2', input)).toBeUndefined();
  expect(await read('run-1', 'r-2', input)).toBeUndefined();
  expect(requests()).toBe(1);
});

test('how an execution began, which was not to be read, is read again before the next call', async () => {
  const { read, requests } = namespaceOf({});
  for (const tried of [1, 2]) {
    await expect(read('run-1', 'r-2', INPUT)).rejects.toMatchObject({ code: 'ENGINE_UNAVAILABLE' });
    expect(requests()).toBe(tried);
  }
});

test('what stands before the reset is no discarded send; what stands after it in the other execution is one', async () => {
  const before = dispatched(4, {});
  const after = dispatched(9, { idempotencyKey: 'run-1/t2.c0', arguments: { b: 1 } });
  const read = wasReset([before, after], [before, reset(7, 'r-1')]);
  expect(await read()).toBeUndefined();
  expect(await read({ ...INPUT, idempotencyKey: 'run-1/t2.c0' })).toMatchObject({
    kind: 'sent',
    send: { runId: 'r-1', at: 1_000_000, ending: 'unknown' },
  });
});

test('a dispatch that cannot be read may be any call', async () => {
  const unreadable = {
    ...dispatched(9, {}),
    activityTaskScheduledEventAttributes: { activityType: { name: 'callTool' } },
  };
  expect(await wasReset([unreadable], [reset(7, 'r-1')])()).toMatchObject({ kind: 'sent' });
});

const endedAs = (eventId: number, scheduledEventId: number, result: object) => ({
  eventId,
  eventTime: at,
  activityTaskCompletedEventAttributes: {
    scheduledEventId,
    result: { payloads: [defaultPayloadConverter.toPayload(result)] },
  },
});
const NOT_SENT = { kind: 'not-sent', code: 'TOOL_UNAVAILABLE', message: '' };

test('attempts of the call itself, and calls that came to nothing, account for no discarded send', async () => {
  const other = 'run-1/t1.c1';
  const discarded = dispatched(9, { idempotencyKey: 'run-1/t1.c9' });
  const readSince = async (...since: readonly object[]) => await wasReset([discarded], [reset(7, 'r-1'), ...since])();
  const sent = { kind: 'sent', send: { runId: 'r-1' } };
  expect(await readSince(dispatched(8, {}), endedAs(9, 8, NOT_SENT), dispatched(12, {}))).toMatchObject(sent);
  expect(
    await readSince(dispatched(8, { idempotencyKey: other }), endedAs(9, 8, NOT_SENT), dispatched(12, {})),
  ).toMatchObject(sent);
  // Of another call, which was asked about or sent, it does.
  expect(await readSince(dispatched(8, { idempotencyKey: other }), dispatched(12, {}))).toBeUndefined();
});

test.each([
  ['a timeout', 'activityTaskTimedOutEventAttributes'],
  ['a cancellation', 'activityTaskCanceledEventAttributes'],
])('%s proves nothing: an attempt that has failed before leaves no trace in it', async (_what, attributes) => {
  const over = { eventId: 10, [attributes]: { scheduledEventId: 9, startedEventId: 0 } };
  const read = wasReset([dispatched(9, {}), over], [reset(7, 'r-1')]);
  expect(await read()).toMatchObject({ kind: 'sent', send: { ending: 'unknown' } });
});

test('a reset that lies before what is kept is a reset still', async () => {
  const forgotten = { kind: 'forgotten' };
  const cut = namespaceOf({ 'r-4': { originalRunId: 'r-4', before: 'r-3' } });
  expect(await cut.read('run-1', 'r-4', { ...INPUT, decidedIn: ['r-2', 'r-3', 'r-4'] })).toEqual(forgotten);
  // Nor does a newer one hide it.
  const newer = namespaceOf({
    'r-4': { originalRunId: 'r-4', before: 'r-3' },
    'r-5': { originalRunId: 'r-4', before: 'r-3', events: [reset(7, 'r-4', 'r-5')] },
  });
  expect(await newer.read('run-1', 'r-5', { ...INPUT, decidedIn: ['r-5'] })).toEqual(forgotten);
});

test('what Temporal has not kept is said, never taken for nothing', async () => {
  const { read } = namespaceOf({ 'r-2': { originalRunId: 'r-1', events: [reset(7, 'r-1')] } });
  expect(await read('run-1', 'r-2', INPUT)).toEqual({ kind: 'forgotten' });
  expect(await lostInReset(INPUT, SCHEDULER, false, read)).toMatchObject({
    kind: 'ended',
    outcome: { kind: 'unknown', message: expect.stringContaining('has not kept') },
  });
});

test('another run that had the id before is none of it', async () => {
  const { read } = namespaceOf({
    'r-0': { originalRunId: 'r-0', firstRunId: 'r-0', events: [dispatched(9, {})] },
    'r-1': { originalRunId: 'r-1' },
    'r-2': { originalRunId: 'r-1', events: [reset(7, 'r-1')] },
  });
  expect(await read('run-1', 'r-2', INPUT)).toBeUndefined();
});

test('a Temporal that does not answer is a fault that passes', async () => {
  const { read } = namespaceOf({});
  await expect(read('run-1', 'r-2', INPUT)).rejects.toMatchObject({
    code: 'ENGINE_UNAVAILABLE',
    traits: { retryable: true },
  });
});

// A standing decision ends with the credentials under which the run listed its tools.

describe('a standing decision on a server whose credentials are set otherwise', () => {
  const url = 'https://files.example';
  const configOf = (clientId: string) =>
    Config.parse({
      servers: {
        files: {
          url,
          credentials: {
            kind: 'client-credentials',
            issuer: 'https://idp.example.com',
            clientId,
            clientSecret: 'canary-secret',
          },
        },
      },
    });
  const decided = approvedDispatch();
  // Sound: only the kind of the proof is read.
  const standing = { ...decided, proof: { kind: 'standing' } } as unknown as DispatchInput;
  const listedBy = (clientId: string): OfferedTool => ({
    ...offered(SHOWN, 'Pays.'),
    reachedBy: reachHash(configOf(clientId), { name: 'files', url }),
  });
  const check = (input: DispatchInput, listed: OfferedTool) =>
    checkReach(input, configOf('one'), listed, ask, undefined);

  test('is asked again, of those whom policy names now, and names no secret', () => {
    const lost = check(standing, listedBy('two'));
    expect(lost).toMatchObject({ kind: 'reopen', code: 'STANDING_LOST', approvers, deadlineSeconds: 60 });
    expect(JSON.stringify(lost)).not.toContain('canary');
  });

  test('holds while they are as they were', () => {
    expect(check(standing, listedBy('one'))).toBeUndefined();
  });

  test('is no matter of a decision on this very call', () => {
    expect(check(decided, listedBy('two'))).toBeUndefined();
  });
});

// A dispatch checks the arguments itself: what policy let pass does not pass by a schema that cannot be used (INV-G4).

describe('a call that policy allows, at its dispatch', () => {
  const decided = approvedDispatch();
  const input: DispatchInput = { ...decided, proof: { kind: 'policy', rules: [] }, arguments: { path: 'a' } };
  const weighed = async (sent: DispatchInput, schema: object) => {
    const hash = sent.target.definitionHash;
    const plain = offered(hash, 'Pays.');
    // Sound: a schema of a test is JSON.
    const definition = { ...plain.definition, inputSchema: { type: 'object', properties: { path: schema } } as never };
    const listed = { ...plain, definition };
    const config = Config.parse({ policy: { strategy: 'never', approvers: { ids: ['bob'] } } });
    return await weigh(
      { config, conditions: new Conditions() },
      new ArgumentChecker(),
      sent,
      { tool: listed, pinned: listed },
      undefined,
    );
  };

  test('leaves if its arguments fit', async () => {
    expect(await weighed(input, { pattern: '^a' })).toMatchObject({ verdict: { kind: 'allow' } });
  });

  test('is refused if they do not', async () => {
    expect(await weighed(input, { pattern: '^b' })).toMatchObject({
      refused: { kind: 'refused', code: 'ARGUMENTS_INVALID' },
    });
  });

  test('is asked first if nobody can say', async () => {
    const asked = { allOf: [{ layer: 'organisation', ids: ['bob'] }] };
    const refused = { kind: 'reopen', code: 'VERDICT_STRICTER', approvers: asked };
    expect(await weighed(input, { pattern: '(' })).toMatchObject({ refused });
  });
});
