/** Trust mode `signed` against somebody without a key who makes a call seem lost, or not made (INV-X1, docs/adr/0047). */
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { ACTIVITIES } from '../../contracts/names.ts';
import { startWorkers, type Workers } from '../../workers/worker.ts';
import { startEngine, type TestEngine } from '../support/engine.ts';
import { Impostor, payloadOf, timesScheduled, valueOf } from '../support/forgery/impostor.ts';
import { keepZoneKey } from '../support/signing/keys.ts';
import { failUnderWay } from '../support/scenes/lost-answers.ts';
import { type RecordingServer, startRecordingServer } from '../support/servers/recording-server.ts';
import { type ResumableServer, startResumableServer } from '../support/servers/resumable-server.ts';
import { outcomes } from '../support/world/run-record.ts';
import { service, writeTrust } from '../support/signing/people.ts';
import { until } from '../support/until.ts';
import { decisionOn, openRequests, startWorld, type World } from '../support/world/world.ts';

let engine: TestEngine;
let bank: RecordingServer;
let kept: ResumableServer;
let world: World;
let tools: Workers;

const backend = service('backend', ['ops']);
const initiator = { id: 'acme|ann' };
const END = { text: 'done' };
const call = (tool: string, purpose: string) => ({ tool, arguments: { purpose } });

beforeAll(async () => {
  engine = await startEngine();
  bank = await startRecordingServer();
  kept = await startResumableServer();
  await writeTrust(join(engine.directory, 'trust.jwks'), backend);
  const { grants } = await keepZoneKey(engine.directory);
  const at = { url: bank.url, credentials: { kind: 'none' }, taskQueue: 'tools' } as const;
  world = await startWorld({
    engine,
    role: 'runs',
    client: { signer: backend.signer },
    config: {
      policy: { approvers: { ids: ['acme|ann'] }, servers: { open: { default: 'allow' }, kept: { default: 'allow' } } },
      servers: { bank: at, open: at, kept: { ...at, url: kept.url } },
      grants,
      trust: { mode: 'signed', jwks: 'trust.jwks' },
    },
  });
  await serveTools();
});
afterAll(async () => {
  await tools.stop();
  await world.stop();
  await Promise.all([bank.close(), kept.close()]);
  await engine.stop();
});

async function serveTools(): Promise<void> {
  const { address, namespace } = engine.server;
  const loaded = { config: world.config, baseDirectory: engine.directory, path: undefined };
  tools = await startWorkers({ loaded, connectionOptions: { address }, namespace, role: 'tools' });
}

test('a call that is failed so that Temporal would try it again, and withdrawn then, may have run', async () => {
  const run = await world.start([{ calls: [call('open/slow', 'withdrawn')] }, END], { initiator });
  await bank.held('withdrawn');
  await failUnderWay(world, run, 600_000);
  await run.stop({ by: 'acme|ann', reason: 'enough', inFlight: 'cancel' });
  expect((await run.result()).status).toBe('stopped');
  expect(await outcomes(run)).toEqual({ 't1.c0': 'unknown' });
  bank.release('withdrawn');
});

test('a call that is lost with the last heartbeat of another one, which was genuine, gets no answer by it', async () => {
  const impostor = new Impostor(world);
  const other = await world.start([{ calls: [call('kept/slow', 'other')] }, END], { initiator });
  await kept.held('other');
  await kept.progress('other', 1);
  const heartbeat = await until(
    async () => {
      const { raw } = await world.client.workflow.getHandle(other.runId).describe();
      const details = raw.pendingActivities?.[0]?.heartbeatDetails;
      return 'resume' in (valueOf<object | null>(details?.payloads?.[0] ?? payloadOf({})) ?? {}) ? details : undefined;
    },
    { what: 'where its answer comes' },
  );
  kept.release('other');
  await other.result();
  const steps = [{ calls: [call('bank/pay', 'first')] }, { calls: [call('kept/slow', 'replayed')] }, END];
  const run = await world.start(steps, { initiator });
  const [request] = await openRequests(run);
  if (request === undefined) throw new Error('no request');
  await tools.stop();
  await run.decide(decisionOn(request, 'acme|ann', 'reject'));
  const task = await impostor.take('tools');
  const before = kept.requests.length;
  const timeoutFailureInfo = { timeoutType: 4, lastHeartbeatDetails: heartbeat };
  await impostor.fail(task, { message: 'lost', timeoutFailureInfo });
  await serveTools();
  const [asked] = await openRequests(run);
  expect(asked?.about).toMatchObject({ kind: 'outcome', message: expect.stringContaining('does not open') });
  expect(await timesScheduled(world, run, ACTIVITIES.resumeCall)).toBe(1);
  expect(kept.requests).toHaveLength(before);
  await run.stop({ by: 'acme|ann', reason: 'enough' });
  expect((await run.result()).status).toBe('stopped');
});
