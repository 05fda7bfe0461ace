/** A tool server that is away when a run starts is waited for, visibly, for as long as the run may last (F8, INV-D3). */
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from '@jest/globals';
import type { RunHandle } from '../../client/index.ts';
import type { RunSpecInput } from '../../contracts/schemas/run-spec.ts';
import { type RawServer, type RawServerScript, startRawServer } from '../support/mcp-raw-server.ts';
import { detailsOf, factsOf, outcomes, refusalOf, replayOwn } from '../support/run-record.ts';
import { until } from '../support/until.ts';
import { startWorld, type World } from '../support/world.ts';

let files: RawServer;
let world: World;
/** Requests since the server went away. */
let tries = 0;

const tool = { name: 'act', description: 'Acts.', inputSchema: { type: 'object' } };
const there: RawServerScript = { era: 'modern', pages: [[tool]] };
const away: RawServerScript = {
  ...there,
  intercept: (request) => {
    tries += 1;
    request.socket.destroy();
    return true;
  },
};
/** Takes requests, and says nothing. */
const silent: RawServerScript = { ...there, intercept: () => ((tries += 1), true) };

beforeAll(async () => {
  files = await startRawServer(away);
  const credentials = { kind: 'none' } as const;
  world = await startWorld({
    config: {
      servers: {
        files: { url: files.url, credentials },
        brief: { url: files.url, credentials, startWaitSeconds: 1 },
      },
      policy: { strategy: 'never', approvers: { ids: ['ann'] } },
    },
  });
});
beforeEach(() => {
  tries = 0;
  files.become(away);
});
afterEach(async () => replayOwn(world));
afterAll(async () => {
  await world.stop();
  await files.close();
});

async function waiting(over: Partial<RunSpecInput> = {}, least = 2): Promise<RunHandle> {
  const steps = [{ calls: [{ tool: 'files/act' }] }, { text: 'done' }];
  const run = await world.start(steps, { servers: [{ name: 'files' }], ...over });
  await until(() => (tries >= least ? true : undefined), { what: `${least} tries` });
  return run;
}

test('it shows for which server it waits, and goes on when that is back', async () => {
  const run = await waiting();
  expect(await run.state()).toMatchObject({ status: 'preparing', listing: ['files'] });
  expect(await detailsOf(world, run.runId)).toContain('lists the tools of files');
  files.become(there);
  expect(await run.result()).toMatchObject({ status: 'completed' });
  expect(await run.state()).not.toHaveProperty('listing');
  expect(await outcomes(run)).toEqual({ 't1.c0': 'succeeded' });
});

test.each(['away', 'silent'] as const)('while the server is %s, stop ends it at once', async (how) => {
  files.become(how === 'away' ? away : silent);
  const run = await waiting({}, how === 'away' ? 2 : 1);
  await run.stop({ by: 'ann', reason: 'enough' });
  expect(await run.result()).toMatchObject({ status: 'stopped', because: 'enough' });
  expect(factsOf(await run.ledger(), 'tools.discovered')).toEqual([]);
});

test('cancel ends it at once, too', async () => {
  const run = await waiting();
  await run.cancel();
  expect(await refusalOf(run.result())).toMatchObject({ code: 'RUN_CANCELLED' });
});

test('it hands over while it waits, and waits on (INV-D3)', async () => {
  const run = await waiting();
  const { runId } = await run.state();
  await world.client.workflow.getHandle(run.runId).signal('nudge');
  await until(async () => ((await run.state()).runId === runId ? undefined : true), { what: 'another execution' });
  expect(await run.state()).toMatchObject({ listing: ['files'] });
  files.become(there);
  expect(await run.result()).toMatchObject({ status: 'completed' });
  expect(factsOf(await run.ledger(), 'run.rolled')).toMatchObject([{ because: 'nudge' }]);
});

test('its own time ends it, and what is named for the server', async () => {
  const run = await waiting({ limits: { wallClockSeconds: 3 } });
  expect(await run.result()).toMatchObject({ status: 'limited', because: 'wallClockSeconds' });
  const impatient = await waiting({ servers: [{ name: 'brief' }] });
  expect(await refusalOf(impatient.result())).toMatchObject({
    code: 'DISCOVERY_FAILED',
    message: expect.stringContaining('brief'),
  });
});
