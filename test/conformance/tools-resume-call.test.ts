/**
 * The activity that asks for the answer to a call whose worker is lost: what it believes of what that worker left, what
 * must hold before a server is spoken to, which kinds of answer it understands, and how long it waits (INV-G1, INV-X1,
 * INV-S1, INV-S2; ADR 0039, 0040). One file, because each scene begins with what a lost worker left.
 */
import { randomBytes } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { authorityOf } from '../../activities/discovery/access.ts';
import { openPoint, sealPoint } from '../../activities/gate/legacy-2025/seals.ts';
import type { ResumePoint } from '../../activities/mcp/port.ts';
import { createStateSeal, type StateSeal } from '../../activities/mcp/state-seal.ts';
import type { TokenRequest } from '../../activities/tokens/port.ts';
import { defined } from '../../contracts/defined.ts';
import type { ConfigInput } from '../../contracts/schemas/config.ts';
import type { Message } from '../../contracts/schemas/transcript.ts';
import type { DispatchInput, DispatchResult, ResumeInput } from '../../contracts/wire/tools.ts';
import { READ_RESOURCE_TOOL } from '../../domain/run/resource-link.ts';
import { goingActivity, inActivity } from '../support/activities/tool-activities.ts';
import { type ToolBench, toolBench, type ToolBenchOptions } from '../support/activities/tool-bench.ts';
import { aCall, aConnection, aDefinition } from '../support/activities/tool-call.ts';
import { question, event, later, toolServer, YES } from '../support/servers/asking-server.ts';
import { type CallExchange, type RawServer, startRawServer } from '../support/servers/raw-server.ts';
import { type ResumableServer, startResumableServer } from '../support/servers/resumable-server.ts';
import { until } from '../support/until.ts';

const sealed = createStateSeal(new Map([['zone', randomBytes(32)]]));
if (sealed === undefined) throw new Error('a key makes a seal');
const SEAL = sealed;
const GRANT = { server: 'files', ref: 'ann-files' };

/** What a worker leaves that ends in the middle of a call, by the activity's own answer. */
async function leftBy({ callTool }: ToolBench, input: DispatchInput, held?: () => Promise<void>): Promise<ResumeInput> {
  const going = goingActivity(callTool, input);
  await held?.();
  await until(() => going.beats.find((beat) => 'resume' in Object(beat)), { what: 'where the answer comes' });
  going.shutDown();
  const result = await going.result;
  if (result.kind !== 'ended' || result.resume === undefined) throw new Error(JSON.stringify(result));
  expect(result.outcome).toMatchObject({ kind: 'unknown', code: 'OUTCOME_UNKNOWN' });
  return { ...input, resume: result.resume };
}

/** What the worker leaves that had people's consent to these scopes. */
async function consentedTo(consented: readonly string[], left: ResumeInput): Promise<ResumeInput> {
  const opened = await openPoint(left, SEAL);
  if (opened === undefined) throw new Error('it is not for this call');
  const authority = authorityOf({ grant: GRANT, consented }, []);
  return { ...left, resume: await sealPoint(left, { point: opened.point, authority }, SEAL) };
}

