/** Waiting for an authorization and continue-as-new; an approval that was given before holds as long as its rule says (INV-D3, INV-G2). */
import { afterAll, beforeAll, expect, jest, test } from '@jest/globals';
import type { RunHandle } from '../../client/index.ts';
import type { RunSpecInput } from '../../contracts/schemas/run-spec.ts';
import { executions, factsOf, outcomes, refusalOf } from '../support/world/run-record.ts';
import { until } from '../support/until.ts';
import { authorizationOf, startWantedScene, wantedFor, type WantedScene } from '../support/scenes/authorizations.ts';
import { decisionOn, openRequests } from '../support/world/world.ts';

const HELD_SECONDS = 2;
let scene: WantedScene;

beforeAll(async () => {
  // oidc-provider says on the console that it runs on Node 20 and without a store.
  jest.spyOn(console, 'info').mockImplementation(() => undefined);
  jest.spyOn(console, 'warn').mockImplementation(() => undefined);
  const asks = { notes: { default: 'ask' }, mine: { default: 'allow' } } as const;
  scene = await startWantedScene(async () => ({ config: { policy: { approvers: { ids: ['bob'] }, servers: asks } } }));
}, 120_000);
afterAll(async () => {
  await scene?.close();
  jest.restoreAllMocks();
});

async function started(tool: string, over: Partial<RunSpecInput> = {}): Promise<RunHandle> {
  const steps = [{ calls: [{ tool }] }, { text: 'done' }];
  const [name = ''] = tool.split('/');
  const given = name === 'mine' ? { authorizations: { mine: 'stale-token' } } : {};
  return await scene.world.start(steps, { servers: [{ name }], ...over }, given);
}

async function approved(run: RunHandle): Promise<void> {
  const [asked] = await openRequests(run);
  if (asked === undefined) throw new Error('no request');
  await run.decide(decisionOn(asked, 'bob'));
}

async function roll(run: RunHandle): Promise<void> {
  const before = (await executions(scene.world, run.runId)).length;
  await scene.world.client.workflow.getHandle(run.runId).signal('nudge');
  await until(async () => ((await executions(scene.world, run.runId)).length > before ? true : undefined), {
    what: `${run.runId} continues as new`,
  });
}

test('consent that was read before a roll and given after it counts; sent again it gets its first answer; the approval holds', async () => {
  const run = await started('notes/admin');
  await approved(run);
  const consent = authorizationOf(await wantedFor(run), 'bob', { kind: 'consent' });
  await roll(run);
  const late = await wantedFor(run);
  const ack = await run.authorize(consent);
  await run.result();
  expect(await outcomes(run)).toEqual({ 't1.c0': 'succeeded' });
  const ledger = await run.ledger();
  // Asked for consent to the call once, and for its scope once, whatever execution it was in.
  expect(factsOf(ledger, 'request.opened').map(({ about }) => about?.kind)).toEqual([undefined, 'authorization']);
  expect(factsOf(ledger, 'decision.accepted')).toHaveLength(1);
  expect(ack).toMatchObject({ answer: 'consent' });
  expect(await refusalOf(run.authorize(authorizationOf(late, 'bob', { kind: 'consent' })))).toBeDefined();
});

test('an answer before a roll is remembered after it (INV-D3), and a grant stays with the run', async () => {
  const steps = [
    { calls: [{ tool: 'mine/fresh' }] },
    { calls: [{ tool: 'mine/fresh' }, { tool: 'notes/admin' }] },
    { text: 'done' },
  ];
  const servers = [{ name: 'mine' }, { name: 'notes' }];
  const run = await scene.world.start(steps, { servers }, { authorizations: { mine: 'stale-token' } });
  const request = await wantedFor(run);
  const target = { url: scene.server.url, key: scene.zone.publicJwk };
  const grant = await run.sealGrant({ server: 'mine', authorization: 'fresh-token', target });
  const answer = authorizationOf(request, 'ann', { kind: 'grant', grant });
  const ack = await run.authorize(answer);
  await openRequests(run);
  await roll(run);
  expect(await run.authorize(answer)).toEqual(ack);
  await approved(run);
  const wanted = await wantedFor(run, 't2.c1');
  await run.authorize(authorizationOf(wanted, 'bob', { kind: 'decline', reason: 'enough' }));
  await run.result();
  expect(await outcomes(run)).toEqual({ 't1.c0': 'succeeded', 't2.c0': 'succeeded', 't2.c1': 'rejected' });
});

test('an approval that lapsed while its call waited for a scope is asked for anew, and the consent is not', async () => {
  const policy = { approvers: { ids: ['bob'] }, validForSeconds: HELD_SECONDS };
  const run = await started('notes/admin', { policy });
  await approved(run);
  const wanted = await wantedFor(run);
  const lapsed = Date.now() + HELD_SECONDS * 1_000 + 200;
  await until(() => (Date.now() > lapsed ? true : undefined), { what: 'the end of the approval' });
  await run.authorize(authorizationOf(wanted, 'bob', { kind: 'consent' }));
  const again = await until(
    async () => (await run.requests()).find(({ status, about }) => status === 'open' && about === undefined),
    { what: 'the call to be asked about again' },
  );
  expect(again.reopenedBecause).toMatch(/^APPROVAL_LAPSED/);
  expect(scene.server.calls.filter(({ headers }) => headers['idempotency-key'] === `${run.runId}/t1.c0`)).toEqual([]);
  await run.decide(decisionOn(again, 'bob'));
  await run.result();
  expect(await outcomes(run)).toEqual({ 't1.c0': 'succeeded' });
  expect(factsOf(await run.ledger(), 'authorization.given')).toHaveLength(1);
});

test('consent that takes several people is collected, over a roll too, and the call leaves with the last of them', async () => {
  const run = await started('notes/admin', { policy: { approvers: { ids: ['cho', 'dan'] } } });
  const asked = (await openRequests(run))[0];
  if (asked === undefined) throw new Error('no request');
  for (const who of ['bob', 'cho']) await run.decide(decisionOn(asked, who));
  const request = await wantedFor(run);
  const before = scene.server.calls.length;
  const first = authorizationOf(request, 'cho', { kind: 'consent' });
  const ack = await run.authorize(first);
  expect((await wantedFor(run)).votes).toMatchObject([{ approver: { id: 'cho' } }]);
  for (const [who, code] of [
    ['cho', 'ALREADY_DECIDED'],
    ['dan', 'APPROVER_NOT_ENTITLED'],
    ['eve', 'APPROVER_NOT_ENTITLED'],
  ] as const)
    expect(await refusalOf(run.authorize(authorizationOf(request, who, { kind: 'consent' })))).toMatchObject({ code });
  await roll(run);
  expect(await run.authorize(first)).toEqual(ack);
  expect(scene.server.calls).toHaveLength(before);
  await run.authorize(authorizationOf(await wantedFor(run), 'bob', { kind: 'consent' }));
  await run.result();
  expect(await outcomes(run)).toEqual({ 't1.c0': 'succeeded' });
  expect(factsOf(await run.ledger(), 'authorization.given').map(({ counted }) => counted)).toEqual([true, undefined]);
});
