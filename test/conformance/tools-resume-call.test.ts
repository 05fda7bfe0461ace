/**
 * The activity that asks for the answer to a call whose worker is lost: what it believes of what that worker left, and what must
 * hold before a server is spoken to (INV-G1, INV-X1, INV-S1, INV-S2).
 */
import { randomBytes } from 'node:crypto';
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
import { authorityOf } from '../../activities/discovery/access.ts';
import { openPoint, sealFor } from '../../activities/gate/legacy-2025/seals.ts';
import { createResumeCall } from '../../activities/gate/legacy-2025/resume-call.ts';
import { ServerLimits } from '../../activities/limits/server-limits.ts';
import { createStateSeal } from '../../activities/mcp/state-seal.ts';
import type { DispatchInput, DispatchResult, ResumeInput } from '../../contracts/wire/tools.ts';
import { Config, type ConfigInput } from '../../contracts/schemas/config.ts';
import type { SealedState } from '../../contracts/schemas/input.ts';
import { loopbackEgress } from '../support/egress.ts';
import { aDefinition } from '../support/activities/tool-call.ts';
import { type ResumableServer, startResumableServer } from '../support/servers/resumable-server.ts';
import { allowedDispatch, goingActivity, inActivity } from '../support/activities/tool-activities.ts';
import { until } from '../support/until.ts';

const KEYS = new Map([['zone', randomBytes(32)]]);
const ALLOWED: ConfigInput['policy'] = { strategy: 'never' };

let server: ResumableServer;
let minted: TokenRequest[];
/** A new token with each mint; else none. */
let hasTokens: boolean;
/** What the issuer takes its time for. */
let minting: () => Promise<void>;
beforeEach(async () => {
  server = await startResumableServer();
  minted = [];
  hasTokens = false;
  minting = () => Promise.resolve();
});
afterEach(async () => server.close());

/** A worker of the zone, with this policy and these keys. */
function activities(policy = ALLOWED, keys: ReadonlyMap<string, Uint8Array> = KEYS) {
  const artifacts = createMemoryStore();
  const binding = { name: 'files', url: server.url };
  const loadToolset = createToolsetLoader(artifacts);
  const toolServer = createMcpToolServer({ legacy: LEGACY_CALLS, artifacts, egress: loopbackEgress() });
  const parts = {
    config: Config.parse({ servers: { files: { url: server.url } }, policy }),
    conditions: new Conditions(),
    loadToolset,
    readCatalog: async () => undefined,
    broker: {
      mint: async (request: TokenRequest) => {
        minted.push(request);
        await minting();
        const accessToken = `token-of-mint-${minted.length}`;
        const token = hasTokens ? { accessToken, secrets: [accessToken] } : { secrets: [] };
        return { evidence: { strategy: 'none' }, ...token };
      },
    },
    server: toolServer,
    seal: createStateSeal(keys),
  };
  const limits = new ServerLimits({ configured: new Map(), tell: () => {} });
  return {
    callTool: createCallTool({ ...parts, limits, liveTools: { current: async (_, tool) => ({ tool, secrets: [] }) } }),
    resumeCall: createResumeCall({ ...parts, answers: createMcpAnswerSource({ artifacts, egress: loopbackEgress() }) }),
    inputFor: async (purpose: string, over: Partial<DispatchInput> = {}): Promise<DispatchInput> => {
      const toolset = [
        { server: 'files', tools: await stored(artifacts, pinnedTools(binding, [aDefinition({ name: 'slow' })])) },
      ];
      const [tool] = await loadToolset(toolset);
      if (tool === undefined) throw new Error('no tool');
      return { ...allowedDispatch(tool, { purpose }, toolset, { server: binding }), resumable: true, ...over };
    },
  };
}

/** What a worker leaves that ends in the middle of a call, by the activity's own answer. */
async function leftBehind(purpose: string, over: Partial<DispatchInput> = {}): Promise<ResumeInput> {
  const { callTool, inputFor } = activities();
  const input = await inputFor(purpose, over);
  const going = goingActivity(callTool, input);
  await server.held(purpose);
  await until(() => going.beats.find((beat) => 'resume' in Object(beat)), { what: 'where the answer comes' });
  going.shutDown();
  const result = await going.result;
  if (result.kind !== 'ended' || result.resume === undefined) throw new Error(JSON.stringify(result));
  expect(result.outcome).toMatchObject({ kind: 'unknown', code: 'OUTCOME_UNKNOWN' });
  return { ...input, resume: result.resume };
}

const toServer = (): string[] => server.requests.map(({ http, rpc }) => rpc ?? http);

async function resumed(input: ResumeInput, worker = activities()): Promise<DispatchResult> {
  // What is pinned stands in the store of this worker too.
  await worker.inputFor('any');
  return await inActivity(worker.resumeCall, input);
}