describe('at a server that keeps its events', () => {
  let server: ResumableServer;
  let minted: TokenRequest[];
  /** A new token with each mint; else none. */
  let hasTokens: boolean;
  /** What the issuer takes its time for. */
  let minting: () => Promise<void>;
  beforeEach(async () => {
    server = await startResumableServer();
    [minted, hasTokens, minting] = [[], false, () => Promise.resolve()];
  });
  afterEach(async () => server.close());

  /** A worker of the zone, with this policy and this seal. */
  const worker = async (policy: ConfigInput['policy'] = { strategy: 'never' }, seal: StateSeal | undefined = SEAL) =>
    await toolBench(server.url, {
      definitions: [aDefinition({ name: 'slow' })],
      policy,
      seal,
      broker: {
        mint: async (request: TokenRequest) => {
          minted.push(request);
          await minting();
          const accessToken = `token-of-mint-${minted.length}`;
          const token = hasTokens ? { accessToken, secrets: [accessToken] } : { secrets: [] };
          return { evidence: { strategy: 'none' }, ...token };
        },
      },
    });
  const leftBehind = async (purpose: string, over: Partial<DispatchInput> = {}): Promise<ResumeInput> => {
    const bench = await worker();
    return await leftBy(bench, bench.input({ purpose }, { resumable: true, ...over }), () => server.held(purpose));
  };
  const resumed = async (input: ResumeInput, bench?: ToolBench): Promise<DispatchResult> =>
    await inActivity((bench ?? (await worker())).resumeCall, input);

  /** Of what was left, nobody is asked, and no token is obtained. */
  async function expectNotAsked(input: ResumeInput, why: RegExp, bench?: ToolBench): Promise<void> {
    const before = server.requests.length;
    expect(await resumed(input, bench)).toMatchObject({
      kind: 'ended',
      outcome: { kind: 'unknown', code: 'OUTCOME_UNKNOWN', message: expect.stringMatching(why) },
    });
    expect(server.requests).toHaveLength(before);
    expect(minted).toHaveLength(1);
  }

  test('another worker of the zone gets the answer; its token is for this tool, and says of no call that it was countersigned', async () => {
    const input = await leftBehind('kept');
    server.release('kept');
    expect(await resumed(input)).toMatchObject({
      kind: 'ended',
      outcome: { kind: 'succeeded', result: { content: [{ text: 'kept is done in [redacted]' }] } },
      token: { strategy: 'none' },
    });
    expect(server.executed).toEqual(['kept']);
    expect(server.requests.filter(({ rpc }) => rpc === 'tools/call')).toHaveLength(1);
    expect(minted.map(({ tool, call }) => ({ tool, countersigned: call !== undefined }))).toEqual([
      { tool: 'slow', countersigned: true },
      { tool: 'slow', countersigned: false },
    ]);
  });

  test('what is left behind has neither session nor event in clear (INV-S1)', async () => {
    const text = JSON.stringify(await leftBehind('clear'));
    const { sessions, events } = server.secrets;
    expect(sessions.length * events.length).toBeGreaterThan(0);
    for (const secret of [...sessions, ...events]) {
      expect(text).not.toContain(secret);
      expect(text).not.toContain(Buffer.from(secret).toString('base64url').slice(4, -4));
    }
  });

  test('what the server says of the token that the lost worker had called it with is not in the answer (INV-S1)', async () => {
    hasTokens = true;
    const input = await leftBehind('echo');
    server.release('echo');
    const result = await resumed(input);
    expect(server.calls[0]?.headers['authorization']).toBe('Bearer token-of-mint-1');
    const text = 'echo is done in [redacted] by Bearer [redacted]';
    expect(result).toMatchObject({ outcome: { kind: 'succeeded', result: { content: [{ text }] } } });
    expect(JSON.stringify([input, result])).not.toContain('token-of-mint');
  });

  test('it is asked for with the grant and the scopes of the call, no less and no other (INV-S2)', async () => {
    const left = await consentedTo(['slow:deep'], await leftBehind('scoped', { grant: GRANT }));
    server.release('scoped');
    expect(await resumed(left)).toMatchObject({ outcome: { kind: 'succeeded' } });
    expect(minted[1]).toMatchObject({ tool: 'slow', grant: GRANT, consented: ['slow:deep'] });
  });

  test('a run that has another grant by now asks nobody', async () => {
    const { grant: _, ...left } = await leftBehind('moved', { grant: GRANT });
    for (const input of [left, { ...left, grant: { ...GRANT, ref: 'eve-files' } }])
      await expectNotAsked(input, /grant with which the call was made/);
  });

  test('however long a token takes, Temporal hears that somebody asks, and where', async () => {
    const input = await leftBehind('patient');
    server.release('patient');
    const { resumeCall } = await worker();
    let heard = (): readonly unknown[] => [];
    minting = async () => void (await until(() => heard().length > 1 || undefined, { what: 'a sign of life' }));
    const going = goingActivity(resumeCall, input);
    heard = () => going.beats;
    expect(await going.result).toMatchObject({ outcome: { kind: 'succeeded' } });
    for (const beat of going.beats) expect(beat).toMatchObject({ phase: expect.stringMatching(/sent|answered/) });
    expect(going.beats.slice(0, 2)).toEqual(
      [0, 1].map(() => ({ callId: input.callId, phase: 'sent', resume: input.resume })),
    );
  });

  test('a worker that is stopped before it has a token hands on what it was given', async () => {
    const input = await leftBehind('handed');
    const { resumeCall } = await worker();
    minting = () => Promise.reject(new Error('the worker ends'));
    const going = goingActivity(resumeCall, input);
    going.shutDown();
    expect(await going.result).toMatchObject({ outcome: { kind: 'unknown' }, resume: input.resume });
  });

  test.each<[string, (input: DispatchInput) => Partial<DispatchInput>]>([
    ['call', () => ({ callId: 't1.c1' })],
    ['attempt', () => ({ attempt: 2 })],
    ['server of the same address', ({ server: own }) => ({ server: { ...own, name: 'admin' } })],
    ['arguments', () => ({ arguments: { purpose: 'another' } })],
  ])('what was left for another %s does not open: the server is not asked', async (_, over) => {
    const { resume, ...left } = await leftBehind('foreign');
    const input = (await worker()).input({ purpose: 'foreign' }, { resumable: true, ...over(left) });
    await expectNotAsked({ ...input, resume }, /does not open for this call/);
  });

  test('a worker without the key of the zone asks nobody', async () => {
    const left = await leftBehind('keyless');
    for (const keys of [new Map(), new Map([['zone', randomBytes(32)]])]) {
      const bench = await toolBench(server.url, { seal: createStateSeal(keys) });
      await expectNotAsked(left, /does not open for this call/, bench);
    }
  });

  test.each<[string, ConfigInput['policy'], RegExp]>([
    ['is denied', { servers: { files: { default: 'deny' } } }, /denied|deny/i],
    ['is halted', { halt: { reason: 'An incident.' } }, /halted by the organisation/],
  ])(
    'a tool that %s by now: its server is not spoken to, not even to learn what has happened (D-5)',
    async (_, policy, why) => await expectNotAsked(await leftBehind('halted'), why, await worker(policy)),
  );

  test('a tool that is asked about by now: what was sent was sent, and its answer is asked for', async () => {
    const left = await leftBehind('asked');
    server.release('asked');
    const bench = await worker({ strategy: 'always', approvers: { ids: ['bob'] } });
    expect(await resumed(left, bench)).toMatchObject({ outcome: { kind: 'succeeded' } });
  });

  test('another Temporal run than the one that sent it is not told', async () => {
    await expectNotAsked({ ...(await leftBehind('reset')), runId: 'run-0' }, /before the run was reset/);
  });

  test('a run that would not know what to do with it is left nothing', async () => {
    const { callTool, input } = await worker();
    const going = goingActivity(callTool, input({ purpose: 'earlier' }));
    await server.held('earlier');
    going.shutDown();
    expect(await going.result).not.toHaveProperty('resume');
    expect(going.beats.filter((beat) => 'resume' in Object(beat))).toEqual([]);
    // So the server is told, as ever.
    await until(() => server.cancelled.includes('earlier') || undefined, { what: 'the cancellation' });
  });
});

