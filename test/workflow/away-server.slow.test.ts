/** A tool server that is away when a run starts is waited for, visibly, for as long as the run may last (F8, INV-D3). */
import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals';
import type { RunHandle } from '../../client/index.ts';
import type { RunSpecInput } from '../../contracts/schemas/run-spec.ts';
import { documentOf, runCommand } from '../support/cli.ts';
import { type RawServer, type RawServerScript, startRawServer } from '../support/servers/raw-server.ts';
import { detailsOf, factsOf, outcomes, refusalOf } from '../support/world/run-record.ts';
import { until } from '../support/until.ts';
import { startWorld, type World } from '../support/world/world.ts';

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
  const [retry, ...others] = await run.retries();
  expect([retry, others]).toMatchObject([{ step: 'list tools of files', code: 'DISCOVERY_FAILED' }, []]);
  expect(retry?.attempt).toBeGreaterThan(1);
  expect(Date.parse(retry?.since ?? '')).toBeLessThanOrEqual(Date.now());
  const cli = async (...args: readonly string[]) =>
    await runCommand([...args, '--address', world.engine.server.address], { directory: world.engine.directory });
  const said = /list tools of files: DISCOVERY_FAILED, attempt \d+ since .*files/;
  expect((await cli('show', run.runId)).out).toMatch(said);
  expect(documentOf(await cli('show', run.runId, '--json'))).toMatchObject({ retries: [{ code: 'DISCOVERY_FAILED' }] });
  expect((await cli('requests', run.runId)).out).toMatch(said);
  expect((await cli('watch', run.runId, '--deadline', '2')).err).toMatch(said);
  const [line = ''] = (await cli('watch', run.runId, '--deadline', '2', '--json')).err.split('\n');
  expect(JSON.parse(line)).toEqual({
    waiting: {
      step: 'list tools of files',
      code: 'DISCOVERY_FAILED',
      message: expect.stringContaining('"files"'),
      attempt: expect.any(Number),
      since: expect.any(String),
      ...(line.includes('"next"') ? { next: expect.any(String) } : {}),
    },
  });
  // What Temporal UI shows itself, where the details point to.
  expect(await detailsOf(world, run.runId)).toContain('*Pending Activities*');
  const { raw } = await world.client.workflow.getHandle(run.runId).describe();
  expect(raw.pendingActivities).toMatchObject([
    {
      attempt: expect.any(Number),
      lastFailure: {
        message: expect.stringMatching(
          /^The tools of server "files" could not be listed: the connection broke off \([A-Z_]+\)$/,
        ),
        applicationFailureInfo: { type: 'DISCOVERY_FAILED' },
      },
    },
  ]);
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
  expect(await impatient.state()).toMatchObject({
    status: 'failed',
    because: expect.stringMatching(/^DISCOVERY_FAILED: .*brief/),
  });
  expect(await detailsOf(world, impatient.runId)).toContain('brief');
});
