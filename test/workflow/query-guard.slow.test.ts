/**
 * Which direct queries a worker refuses in a service where nothing is wrong (docs/adr/0044): none of a run that it has had from its first
 * task on, whatever came in one task; and once, behind the task for which it rebuilt a run.
 */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { isRefusedQuery } from '../../contracts/failure.ts';
import type { RunHandle } from '../../client/index.ts';
import { answered } from '../support/models/bench.ts';
import { chatDialect } from '../support/models/chat.ts';
import { type ModelProvider, startModelProvider } from '../support/models/provider.ts';
import { type RecordingServer, startRecordingServer } from '../support/servers/recording-server.ts';
import { plainClient } from '../support/engine.ts';
import { resetRun } from '../support/world/reset.ts';
import { executions } from '../support/world/run-record.ts';
import { until } from '../support/until.ts';
import { decisionOn, openRequests, startWorld, type World } from '../support/world/world.ts';

let server: RecordingServer;
let provider: ModelProvider;
let world: World;

beforeAll(async () => {
  [server, provider] = await Promise.all([startRecordingServer(), startModelProvider(chatDialect.schema)]);
  world = await startWorld({
    config: {
      servers: { office: { url: server.url, credentials: { kind: 'none' } } },
      policy: { approvers: { ids: ['bob'] } },
      models: {
        remote: {
          provider: 'openai-compatible',
          model: chatDialect.model,
          baseUrl: provider.baseUrl,
          maxOutputTokens: 256,
          timeoutSeconds: 60,
        },
      },
    },
  });
});
afterAll(async () => {
  await world?.stop();
  await Promise.all([server?.close(), provider?.close()]);
});

const PAYING = [{ calls: [{ tool: 'office/pay' }] }, { text: 'Done.' }];

/** As Temporal UI asks: alone, and once. @returns names of those that were refused */
async function refusedOf(run: RunHandle, ...names: readonly string[]): Promise<string[]> {
  const handle = plainClient(world.client).workflow.getHandle(run.runId);
  await until(async () => ((await handle.describe()).raw.pendingWorkflowTask ? undefined : true), { what: 'rest' });
  const refused: string[] = [];
  for (const name of names)
    await handle.query(name).catch((error: unknown) => {
      if (!isRefusedQuery(error)) throw error;
      refused.push(name);
    });
  return refused;
}

/** No task has failed, in any execution. */
async function expectNoFailure(run: RunHandle): Promise<void> {
  const failed = (await executions(world, run.runId)).flatMap(({ events }) =>
    events.flatMap(({ workflowTaskFailedEventAttributes: task }) => (task && !task.newRunId ? [task.failure] : [])),
  );
  expect(failed).toEqual([]);
}

test('a run in memory: asked, decided, told by signal and update at once, and ended', async () => {
  const run = await world.start(PAYING);
  const [request] = await openRequests(run);
  if (request === undefined) throw new Error('there is no request');
  expect(await refusedOf(run, 'requests', 'state')).toEqual([]);
  const handle = world.client.workflow.getHandle(run.runId);
  const unfit = { ...decisionOn(request, 'bob'), digest: '0'.repeat(64) };
  await Promise.all([handle.signal('decide', unfit), run.advance(), run.decide(decisionOn(request, 'bob'))]);
  await run.result();
  expect(await refusedOf(run, 'ledger', 'state')).toEqual([]);
  await expectNoFailure(run);
});

test('a run in memory that cancels what it has under way, in the task in which it is told to', async () => {
  provider.enqueue(answered([], 'hang'));
  const run = await world.start(PAYING, { agent: { name: 'clerk', model: 'remote' } });
  await provider.hanging();
  await run.stop({ by: 'ann', reason: 'no longer wanted', inFlight: 'cancel' });
  expect(await refusedOf(run, 'state')).toEqual([]);
  await run.result();
  expect(await refusedOf(run, 'state')).toEqual([]);
  await expectNoFailure(run);
});

test('the first one behind the task for which a worker rebuilt a run, whoever asks; the next is answered, and the library sees neither', async () => {
  const run = await world.start(PAYING);
  await openRequests(run);
  await world.restartWorkers();
  await run.advance();
  expect(await refusedOf(run, '__temporal_workflow_metadata', '__stack_trace', 'state')).toEqual([
    '__temporal_workflow_metadata',
  ]);
  await world.restartWorkers();
  await run.advance();
  expect(await run.requests()).toHaveLength(1);
  await run.stop({ by: 'ann', reason: 'seen', inFlight: 'finish' });
  await run.result();
  await expectNoFailure(run);
});

test('a run that was reset goes on, and is asked', async () => {
  const run = await world.start(PAYING);
  await openRequests(run);
  await resetRun(world.client, { workflowId: run.runId });
  const [request] = await openRequests(run);
  if (request === undefined) throw new Error('there is no request');
  await run.decide(decisionOn(request, 'bob'));
  await run.result();
  await expectNoFailure(run);
});
