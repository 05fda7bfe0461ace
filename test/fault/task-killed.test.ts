/**
 * A worker process is killed (SIGKILL) while a server works on a call as a task, and another one is started: it asks
 * where the other left off, and nothing is begun again (INV-X1, INV-D3; ADR 0041).
 */
import { expect, jest, test } from '@jest/globals';
import { startFaultWorld } from '../support/faults/world.ts';
import { formsOf, taskOf } from '../support/scenes/tasks.ts';
import { startTaskServer } from '../support/servers/task-server.ts';
import { zoneKey } from '../support/signing/keys.ts';
import { until } from '../support/until.ts';
import { factsOf, outcomes, replayOwn } from '../support/world/run-record.ts';
import { during } from '../support/world/during.ts';

const RECOVERY_MS = 180_000;
jest.setTimeout(RECOVERY_MS);

const server = during(() => startTaskServer());
const world = during(async () => {
  const zone = await zoneKey();
  return await startFaultWorld({
    config: {
      servers: { mine: { url: server.url, credentials: { kind: 'none' }, tasks: { seconds: 600 } } },
      policy: { servers: { mine: { tools: { dig: 'allow' } } } },
      grants: { keys: [{ kid: zone.kid, privateKeyFile: 'zone.pem' }] },
      models: {
        digger: { provider: 'scripted', script: { steps: [{ calls: [{ tool: 'mine/dig' }] }, { text: 'Done.' }] } },
      },
    },
    files: { 'zone.pem': zone.pem },
  });
});

test.each(['between two questions', 'in the middle of a question'])('killed %s', async (when) => {
  const inTheMiddle = when === 'in the middle of a question';
  let isDone = false;
  let isHeld = false;
  server.become({
    get: () => ({ status: isDone ? 'completed' : 'working' }),
    // Never answered: whoever has asked is killed.
    intercept: (method) => inTheMiddle && method === 'tasks/get' && !isDone && (isHeld = true),
  });
  const before = server.calls.length;
  const worker = await world.startWorker();
  const run = await world.start('digger');
  await (inTheMiddle
    ? until(() => isHeld, { what: 'a question', withinMs: RECOVERY_MS })
    : taskOf(run, ({ polls }) => polls > 0));
  await worker.kill();
  isDone = true;
  const next = await world.startWorker();
  expect(await run.result()).toMatchObject({ status: 'completed' });
  expect(server.calls.length - before).toBe(1);
  expect(await outcomes(run)).toEqual({ 't1.c0': 'succeeded' });
  expect(factsOf(await run.ledger(), 'dispatched')).toHaveLength(1);
  const { id, session } = server.tasks.at(-1) ?? { id: '', session: '' };
  expect(id).not.toBe('');
  for (const form of [...formsOf(id), ...formsOf(session)])
    expect(`${worker.output()}${next.output()}`).not.toContain(form);
  await replayOwn(world, run.runId);
  await next.kill();
});