function expectNotAsked(result: DispatchResult, before: number, why: RegExp | string): void {
  expect(result).toMatchObject({ kind: 'ended', outcome: { kind: 'unknown', code: 'OUTCOME_UNKNOWN' } });
  expect(result).toMatchObject({ outcome: { message: expect.stringMatching(why) } });
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
  expect(toServer().filter((what) => what === 'tools/call')).toHaveLength(1);
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
  expect(result).toMatchObject({
    outcome: { kind: 'succeeded', result: { content: [{ text: 'echo is done in [redacted] by Bearer [redacted]' }] } },
  });
  expect(JSON.stringify([input, result])).not.toContain('token-of-mint');
});

const GRANT = { server: 'files', ref: 'ann-files' };

/** What the worker leaves that had people's consent to these scopes. */
async function consentedTo(consented: readonly string[], left: ResumeInput): Promise<ResumeInput> {
  const seal = createStateSeal(KEYS);
  const opened = await openPoint(left, seal);
  if (opened === undefined) throw new Error('it is not for this call');
  const resume = await sealFor(left, seal, () => authorityOf({ grant: GRANT, consented }, [])).seal?.(opened.point);
  return { ...left, resume: resume ?? left.resume };
}

test('it is asked for with the grant and the scopes of the call, no less and no other (INV-S2)', async () => {
  const left = await consentedTo(['slow:deep'], await leftBehind('scoped', { grant: GRANT }));
  server.release('scoped');
  expect(await resumed(left)).toMatchObject({ outcome: { kind: 'succeeded' } });
  expect(minted[1]).toMatchObject({ tool: 'slow', grant: GRANT, consented: ['slow:deep'] });
});

test('a run that has another grant by now asks nobody', async () => {
  const { grant: _, ...left } = await leftBehind('moved', { grant: GRANT });
  const before = server.requests.length;
  for (const input of [left, { ...left, grant: { ...GRANT, ref: 'eve-files' } }])
    expectNotAsked(await resumed(input), before, /grant with which the call was made/);
});

test('however long a token takes, Temporal hears that somebody asks, and where', async () => {
  const input = await leftBehind('patient');
  server.release('patient');
  const { resumeCall, inputFor } = activities();
  await inputFor('any');
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
  const { resumeCall, inputFor } = activities();
  await inputFor('any');
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
  const input = await activities().inputFor('foreign', over(left));
  const before = server.requests.length;
  expectNotAsked(await resumed({ ...input, resume }), before, /does not open for this call/);
});

test.each<[string, (left: SealedState) => SealedState]>([
  [
    'changed',
    (left) => ({ ...left, ciphertext: `${left.ciphertext.startsWith('A') ? 'B' : 'A'}${left.ciphertext.slice(1)}` }),
  ],
  ['of nobody', () => ({ protected: 'x', iv: 'x', ciphertext: 'x', tag: 'x' })],
])('what is %s does not open', async (_, change) => {
  const left = await leftBehind('forged');
  const before = server.requests.length;
  expectNotAsked(await resumed({ ...left, resume: change(left.resume) }), before, /does not open for this call/);
});

test('a worker without the key of the zone asks nobody', async () => {
  const left = await leftBehind('keyless');
  const before = server.requests.length;
  for (const keys of [new Map(), new Map([['zone', randomBytes(32)]])])
    expectNotAsked(await resumed(left, activities(ALLOWED, keys)), before, /does not open for this call/);
});

test.each<[string, ConfigInput['policy'], RegExp]>([
  ['is denied', { servers: { files: { default: 'deny' } } }, /denied|deny/i],
  ['is halted', { halt: { reason: 'An incident.' } }, /halted by the organisation/],
])(
  'a tool that %s by now: its server is not spoken to, not even to learn what has happened (D-5)',
  async (_, policy, why) => {
    const left = await leftBehind('halted');
    const before = server.requests.length;
    expectNotAsked(await resumed(left, activities(policy)), before, why);
  },
);

test('a tool that is asked about by now: what was sent was sent, and its answer is asked for', async () => {
  const left = await leftBehind('asked');
  server.release('asked');
  const result = await resumed(left, activities({ strategy: 'always', approvers: { ids: ['bob'] } }));
  expect(result).toMatchObject({ outcome: { kind: 'succeeded' } });
});

test('another Temporal run than the one that sent it is not told', async () => {
  const left = await leftBehind('reset');
  const before = server.requests.length;
  expectNotAsked(await resumed({ ...left, runId: 'run-0' }), before, /before the run was reset/);
});

test('a run that would not know what to do with it is left nothing', async () => {
  const { callTool, inputFor } = activities();
  const { resumable: _, ...input } = await inputFor('earlier');
  const going = goingActivity(callTool, input);
  await server.held('earlier');
  going.shutDown();
  expect(await going.result).not.toHaveProperty('resume');
  expect(going.beats.filter((beat) => 'resume' in Object(beat))).toEqual([]);
  // So the server is told, as ever.
  await until(() => server.cancelled.includes('earlier') || undefined, { what: 'the cancellation' });
});
