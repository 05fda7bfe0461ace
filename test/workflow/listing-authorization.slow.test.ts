/**
 * A run whose tools cannot be listed for want of a grant waits for one, as a call does (F13, S1.4, INV-S2, INV-D3):
 * nobody loses a run to a grant that ended before it began. A task, and grants that take each other's place while its
 * server works on it (ADR 0041).
 */
import { beforeEach, expect, test } from '@jest/globals';
import type { RunHandle } from '../../client/index.ts';
import { sealAuthorization } from '../../client/signing/sealing.ts';
import { RUN_WORKFLOW } from '../../contracts/names.ts';
import { RunSpec, type RunSpecInput } from '../../contracts/schemas/run-spec.ts';
import { specHash } from '../../domain/request/digest.ts';
import { withCode } from '../support/refusal.ts';
import { executions, factsOf, outcomesAtEnd, refusalOf } from '../support/world/run-record.ts';
import { authorizationOf, wantedFor } from '../support/scenes/authorizations.ts';
import { type RawServerScript, startRawServer } from '../support/servers/raw-server.ts';
import { startTaskServer } from '../support/servers/task-server.ts';
import { zoneKey } from '../support/signing/keys.ts';
import { until } from '../support/until.ts';
import { rolled, useWorld } from '../support/world/world.ts';
import { beforehand, during } from '../support/world/during.ts';

const LIST = 't0.c0';
const FRESH = 'Bearer fresh-token';
/** The token that `digs` takes: calls with any other are turned away. */
let taken: string;

const tool = { name: 'act', description: 'Acts.', inputSchema: { type: 'object' } };
/** Takes the fresh token alone, for lists as for calls. */
const guarded: RawServerScript = {
  era: 'modern',
  pages: [[tool]],
  intercept: (request, response) => {
    if (request.headers.authorization === FRESH) return false;
    response.writeHead(401).end();
    return true;
  },
};

const mine = during(() => startRawServer(guarded));
const open = during(() => startRawServer({ era: 'modern', pages: [[tool]] }));
const digs = during(() =>
  startTaskServer({
    begins: { pollInterval: 300_000 },
    intercept: (method, response, { headers }) =>
      method === 'tools/call' && headers.authorization !== `Bearer ${taken}` && (response.writeHead(401).end(), true),
  }),
);
const zone = beforehand(zoneKey);
const world = useWorld(() => {
  const key = zone.publicJwk;
  return {
    zone,
    client: { servers: { mine: { url: mine.url, key }, digs: { url: digs.url, key } } },
    config: {
      servers: {
        mine: { url: mine.url },
        open: { url: open.url, credentials: { kind: 'none' } },
        digs: { url: digs.url, recheckSeconds: 0, tasks: { seconds: 600 } },
      },
      policy: { strategy: 'never', approvers: { ids: ['bob'] } },
    },
  };
});

beforeEach(() => mine.become(guarded));

const SERVERS = [{ name: 'mine' }, { name: 'open' }];
const STEPS = [{ calls: [{ tool: 'mine/act' }, { tool: 'open/act' }] }, { text: 'done' }];
const target = () => ({ url: mine.url, key: zone.publicJwk });

async function started(over: Partial<RunSpecInput> = {}, token?: string): Promise<RunHandle> {
  return await world.start(
    STEPS,
    { servers: SERVERS, ...over },
    token === undefined ? {} : { authorizations: { mine: token } },
  );
}

async function give(run: RunHandle, round = 1, authorization = 'fresh-token'): Promise<void> {
  const request = await wantedFor(run, LIST, round);
  const grant = await run.sealGrant({ server: 'mine', authorization, target: target() });
  await run.authorize(authorizationOf(request, 'ann', { kind: 'grant', grant }));
}

async function ends(run: RunHandle): Promise<void> {
  expect(await outcomesAtEnd(run)).toEqual({ 't1.c0': 'succeeded', 't1.c1': 'succeeded' });
}

test('without a grant it waits, shown in state and inbox, and goes on with the one that its initiator gives', async () => {
  const seen = mine.seen.length;
  const run = await started();
  const request = await wantedFor(run, LIST);
  expect(request).toMatchObject({
    tool: 'tools/list',
    server: 'mine',
    about: { reason: 'GRANT_MISSING', wants: 'grant', message: expect.stringContaining('mine') },
    approvers: { allOf: [{ ids: ['ann'] }] },
  });
  expect(await run.state()).toMatchObject({ status: 'waiting', pending: 1, turn: 0 });
  const waiting = await until(
    async () => (await world.countersign.waiting()).find(({ runId }) => runId === run.runId),
    { what: 'the run in the inbox' },
  );
  expect(waiting.pending.requests).toMatchObject([{ callId: LIST, server: 'mine', about: 'authorization' }]);
  const grant = await run.sealGrant({ server: 'mine', authorization: 'fresh-token', target: target() });
  expect(await refusalOf(run.authorize(authorizationOf(request, 'bob', { kind: 'grant', grant })))).toMatchObject({
    code: 'APPROVER_NOT_ENTITLED',
  });
  await run.say({ messageId: 'm', text: 'Wait.', from: 'ann', interrupt: true });
  const answer = authorizationOf(request, 'ann', { kind: 'grant', grant });
  const ack = await run.authorize(answer);
  // Sent again it gets its first answer (INV-D3).
  expect(await run.authorize(answer)).toEqual(ack);
  await ends(run);
  expect(new Set(mine.seen.slice(seen).map(({ headers }) => headers.authorization))).toEqual(new Set([FRESH]));
  const ledger = await run.ledger();
  expect(factsOf(ledger, 'authorization.given')).toMatchObject([{ callId: LIST, answer: 'grant' }]);
  expect(factsOf(ledger, 'tools.discovered').map(({ server }) => server)).toEqual(['mine', 'open']);
  expect(factsOf(ledger, 'run.ended')).toMatchObject([{ status: 'completed' }]);
});