// Sent once, and understood as by the worker that sent it (INV-X1, INV-S1).
describe('an answer that is no result of a tool', () => {
  const [SESSION, TASK, URI] = ['session-of-the-one-call', 'task-of-the-one-call', 'doc://1'];
  const WORKING = { result: { task: { taskId: TASK, status: 'working' } } };
  const TIMES = { createdAt: '2026-01-01T00:00:00.000Z', lastUpdatedAt: '2026-01-01T00:00:00.000Z' };
  let server: RawServer;
  let wanted: TokenRequest[];
  /** Of those who ask for an answer. */
  let refusals: number;
  /** What comes for whoever asks after the first event. */
  let answer: object;
  beforeEach(async () => {
    [wanted, refusals, answer] = [[], 0, {}];
    let asked: unknown;
    // Held from there on: only whoever comes back hears more.
    const hold = ({ id, stream }: CallExchange): void => {
      asked = id;
      stream('id: event-1\ndata: \n\n');
    };
    server = await startRawServer({
      era: 'legacy',
      capabilities: { tools: {}, resources: {}, tasks: { requests: { tools: { call: {} } } } },
      methods: {
        'tools/call': hold,
        'resources/read': hold,
        'tasks/get': ({ result }) => result({ taskId: TASK, status: 'completed', ttl: null, ...TIMES }),
        'tasks/result': ({ text }) => text(`dug in ${SESSION} by ${[...new Set(heard())].join(' and ')}`),
      },
      intercept: (request, response, rpcMethod) => {
        if (rpcMethod === 'initialize') response.setHeader('mcp-session-id', SESSION);
        if (request.method !== 'GET') return false;
        refusals -= 1;
        if (refusals >= 0) response.writeHead(401).end();
        else
          response
            .writeHead(200, { 'content-type': 'text/event-stream' })
            .end(event({ id: asked, ...answer }, 'event-2'));
        return true;
      },
    });
  });
  afterEach(async () => server.close());
  const seen = (): string[] => server.seen.map(({ rpcMethod, httpMethod }) => rpcMethod ?? httpMethod);
  /** Every authorization, as it came. */
  const heard = (): string[] => server.seen.map(({ headers }) => headers.authorization ?? '');
  const sent = (): string[] => seen().filter((what) => what === 'tools/call' || what === 'resources/read');

  /** A worker of the zone, which reads what results link to, or does not. */
  async function worker(resourceLinks: 'read' | 'keep' = 'read') {
    const readMessage = async (): Promise<Message> => ({
      role: 'tool',
      results: [
        {
          callId: 't1.c9',
          providerCallId: 'p',
          name: bench.input({}, {}, 'dig').name,
          outcome: { kind: 'succeeded', result: { content: [{ type: 'resource_link', uri: URI, name: 'one' }] } },
        },
      ],
    });
    const mint = async (request: TokenRequest) => {
      wanted.push(request);
      const accessToken = `token-of-${randomBytes(12).toString('hex')}`;
      return { accessToken, evidence: { strategy: 'none' as const }, secrets: [accessToken] };
    };
    const bench = await toolBench(server.url, {
      definitions: [aDefinition({ name: 'dig', taskSupport: 'required' }), READ_RESOURCE_TOOL],
      servers: { files: { url: server.url, resourceLinks } },
      broker: { mint },
      seal: SEAL,
      readMessage,
    });
    return bench;
  }
  const leftBehind = async (tool: string, over: Partial<DispatchInput> = {}): Promise<ResumeInput> => {
    const bench = await worker();
    return await leftBy(bench, bench.input({}, { resumable: true, tasks: true, ...over }, tool));
  };
  const resumed = async (input: ResumeInput, resourceLinks?: 'keep'): Promise<DispatchResult> =>
    await inActivity((await worker(resourceLinks)).resumeCall, input);
  /** Asks once what became of the task that was begun. */
  async function polled(input: ResumeInput, begun: DispatchResult, more: { grants?: [typeof GRANT] } = {}) {
    if (begun.kind !== 'task') throw new Error(JSON.stringify(begun));
    const { run, callId, attempt, name, target, server: of, toolset, limits } = input;
    const question_ = { run, callId, attempt, name, target, server: of, toolset, limits, ...more };
    return await inActivity((await worker()).pollTask, { ...question_, sealed: begun.task.sealed });
  }

  test('a task that the lost worker did not hear of is waited for by the run: its session stays, and a poll finds it (INV-S1: and scrubs the tokens of all three)', async () => {
    const input = await leftBehind('dig');
    answer = { result: { task: { ...WORKING.result.task, ttl: 600_000, pollInterval: 7, ...TIMES } } };
    const begun = await resumed(input);
    expect(begun).toMatchObject({ kind: 'task', task: { pollMs: 7 }, token: { strategy: 'none' } });
    for (const id of [TASK, SESSION]) expect(JSON.stringify(begun)).not.toContain(id);
    expect(seen()).not.toContain('DELETE');
    const text = expect.stringMatching(/^dug in \[redacted\] by (Bearer \[redacted\]( and )?){3}$/);
    expect(await polled(input, begun)).toMatchObject({
      outcome: { kind: 'succeeded', result: { content: [{ text }] } },
    });
    expect(sent()).toEqual(['tools/call']);
    // With its task the session is over.
    expect(seen().at(-1)).toBe('DELETE');
  });

  test('a token that is refused: a fresh one, once, in the same session (RFC 6750 §3.1)', async () => {
    const input = await leftBehind('dig');
    answer = { result: { content: [{ type: 'text', text: 'dug' }] } };
    refusals = 1;
    expect(await resumed(input)).toMatchObject({ outcome: { kind: 'succeeded' } });
    expect(seen().slice(-3)).toEqual(['GET', 'GET', 'DELETE']);
    const [refused, taken, ended] = heard().slice(-3);
    expect(refused).toBe(`Bearer ${wanted.at(-1)?.refused}`);
    expect(taken).not.toBe(refused);
    expect(ended).toBe(taken);
    const again = await leftBehind('dig');
    refusals = 2;
    expect(await resumed(again)).toMatchObject({
      outcome: { kind: 'unknown', message: expect.stringContaining('does not accept the token') },
    });
    expect(seen().slice(-2)).toEqual(['GET', 'GET']);
  });

  test('a task that was found so is asked about with the grant and the scopes of its call (INV-S2)', async () => {
    const left = await consentedTo(['dig:deep'], await leftBehind('dig', { grant: GRANT }));
    answer = WORKING;
    await polled(left, await resumed(left), { grants: [GRANT] });
    expect(wanted.slice(1).map(({ grant, consented }) => ({ grant, consented }))).toEqual(
      [1, 2].map(() => ({ grant: GRANT, consented: ['dig:deep'] })),
    );
  });

  test('a run that cannot wait for tasks takes the same answer for none', async () => {
    const { tasks: _, ...input } = await leftBehind('dig');
    answer = WORKING;
    expect(await resumed(input)).toMatchObject({ kind: 'ended' });
    expect(seen()).toContain('DELETE');
  });

  const readBehind = async () => await leftBehind('resources:read', { arguments: { uri: URI }, link: { at: 2 } });

  test('what a linked resource holds is read once, and brought by the next worker', async () => {
    const input = await readBehind();
    answer = { result: { contents: [{ uri: URI, mimeType: 'text/plain', text: `kept in ${SESSION}` }] } };
    const result = await resumed(input);
    expect(result).toMatchObject({ kind: 'ended', outcome: { kind: 'succeeded' } });
    expect(JSON.stringify(result)).toContain('kept in [redacted]');
    expect(sent()).toEqual(['resources/read']);
  });

  test('that there is no such resource is no doubt about what has happened', async () => {
    const input = await readBehind();
    answer = { error: { code: -32_002, message: 'Resource not found' } };
    expect(await resumed(input)).toMatchObject({
      kind: 'ended',
      outcome: { kind: 'failed', code: 'RESOURCE_UNKNOWN', executed: false },
    });
  });

  test('where reading was taken back meanwhile the server is not asked for it', async () => {
    const input = await readBehind();
    const before = seen().length;
    expect(await resumed(input, 'keep')).toMatchObject({
      kind: 'ended',
      outcome: { kind: 'unknown', code: 'OUTCOME_UNKNOWN', message: expect.stringContaining('resourceLinks') },
    });
    expect(seen()).toHaveLength(before);
  });
});

