/**
 * Answers that the worker after a lost one gets and that are no results of a tool: that the server has made a task of the call, and
 * what a linked resource holds. Sent once, and understood as by the worker that sent it (INV-X1, INV-S1).
 */
import { randomBytes } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { createMemoryStore } from '../../activities/artifacts/memory.ts';
import { createToolsetLoader } from '../../activities/catalog/reader.ts';
import { Conditions } from '../../activities/policy/condition.ts';
import type { TokenRequest } from '../../activities/tokens/port.ts';
import { createCallTool } from '../../activities/gate/call-tool.ts';
import { pinnedTools, stored } from '../../activities/gate/discover-tools.ts';
import { createMcpAnswerSource } from '../../activities/mcp/legacy-2025/answer-stream.ts';
import { LEGACY_CALLS } from '../../activities/mcp/legacy-2025/legacy-calls.ts';
import { createMcpToolServer } from '../../activities/mcp/mcp-server.ts';
import { createMcpTaskServer } from '../../activities/mcp/legacy-2025/tasks.ts';
import { createPollTask } from '../../activities/gate/legacy-2025/poll-task.ts';
import { authorityOf } from '../../activities/discovery/access.ts';
import { openPoint, sealFor } from '../../activities/gate/legacy-2025/seals.ts';
import { createResumeCall } from '../../activities/gate/legacy-2025/resume-call.ts';
import { ServerLimits } from '../../activities/limits/server-limits.ts';
import { createStateSeal } from '../../activities/mcp/state-seal.ts';
import type { DispatchInput, DispatchResult, ResumeInput } from '../../contracts/wire/tools.ts';
import { Config, type ConfigInput } from '../../contracts/schemas/config.ts';
import type { Message } from '../../contracts/schemas/transcript.ts';
import { READ_RESOURCE_TOOL } from '../../domain/run/resource-link.ts';
import { loopbackEgress } from '../support/egress.ts';
import { aDefinition } from '../support/activities/tool-call.ts';
import { allowedDispatch, goingActivity, inActivity } from '../support/activities/tool-activities.ts';
import { until } from '../support/until.ts';

const SEAL = createStateSeal(new Map([['zone', randomBytes(32)]]));
const SESSION = 'session-of-the-one-call';
const TASK = 'task-of-the-one-call';
const URI = 'doc://1';
const DIG = aDefinition({ name: 'dig', taskSupport: 'required' });

let http: Server;
let url: string;
let seen: string[];
/** Every authorization, as it came. */
let heard: string[];
/** Requests for tokens. */
let wanted: TokenRequest[];
/** Of those who ask for an answer. */
let refusals: number;
/** What comes for whoever asks after the first event. */
let answer: object;

beforeEach(async () => {
  seen = [];
  heard = [];
  wanted = [];
  refusals = 0;
  http = createServer((request, response) => void serve(request, response));
  await new Promise<void>((resolve) => {
    http.listen(0, '127.0.0.1', resolve);
  });
  // Sound: a server that listens on a port has an address with one.
  url = `http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp`;
});
afterEach(async () => {
  const closed = new Promise((resolve) => http.close(resolve));
  http.closeAllConnections();
  await closed;
});

async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const chunks: Buffer[] = [];
  // Sound: without an encoding, a request gives buffers.
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const text = Buffer.concat(chunks).toString();
  // Sound: the only client is our adapter, which sends JSON-RPC objects.
  const { id, method } = (text === '' ? {} : JSON.parse(text)) as { id?: unknown; method?: string };
  seen.push(method ?? request.method ?? '');
  heard.push(request.headers.authorization ?? '');
  const json = (fields: object): void =>
    void response
      .writeHead(200, { 'content-type': 'application/json', 'mcp-session-id': SESSION })
      .end(JSON.stringify({ jsonrpc: '2.0', id, ...fields }));
  const times = { createdAt: '2026-01-01T00:00:00.000Z', lastUpdatedAt: '2026-01-01T00:00:00.000Z', ttl: null };
  if (request.method === 'GET') {
    refusals -= 1;
    if (refusals >= 0) return void response.writeHead(401).end();
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    return void response.end(`id: event-2\ndata: ${JSON.stringify({ jsonrpc: '2.0', id: asked, ...answer })}\n\n`);
  }
  switch (method) {
    case 'initialize':
      return json({
        result: {
          protocolVersion: '2025-11-25',
          capabilities: { tools: {}, resources: {}, tasks: { requests: { tools: { call: {} } } } },
          serverInfo: { name: 'kept', version: '1' },
        },
      });
    case 'tools/call':
    case 'resources/read':
      asked = id;
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      // Held from here on: only whoever comes back hears more.
      return void response.write('id: event-1\ndata: \n\n');
    case 'tasks/get':
      return json({ result: { taskId: TASK, status: 'completed', ...times } });
    case 'tasks/result':
      return json({
        result: { content: [{ type: 'text', text: `dug in ${SESSION} by ${[...new Set(heard)].join(' and ')}` }] },
      });
    case 'server/discover':
      return json({ error: { code: -32_601, message: 'Method not found' } });
    default:
      return void response.writeHead(202).end();
  }
}
let asked: unknown;

