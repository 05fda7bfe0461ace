/** Trust mode `signed`: workflows that are none of ours get nothing called, whatever genuine inputs they repeat (INV-G1, F22, §3.5). */
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { NativeConnection, Worker } from '@temporalio/worker';
import type { DispatchInput } from '../../contracts/wire/tools.ts';
import { codedFailureIn } from '../../contracts/failure.ts';
import { ACTIVITIES } from '../../contracts/names.ts';
import { bundleWorkflows, createTracing } from '../../workers/bundle.ts';
import { startEngine, type TestEngine } from '../support/engine.ts';
import { type RecordingServer, startRecordingServer } from '../support/servers/recording-server.ts';
import { replayOwn, scheduledInputs } from '../support/world/run-record.ts';
import { service, writeTrust } from '../support/signing/people.ts';
import { decisionOn, openRequests, startWorld, type World } from '../support/world/world.ts';

let engine: TestEngine;
let bank: RecordingServer;
let world: World;
let forger: { stop(): Promise<void> };
let asked: DispatchInput;
let allowed: DispatchInput;
let listed: Readonly<Record<string, unknown>>;

const backend = service('backend');

beforeAll(async () => {
  engine = await startEngine();
  bank = await startRecordingServer();
  await writeTrust(join(engine.directory, 'trust.jwks'), backend);
  const at = { url: bank.url, credentials: { kind: 'none' } } as const;
  world = await startWorld({
    engine,
    client: { signer: backend.signer },
    config: {
      policy: { servers: { open: { default: 'allow' } } },
      servers: { bank: at, open: at },
      trust: { mode: 'signed', jwks: 'trust.jwks' },
    },
  });
  asked = await genuine('bank');
  allowed = await genuine('open');
  listed = (await scheduledInputs(world, asked.run.workflowId)).get(ACTIVITIES.discoverTools) ?? {};
  // Before their ids are taken by workflows that are none of ours.
  await replayOwn(world);
  forger = await startForger();
});
afterAll(async () => {
  await forger.stop();
  await world.stop();
  await bank.close();
  await engine.stop();
});

/** The dispatch of a call that was made, as it stands in history. */
async function genuine(server: 'bank' | 'open'): Promise<DispatchInput> {
  const initiator = { id: 'acme|ann' };
  const run = await world.start(
    [{ calls: [{ tool: `${server}/pay`, arguments: { purpose: server } }] }, { text: 'done' }],
    {
      initiator,
    },
  );
  if (server === 'bank') {
    const [request] = await openRequests(run);
    if (request === undefined) throw new Error('no request');
    await run.decide(decisionOn(request, 'acme|ann'));
  }
  await run.result();
  expect(bank.callsFor(server)).toHaveLength(1);
  // Sound: recorded by our own workflow.
  return (await scheduledInputs(world, run.runId)).get(ACTIVITIES.callTool) as unknown as DispatchInput;
}

async function startForger() {
  const connection = await NativeConnection.connect({ address: engine.server.address });
  const { code } = await bundleWorkflows(
    fileURLToPath(new URL('../support/forgery/forged-workflows.ts', import.meta.url)),
  );
  const plugins = [createTracing('off')];
  const worker = await Worker.create({ connection, taskQueue: 'forged', workflowBundle: { code }, plugins });
  const running = worker.run();
  return {
    stop: async () => {
      worker.shutdown();
      await running;
      await connection.close();
    },
  };
}

/** Under the id of the genuine run, which is over, so that its signature fits. */
async function forged(
  input: DispatchInput,
  activity: string = ACTIVITIES.callTool,
  type = 'agentRun',
): Promise<unknown> {
  const args = [world.config.taskQueue, activity, { ...input, runId: '$self' }];
  const { workflowId } = input.run;
  const given = { workflowId, taskQueue: 'forged', args, workflowIdReusePolicy: 'ALLOW_DUPLICATE' } as const;
  return await world.client.workflow.execute(type, given);
}

const without = (input: DispatchInput): DispatchInput => {
  const { signedSpec: _, ...rest } = input;
  return rest;
};

test.each<readonly [string, () => Promise<unknown>, string]>([
  ['a decision that was used', async () => await forged(asked), 'DISPATCH_FORBIDDEN'],
  ['a call that policy allows', async () => await forged(allowed), 'DISPATCH_FORBIDDEN'],
  ['a call without what was signed', async () => await forged(without(allowed)), 'SIGNATURE_MISSING'],
  [
    'another spec',
    async () =>
      await forged({
        ...allowed,
        signedSpec: { ...(allowed.signedSpec ?? asked.signedSpec), ...asked.signedSpec },
      } as DispatchInput),
    'SIGNATURE_INVALID',
  ],
  [
    'a workflow of another type',
    async () => await forged(allowed, ACTIVITIES.callTool, 'somethingElse'),
    'DISPATCH_FORBIDDEN',
  ],
])('%s, scheduled by a workflow of somebody else, is not made', async (_what, forge, code) => {
  const before = bank.calls.length;
  expect(await forge()).toMatchObject({ kind: 'refused', code });
  expect(bank.calls).toHaveLength(before);
});

test('its tools are not listed for it either', async () => {
  const before = bank.methods.length;
  // Sound: recorded by our own workflow.
  const input = listed as unknown as DispatchInput;
  const error: unknown = await forged(input, ACTIVITIES.discoverTools).catch((thrown: unknown) => thrown);
  expect(codedFailureIn(error instanceof Error ? error.cause : error)?.code).toBe('DISPATCH_FORBIDDEN');
  expect(bank.methods).toHaveLength(before);
});