describe('the time that a call has left, whose clock stood still while people were asked', () => {
  const SEALED = { protected: '', iv: '', ciphertext: '', tag: '' };
  const NOTED = event({ method: 'notifications/message', params: { level: 'info', data: 1 } }, 'e-1');
  let server: RawServer;
  afterEach(async () => server.close());

  /** A call at a server that streams; what it leaves behind is noted. */
  async function calling(onCall: (exchange: CallExchange) => void, people?: () => Promise<typeof YES>) {
    server = await startRawServer({ era: 'legacy', sessions: true, onCall });
    const points: ResumePoint[] = [];
    const seal = async (point: ResumePoint) => (points.push(point), await Promise.resolve(SEALED));
    const ending = toolServer().call(aConnection({ url: server.url }), aCall({ seal, ...defined({ people }) }));
    return { points, ending };
  }

  test('what is left behind says for how long the time of the call stood still, anew where people have answered', async () => {
    const exchange = later<CallExchange>();
    const [asked, thought] = [later<undefined>(), later<undefined>()];
    const { points, ending } = await calling(
      (each) => {
        each.stream(NOTED);
        each.response.write(question(1));
        exchange.resolve(each);
      },
      async () => (asked.resolve(undefined), await thought.promise, YES),
    );
    const before = await until(() => points[0], { what: 'what is left behind before it' });
    await asked.promise;
    // By the clock of the test, which began later than that of the call.
    const began = performance.now();
    await until(() => performance.now() - began >= 200 || undefined, { what: 'that people have thought' });
    thought.resolve(undefined);
    const after = await until(() => points[1], { what: 'what is left behind after it' });
    const { response, answerWith } = await exchange.promise;
    response.end(`data: ${answerWith({ content: [] })}\n\n`);
    expect(await ending).toMatchObject({ kind: 'executed' });
    expect(points).toHaveLength(2);
    expect(after).toEqual({ ...before, heldMs: expect.any(Number) });
    expect((after.heldMs ?? 0) - (before.heldMs ?? 0)).toBeGreaterThanOrEqual(200);
  });

  test('a call in which nobody was asked leaves what it always left', async () => {
    const exchange = later<CallExchange>();
    const { points, ending } = await calling((each) => {
      each.stream(NOTED);
      exchange.resolve(each);
    });
    const { response, answerWith } = await exchange.promise;
    const point = await until(() => points[0], { what: 'what is left behind' });
    response.end(`data: ${answerWith({ content: [] })}\n\n`);
    await ending;
    expect(Object.keys(point).toSorted()).toEqual(['eventId', 'protocolVersion', 'requestId', 'sentAt', 'sessionId']);
  });

  const MINUTE_MS = 60_000;

  test.each<[string, number | undefined, number]>([
    ['nobody was asked', undefined, 15_000],
    ['people thought for most of it', 9.5 * MINUTE_MS, 30_000],
    ['people thought for all of it', 10 * MINUTE_MS, MINUTE_MS],
    ['the clocks of two workers differ', 20 * MINUTE_MS, MINUTE_MS],
  ])(
    'of a minute that began ten minutes ago, %s: whoever asks for the answer has what is left',
    async (_, heldMs, leftMs) => {
      const asked: number[] = [];
      const answers: ToolBenchOptions['answers'] = {
        resume: async (_connection, { timeoutMs }) => {
          asked.push(timeoutMs);
          return await Promise.resolve({ kind: 'unknown', code: 'OUTCOME_UNKNOWN', message: 'none' });
        },
      };
      const bench = await toolBench('https://files.example/mcp', { answers, seal: SEAL });
      const limits = { resultBytes: 65_536, callTimeoutSeconds: 60 };
      const input = bench.input({}, { resumable: true, limits });
      const sentAt = new Date(Date.now() - 10 * MINUTE_MS).toISOString();
      const point = { sessionId: 's', protocolVersion: '2025-11-25', requestId: 1, eventId: 'e-1', sentAt };
      const left = { point: { ...point, ...defined({ heldMs }) }, authority: { shown: [] } };
      const resume = await sealPoint(input, left, SEAL);
      await inActivity(bench.resumeCall, { ...input, resume });
      expect(asked).toHaveLength(1);
      // What the test itself takes is gone from it.
      expect(Math.abs((asked[0] ?? 0) - leftMs)).toBeLessThan(10_000);
    },
  );
});
