/** A run that fails says why with a code, keeps its ledger, and is never repeated. */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { WorkflowOptions } from '@temporalio/client';
import { ApplicationFailure } from '@temporalio/common';
import { NativeConnection, Worker } from '@temporalio/worker';
import { refusalOf, storedLedger } from '../support/run-record.ts';
import { until } from '../support/until.ts';
import { startWorld, type World } from '../support/world.ts';

/** Its one server's queue is served by a worker of another make. */
let world: World;

beforeAll(async () => {
  const odd = { url: 'http://127.0.0.1:9/mcp', taskQueue: 'odd', credentials: { kind: 'none' } } as const;
  world = await startWorld({ role: 'runs', config: { servers: { odd } } });
});
afterAll(async () => world.stop());

const END = { text: 'done' };

/** A worker of another make on a server's queue, whose `discoverTools` fails like this. */
async function failing(failure: ApplicationFailure, run: () => Promise<void>): Promise<void> {
  const connection = await NativeConnection.connect({ address: world.engine.server.address });
  const other = await Worker.create({
    connection,
    taskQueue: 'odd',
    activities: { discoverTools: () => Promise.reject(failure) },
  });
  await other.runUntil(run);
  await connection.close();
}

test('one without a code ends the run as INTERNAL, with its ledger stored', async () => {
  await failing(ApplicationFailure.nonRetryable('something of theirs', 'TheirError'), async () => {
    const run = await world.start([END]);
    expect(await refusalOf(run.result())).toMatchObject({
      code: 'INTERNAL',
      message: expect.stringContaining('discoverTools'),
    });
    const ledger = await run.ledger();
    expect(ledger.at(-1)?.fact).toMatchObject({ kind: 'run.ended', status: 'failed', code: 'INTERNAL' });
    expect(await storedLedger(world, run)).toEqual(ledger);
  });
});

test('a run is never repeated by Temporal, whatever retry policy or schedule its starter gave it (INV-X1)', async () => {
  const down = ApplicationFailure.create({ message: 'down', type: 'DISCOVERY_FAILED', nonRetryable: true });
  const start = async (workflowId: string, options: Partial<WorkflowOptions>) => {
    const taskQueue = world.config.taskQueue;
    return await world.client.workflow.start('agentRun', {
      workflowId,
      taskQueue,
      args: [world.spec([END])],
      ...options,
    });
  };
  await failing(down, async () => {
    const retried = await start('retried', { retry: { maximumAttempts: 3, initialInterval: 1 } });
    // In the run's own list such a code may pass; a run as a whole is over.
    await expect(retried.result()).rejects.toMatchObject({ cause: { type: 'DISCOVERY_FAILED', nonRetryable: true } });
    expect((await retried.describe()).runId).toBe(retried.firstExecutionRunId);

    const { firstExecutionRunId } = await start('scheduled', { cronSchedule: '@every 1s' });
    const refused = async () => {
      const { events } = await world.client.workflow.getHandle('scheduled', firstExecutionRunId).fetchHistory();
      const failure = events?.at(-1)?.workflowExecutionFailedEventAttributes?.failure;
      return failure?.applicationFailureInfo?.type === 'SPEC_INVALID' ? true : undefined;
    };
    await until(refused, { what: 'the refusal of a schedule' });
    await world.client.workflow.getHandle('scheduled').terminate();
  });
});
