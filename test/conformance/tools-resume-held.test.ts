/**
 * The time that a call has left once people were asked in the middle of it and its worker is lost: its clock stood still meanwhile
 * (ADR 0039, 0040).
 */
import { randomBytes } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { afterEach, expect, test } from '@jest/globals';
import { createMemoryStore } from '../../activities/artifacts/memory.ts';
import { createToolsetLoader } from '../../activities/catalog/reader.ts';
import { Conditions } from '../../activities/policy/condition.ts';
import { pinnedTools, stored } from '../../activities/gate/discover-tools.ts';
import { LEGACY_CALLS } from '../../activities/mcp/legacy-2025/legacy-calls.ts';
import { createMcpToolServer } from '../../activities/mcp/mcp-server.ts';
import type { ResumePoint } from '../../activities/mcp/port.ts';
import { createResumeCall } from '../../activities/gate/legacy-2025/resume-call.ts';
import { sealFor } from '../../activities/gate/legacy-2025/seals.ts';
import { createStateSeal } from '../../activities/mcp/state-seal.ts';
import { defined } from '../../contracts/defined.ts';
import { Config } from '../../contracts/schemas/config.ts';
import { event, question, YES } from '../support/servers/asking-server.ts';
import { loopbackEgress } from '../support/egress.ts';
import { aCall, aConnection, aDefinition } from '../support/activities/tool-call.ts';
import { type CallExchange, type RawServer, startRawServer } from '../support/servers/raw-server.ts';
import { allowedDispatch, inActivity } from '../support/activities/tool-activities.ts';
import { until } from '../support/until.ts';

let server: RawServer | undefined;
afterEach(async () => {
  await server?.close();
  server = undefined;
});

const SEALED = { protected: '', iv: '', ciphertext: '', tag: '' };

test('what is left behind says for how long the time of the call stood still, anew where people have answered', async () => {
  let exchange: CallExchange | undefined;
  server = await startRawServer({
    era: 'legacy',
    sessions: true,
    onCall: (each) => {
      each.stream(`${event({ method: 'notifications/message', params: { level: 'info', data: 1 } }, 'e-1')}`);
      each.response.write(question(1));
      exchange = each;
    },
  });
  const points: ResumePoint[] = [];
  const calling = createMcpToolServer({
    legacy: LEGACY_CALLS,
    artifacts: createMemoryStore(),
    egress: loopbackEgress(),
  }).call(
    aConnection({ url: server.url }),
    aCall({
      people: async () => {
        await until(() => points[0], { what: 'what is left behind before it' });
        await pause(200);
        return YES;
      },
      seal: async (point) => {
        points.push(point);
        return await Promise.resolve(SEALED);
      },
    }),
  );
  await until(() => points[1], { what: 'what is left behind after it' });
  exchange?.response.end(`data: ${exchange.answerWith({ content: [] })}\n\n`);
  expect(await calling).toMatchObject({ kind: 'executed' });
  const [before, after, ...others] = points;
  expect(others).toEqual([]);
  expect(before?.heldMs ?? 0).toBeLessThan(200);
  expect(after).toEqual({ ...before, heldMs: expect.any(Number) });
  expect(after?.heldMs).toBeGreaterThanOrEqual(200);
});

test('a call in which nobody was asked leaves what it always left', async () => {
  server = await startRawServer({
    era: 'legacy',
    sessions: true,
    onCall: (each) => {
      each.stream(event({ method: 'notifications/message', params: { level: 'info', data: 1 } }, 'e-1'));
      setTimeout(() => each.response.end(`data: ${each.answerWith({ content: [] })}\n\n`), 50);
    },
  });
  const points: ResumePoint[] = [];
  const seal = async (point: ResumePoint) => {
    points.push(point);
    return await Promise.resolve(SEALED);
  };
  await createMcpToolServer({ legacy: LEGACY_CALLS, artifacts: createMemoryStore(), egress: loopbackEgress() }).call(
    aConnection({ url: server.url }),
    aCall({ seal }),
  );
  expect(Object.keys(points[0] ?? {}).toSorted()).toEqual([
    'eventId',
    'protocolVersion',
    'requestId',
    'sentAt',
    'sessionId',
  ]);
});

const MINUTE_MS = 60_000;
const AT_LEAST_MS = 15_000;

test.each<[string, number | undefined, number, number]>([
  ['nobody was asked', undefined, 10 * MINUTE_MS, AT_LEAST_MS],
  ['people thought for most of it', 9.5 * MINUTE_MS, 10 * MINUTE_MS, 30_000],
  ['people thought for all of it', 10 * MINUTE_MS, 10 * MINUTE_MS, MINUTE_MS],
  ['the clocks of two workers differ', 20 * MINUTE_MS, 10 * MINUTE_MS, MINUTE_MS],
])('of a minute, %s: whoever asks for the answer has what is left', async (_, heldMs, agoMs, leftMs) => {
  const artifacts = createMemoryStore();
  const loadToolset = createToolsetLoader(artifacts);
  const binding = { name: 'files', url: 'https://files.example/mcp' };
  const toolset = [{ server: 'files', tools: await stored(artifacts, pinnedTools(binding, [aDefinition()])) }];
  const [tool] = await loadToolset(toolset);
  if (tool === undefined) throw new Error('no tool');
  const seal = createStateSeal(new Map([['zone', randomBytes(32)]]));
  const dispatched = allowedDispatch(tool, {}, toolset, { server: binding, callTimeoutSeconds: 60 });
  const input = { ...dispatched, resumable: true as const };
  const point: ResumePoint = {
    sessionId: 's',
    protocolVersion: '2025-11-25',
    requestId: 1,
    eventId: 'e-1',
    sentAt: new Date(Date.now() - agoMs).toISOString(),
    ...defined({ heldMs }),
  };
  const resume = await sealFor(input, seal, () => ({ shown: [] })).seal?.(point);
  if (resume === undefined) throw new Error('nothing is left behind');
  const asked: number[] = [];
  const resumeCall = createResumeCall({
    config: Config.parse({ servers: { files: { url: binding.url } }, policy: { strategy: 'never' } }),
    conditions: new Conditions(),
    loadToolset,
    readCatalog: async () => undefined,
    broker: { mint: async () => ({ evidence: { strategy: 'none' }, secrets: [] }) },
    seal,
    answers: {
      resume: async (_connection, { timeoutMs }) => {
        asked.push(timeoutMs);
        return await Promise.resolve({ kind: 'unknown', code: 'OUTCOME_UNKNOWN', message: 'none' });
      },
    },
  });
  await inActivity(resumeCall, { ...input, resume });
  expect(asked).toHaveLength(1);
  expect(Math.abs((asked[0] ?? 0) - leftMs)).toBeLessThan(3_000);
});
