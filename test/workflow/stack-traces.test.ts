/** Temporal's query for the stack of a run tells where it waits only at workers that keep stack traces (docs/adr/0061). */
import { expect, test } from '@jest/globals';
import { withStackTraces } from '../../workers/bundle.ts';
import { startRecordingServer } from '../support/servers/recording-server.ts';
import { openRequests, startWorld } from '../support/world/world.ts';

const END = { text: 'done' };

test('the query for the stack of a run', async () => {
  const bank = await startRecordingServer({ tools: [{ name: 'pay', inputSchema: { type: 'object' } }] });
  const world = await startWorld({
    config: {
      policy: { approvers: { ids: ['bob'] } },
      servers: { bank: { url: bank.url, credentials: { kind: 'none' } } },
    },
    beside: [bank],
  });
  const stackOf = async (runId: string): Promise<string> =>
    await world.client.workflow.getHandle(runId).query<string>('__stack_trace');
  try {
    const quiet = await world.start([{ calls: [{ tool: 'bank/pay', arguments: {} }] }, END]);
    await openRequests(quiet);
    await expect(stackOf(quiet.runId)).rejects.toThrow('Workflow stack traces are not enabled on this worker');
    world.config.worker.stackTraces = true;
    await world.restartWorkers();
    const told = await world.start([{ calls: [{ tool: 'bank/pay', arguments: {} }] }, END]);
    await openRequests(told);
    expect(await stackOf(told.runId)).toMatch(/^ +at /m);
  } finally {
    await world.stop();
  }
});

test('the places of a bundle that keeps stack traces stay on their lines', () => {
  expect(withStackTraces('first\nsecond').split('\n')).toHaveLength(2);
});