/** A worker of the zone, which reads what results link to, or does not. */
async function worker(resourceLinks: 'read' | 'keep' = 'read') {
  const artifacts = createMemoryStore();
  const binding = { name: 'files', url };
  const toolset = [
    { server: 'files', tools: await stored(artifacts, pinnedTools(binding, [DIG, READ_RESOURCE_TOOL])) },
  ];
  const loadToolset = createToolsetLoader(artifacts);
  const offered = await loadToolset(toolset);
  const servers: ConfigInput['servers'] = { files: { url, resourceLinks } };
  const parts = {
    config: Config.parse({ servers, policy: { strategy: 'never' } }),
    conditions: new Conditions(),
    loadToolset,
    readCatalog: async () => undefined,
    broker: {
      mint: async (request: TokenRequest) => {
        wanted.push(request);
        const accessToken = `token-of-${randomBytes(12).toString('hex')}`;
        return { accessToken, evidence: { strategy: 'none' as const }, secrets: [accessToken] };
      },
    },
    server: createMcpToolServer({ legacy: LEGACY_CALLS, artifacts, egress: loopbackEgress() }),
    seal: SEAL,
    readMessage: async (): Promise<Message> => ({
      role: 'tool',
      results: [
        {
          callId: 't1.c9',
          providerCallId: 'p',
          name: offered[0]?.modelName ?? '',
          outcome: { kind: 'succeeded', result: { content: [{ type: 'resource_link', uri: URI, name: 'one' }] } },
        },
      ],
    }),
  };
  const limits = new ServerLimits({ configured: new Map(), tell: () => {} });
  return {
    callTool: createCallTool({ ...parts, limits, liveTools: { current: async (_, tool) => ({ tool, secrets: [] }) } }),
    resumeCall: createResumeCall({ ...parts, answers: createMcpAnswerSource({ artifacts, egress: loopbackEgress() }) }),
    pollTask: createPollTask({ ...parts, tasks: createMcpTaskServer({ artifacts, egress: loopbackEgress() }) }),
    input: (tool: string, over: Partial<DispatchInput> = {}): DispatchInput => {
      const found = offered.find(({ definition }) => definition.name === tool);
      if (found === undefined) throw new Error(`no ${tool}`);
      return { ...allowedDispatch(found, {}, toolset, { server: binding }), resumable: true, tasks: true, ...over };
    },
  };
}

async function leftBehind(tool: string, over: Partial<DispatchInput> = {}): Promise<ResumeInput> {
  const { callTool, input } = await worker();
  const dispatched = input(tool, over);
  const going = goingActivity(callTool, dispatched);
  await until(() => going.beats.find((beat) => 'resume' in Object(beat)), { what: 'where the answer comes' });
  going.shutDown();
  const result = await going.result;
  if (result.kind !== 'ended' || result.resume === undefined) throw new Error(JSON.stringify(result));
  return { ...dispatched, resume: result.resume };
}

const sent = (): string[] => seen.filter((what) => what === 'tools/call' || what === 'resources/read');

test('a task that the lost worker did not hear of is waited for by the run: its session stays, and a poll finds it (INV-S1: and scrubs the tokens of all three)', async () => {
  const input = await leftBehind('dig');
  const times = { createdAt: '2026-01-01T00:00:00.000Z', lastUpdatedAt: '2026-01-01T00:00:00.000Z' };
  answer = { result: { task: { taskId: TASK, status: 'working', ttl: 600_000, pollInterval: 7, ...times } } };
  const { resumeCall, pollTask } = await worker();
  const begun: DispatchResult = await inActivity(resumeCall, input);
  expect(begun).toMatchObject({ kind: 'task', task: { pollMs: 7 }, token: { strategy: 'none' } });
  expect(JSON.stringify(begun)).not.toContain(TASK);
  expect(JSON.stringify(begun)).not.toContain(SESSION);
  expect(seen).not.toContain('DELETE');
  if (begun.kind !== 'task') throw new Error('it is no task');
  const { run, callId, attempt, name, target, server, toolset, limits } = input;
  const question = { run, callId, attempt, name, target, server, toolset, limits, sealed: begun.task.sealed };
  expect(await inActivity(pollTask, question)).toMatchObject({
    outcome: {
      kind: 'succeeded',
      result: {
        content: [{ text: expect.stringMatching(/^dug in \[redacted\] by (Bearer \[redacted\]( and )?){3}$/) }],
      },
    },
  });
  expect(sent()).toEqual(['tools/call']);
  // With its task the session is over.
  expect(seen.at(-1)).toBe('DELETE');
});