test('with a grant that its server takes no more, it waits as well, and as often as a call does', async () => {
  const run = await started({}, 'stale-token');
  const request = await wantedFor(run, LIST);
  expect(request.about).toMatchObject({ reason: 'TOOL_UNAUTHORIZED', wants: 'grant' });
  await give(run, 1, 'another-stale-token');
  await give(run, 2);
  await ends(run);
  const history = JSON.stringify(await executions(world, run.runId));
  for (const token of ['stale-token', 'fresh-token']) expect(history).not.toContain(token);
});

test('with a grant that ended before the run began, it says when, and goes on with a fresh one (F13)', async () => {
  const workflowId = 'ended-before';
  const spec = world.spec(STEPS, { servers: SERVERS });
  const binding = {
    namespace: world.engine.server.namespace,
    workflowId,
    specHash: specHash({ ...RunSpec.parse(spec), grants: [{ server: 'mine' }] }),
  };
  const jwe = await sealAuthorization({
    authorization: 'fresh-token',
    serverUrl: mine.url,
    binding,
    key: zone.publicJwk,
    expiresInSeconds: 3_600,
    now: () => Date.now() - 7_200_000,
  });
  const args = [{ ...spec, grants: [{ server: 'mine', jwe }] }];
  await world.client.workflow.start(RUN_WORKFLOW, { workflowId, taskQueue: world.config.taskQueue, args });
  const run = world.countersign.run(workflowId);
  const { about } = await wantedFor(run, LIST);
  expect(about).toMatchObject({ reason: 'GRANT_EXPIRED', message: expect.stringMatching(/expired at/) });
  await give(run);
  await ends(run);
});

test('across continue-as-new the request waits on, its answers count, and all lists are there (INV-D3)', async () => {
  const run = await started();
  await wantedFor(run, LIST);
  await rolled(world, run.runId);
  await give(run);
  await ends(run);
  expect(factsOf(await run.ledger(), 'request.opened')).toHaveLength(1);
  expect(factsOf(await run.ledger(), 'tools.discovered')).toHaveLength(2);
});

test('where nobody gives one by the deadline, the run ends as it did before, and says until when it waited', async () => {
  const run = await started({ policy: { deadlineSeconds: 1 } });
  expect(await refusalOf(run.result())).toMatchObject({
    code: 'GRANT_MISSING',
    message: expect.stringMatching(/without one.*Nobody gave another one by 2/),
    facts: { server: 'mine' },
  });
  expect(factsOf(await run.ledger(), 'request.closed')).toMatchObject([{ callId: LIST, status: 'expired' }]);
});

test('where the one who may declines, it ends with what was in the way and who declined', async () => {
  const run = await started();
  const request = await wantedFor(run, LIST);
  await run.authorize(authorizationOf(request, 'ann', { kind: 'decline', reason: 'not today' }));
  expect(await refusalOf(run.result())).toMatchObject(withCode('GRANT_MISSING', 'ann gives no other: not today'));
});

test('stopped, or out of time, it waits for nobody', async () => {
  const run = await started();
  await wantedFor(run, LIST);
  await run.stop({ by: 'ann', reason: 'not needed' });
  expect(await run.result()).toMatchObject({ status: 'stopped', because: 'not needed' });
  const short = await started({ limits: { wallClockSeconds: 20 } });
  await wantedFor(short, LIST);
  expect(await short.result()).toMatchObject({ status: 'limited', because: 'wallClockSeconds' });
  expect(factsOf(await short.ledger(), 'request.closed')).toMatchObject([{ callId: LIST, status: 'cancelled' }]);
});

test('where policy asks nobody for authorizations, the run ends at once', async () => {
  const run = await started({ policy: { missingAuthorization: 'fail' } });
  expect(await refusalOf(run.result())).toMatchObject({ code: 'GRANT_MISSING' });
  expect(factsOf(await run.ledger(), 'request.opened')).toEqual([]);
});

test('the run ends before a task whose grant was replaced since it was asked about last: it is asked about with its own', async () => {
  taken = 'first-token';
  const dig = { tool: 'digs/dig' };
  const run = await world.start(
    [{ calls: [dig, dig] }, { text: 'done' }],
    { servers: [{ name: 'digs' }] },
    { authorizations: { digs: 'stale-token' } },
  );
  const replace = async (callId: string, authorization: string): Promise<void> => {
    const request = await wantedFor(run, callId);
    const grant = await run.sealGrant({
      server: 'digs',
      authorization,
      target: { url: digs.url, key: zone.publicJwk },
    });
    await run.authorize(authorizationOf(request, 'ann', { kind: 'grant', grant }));
  };
  const tasks = async (many: number) =>
    await until(
      async () => {
        const { tasks: begun = [] } = await run.state();
        return begun.length === many ? begun : undefined;
      },
      { what: `${many} tasks` },
    );
  await wantedFor(run, 't1.c1');
  await replace('t1.c0', 'first-token');
  expect(await tasks(1)).toMatchObject([{ callId: 't1.c0', polls: 0 }]);
  taken = 'second-token';
  await replace('t1.c1', 'second-token');
  expect(await tasks(2)).toMatchObject([{ polls: 0 }, { polls: 0 }]);
  await run.stop({ by: 'ann', reason: 'enough', inFlight: 'cancel' });
  await run.result();
  const told = factsOf(await run.ledger(), 'outcome').map(({ callId, outcome }) => [callId, outcome]);
  expect(Object.fromEntries(told)).toEqual({ 't1.c0': 'succeeded', 't1.c1': 'succeeded' });
});