test('a token that is refused: a fresh one, once, in the same session (RFC 6750 §3.1)', async () => {
  const input = await leftBehind('dig');
  answer = { result: { content: [{ type: 'text', text: 'dug' }] } };
  const { resumeCall } = await worker();
  refusals = 1;
  expect(await inActivity(resumeCall, input)).toMatchObject({ outcome: { kind: 'succeeded' } });
  expect(seen.slice(-3)).toEqual(['GET', 'GET', 'DELETE']);
  const [refused, taken, ended] = heard.slice(-3);
  expect(refused).toBe(`Bearer ${wanted.at(-1)?.refused}`);
  expect(taken).not.toBe(refused);
  expect(ended).toBe(taken);
  const again = await leftBehind('dig');
  refusals = 2;
  expect(await inActivity(resumeCall, again)).toMatchObject({
    outcome: { kind: 'unknown', message: expect.stringContaining('does not accept the token') },
  });
  expect(seen.slice(-2)).toEqual(['GET', 'GET']);
});

test('a task that was found so is asked about with the grant and the scopes of its call (INV-S2)', async () => {
  const grant = { server: 'files', ref: 'ann-files' };
  const left = await leftBehind('dig', { grant });
  const opened = await openPoint(left, SEAL);
  if (opened === undefined) throw new Error('it is not for this call');
  const authority = authorityOf({ grant, consented: ['dig:deep'] }, []);
  const resume = await sealFor(left, SEAL, () => authority).seal?.(opened.point);
  answer = { result: { task: { taskId: TASK, status: 'working' } } };
  const { resumeCall, pollTask } = await worker();
  const begun: DispatchResult = await inActivity(resumeCall, { ...left, resume: resume ?? left.resume });
  if (begun.kind !== 'task') throw new Error(JSON.stringify(begun));
  const { run, callId, attempt, name, target, server, toolset, limits } = left;
  const question = { run, callId, attempt, name, target, server, toolset, limits, sealed: begun.task.sealed };
  await inActivity(pollTask, { ...question, grants: [grant] });
  expect(wanted.slice(1).map(({ grant: given, consented }) => ({ given, consented }))).toEqual(
    [1, 2].map(() => ({ given: grant, consented: ['dig:deep'] })),
  );
});

test('a run that cannot wait for tasks takes the same answer for none', async () => {
  const { tasks: _, ...input } = await leftBehind('dig');
  answer = { result: { task: { taskId: TASK, status: 'working' } } };
  const { resumeCall } = await worker();
  expect(await inActivity(resumeCall, input)).toMatchObject({ kind: 'ended' });
  expect(seen).toContain('DELETE');
});

const read = { arguments: { uri: URI }, link: { at: 2 } };

test('what a linked resource holds is read once, and brought by the next worker', async () => {
  const input = await leftBehind('resources:read', read);
  answer = { result: { contents: [{ uri: URI, mimeType: 'text/plain', text: `kept in ${SESSION}` }] } };
  const { resumeCall } = await worker();
  const result: DispatchResult = await inActivity(resumeCall, input);
  expect(result).toMatchObject({ kind: 'ended', outcome: { kind: 'succeeded' } });
  expect(JSON.stringify(result)).toContain('kept in [redacted]');
  expect(sent()).toEqual(['resources/read']);
});

test('that there is no such resource is no doubt about what has happened', async () => {
  const input = await leftBehind('resources:read', read);
  answer = { error: { code: -32_002, message: 'Resource not found' } };
  const { resumeCall } = await worker();
  expect(await inActivity(resumeCall, input)).toMatchObject({
    kind: 'ended',
    outcome: { kind: 'failed', code: 'RESOURCE_UNKNOWN', executed: false },
  });
});

test('where reading was taken back meanwhile the server is not asked for it', async () => {
  const input = await leftBehind('resources:read', read);
  const before = seen.length;
  const { resumeCall } = await worker('keep');
  expect(await inActivity(resumeCall, input)).toMatchObject({
    kind: 'ended',
    outcome: { kind: 'unknown', code: 'OUTCOME_UNKNOWN', message: expect.stringContaining('resourceLinks') },
  });
  expect(seen).toHaveLength(before);
});
