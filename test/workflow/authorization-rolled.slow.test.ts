/**
 * Waiting for an authorization and continue-as-new; an approval that was given before holds as long as its rule says
 * (INV-D3, INV-G2). In trust mode `signed` consent and grants count as somebody signed them for that (INV-S2, D-7).
 */
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { decodeJwt } from 'jose';
import { Countersign, type RunHandle, type Signer } from '../../client/index.ts';
import { codedFailureIn } from '../../contracts/failure.ts';
import { UPDATES } from '../../contracts/names.ts';
import type { ApprovalRequest } from '../../contracts/schemas/request.ts';
import type { RunSpecInput } from '../../contracts/schemas/run-spec.ts';
import { commandsAt } from '../support/cli.ts';
import { factsOf, outcomes, outcomesAtEnd, refusalOf } from '../support/world/run-record.ts';
import { authorizationOf, useWantedScene, wantedFor } from '../support/scenes/authorizations.ts';
import { claimsFor, person, service, signedWith, type TestKey } from '../support/signing/people.ts';
import { until } from '../support/until.ts';
import { decideNext, decisionOn, openRequests, rolled } from '../support/world/world.ts';
import { silenceProvider } from '../conformance/tokens.suite.ts';

const backend = service('backend', ['ops']);
const [ann, bob, eve] = [person('ann-1', 'ann'), person('bob-1', 'bob'), person('eve-1', 'eve')];
const END = { text: 'done' };

silenceProvider();
const asks = { notes: { default: 'ask' }, mine: { default: 'allow' } } as const;
const scene = useWantedScene({ config: { policy: { approvers: { ids: ['bob'] }, servers: asks } } });
const signed = useWantedScene(() => {
  const { engine, bundle } = scene.world;
  return {
    engine,
    bundle,
    trusted: [backend, ann, bob, eve],
    client: { signer: backend.signer },
    config: { taskQueue: 'signed', policy: { approvers: { ids: ['acme|bob'] }, strategy: 'never' } },
  };
});

const HELD_SECONDS = 10;

async function started(tool: string, over: Partial<RunSpecInput> = {}): Promise<RunHandle> {
  const steps = [{ calls: [{ tool }] }, END];
  const [name = ''] = tool.split('/');
  const given = name === 'mine' ? { authorizations: { mine: 'stale-token' } } : {};
  return await scene.world.start(steps, { servers: [{ name }], ...over }, given);
}

test('consent that was read before a roll and given after it counts; sent again it gets its first answer; the approval holds', async () => {
  const run = await started('notes/admin');
  await decideNext(run, 'bob');
  const consent = authorizationOf(await wantedFor(run), 'bob', { kind: 'consent' });
  await rolled(scene.world, run.runId);
  const late = await wantedFor(run);
  const ack = await run.authorize(consent);
  expect(await outcomesAtEnd(run)).toEqual({ 't1.c0': 'succeeded' });
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
    END,
  ];
  const servers = [{ name: 'mine' }, { name: 'notes' }];
  const run = await scene.world.start(steps, { servers }, { authorizations: { mine: 'stale-token' } });
  const request = await wantedFor(run);
  const target = { url: scene.server.url, key: scene.zone.publicJwk };
  const grant = await run.sealGrant({ server: 'mine', authorization: 'fresh-token', target });
  const answer = authorizationOf(request, 'ann', { kind: 'grant', grant });
  const ack = await run.authorize(answer);
  await openRequests(run);
  await rolled(scene.world, run.runId);
  expect(await run.authorize(answer)).toEqual(ack);
  await decideNext(run, 'bob');
  const wanted = await wantedFor(run, 't2.c1');
  await run.authorize(authorizationOf(wanted, 'bob', { kind: 'decline', reason: 'enough' }));
  expect(await outcomesAtEnd(run)).toEqual({ 't1.c0': 'succeeded', 't2.c0': 'succeeded', 't2.c1': 'rejected' });
});

test('an approval that lapsed while its call waited for a scope is asked for anew, and the consent is not', async () => {
  const policy = { approvers: { ids: ['bob'] }, validForSeconds: HELD_SECONDS };
  const run = await started('notes/admin', { policy });
  await decideNext(run, 'bob');
  const wanted = await wantedFor(run);
  const lapsed = Date.now() + HELD_SECONDS * 1_000 + 200;
  await until(() => Date.now() > lapsed, { what: 'the end of the approval' });
  await run.authorize(authorizationOf(wanted, 'bob', { kind: 'consent' }));
  const again = await until(
    async () => (await run.requests()).find(({ status, about }) => status === 'open' && about === undefined),
    { what: 'the call to be asked about again' },
  );
  expect(again.reopenedBecause).toMatch(/^APPROVAL_LAPSED/);
  const sent = (): number =>
    scene.server.calls.filter(({ headers }) => String(headers['idempotency-key']).startsWith(`${run.runId}/t1.c0/`))
      .length;
  expect(sent()).toBe(0);
  await run.decide(decisionOn(again, 'bob'));
  await run.result();
  // The filter finds the call once it has left.
  expect(sent()).toBe(1);
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
  await rolled(scene.world, run.runId);
  expect(await run.authorize(first)).toEqual(ack);
  expect(scene.server.calls).toHaveLength(before);
  await run.authorize(authorizationOf(await wantedFor(run), 'bob', { kind: 'consent' }));
  expect(await outcomesAtEnd(run)).toEqual({ 't1.c0': 'succeeded' });
  expect(factsOf(await run.ledger(), 'authorization.given').map(({ counted }) => counted)).toEqual([true, undefined]);
});

describe('in trust mode `signed` (INV-G2, INV-S2, D-7)', () => {
  async function signedStart(tool: string, server: string, token?: string): Promise<RunHandle> {
    const over = { initiator: { id: 'acme|ann' }, servers: [{ name: server }] };
    const given = token === undefined ? {} : { authorizations: { [server]: token } };
    return await signed.world.start([{ calls: [{ tool: `${server}/${tool}` }] }, END], over, given);
  }

  function as(signer: Signer, { runId }: RunHandle): RunHandle {
    const { client, artifacts, config } = signed.world;
    return new Countersign({ client, artifacts, taskQueue: config.taskQueue, signer }).run(runId);
  }

  async function raw(run: RunHandle, message: object): Promise<string> {
    return await signed.world.client.workflow
      .getHandle(run.runId)
      .executeUpdate<unknown, [unknown]>(UPDATES.authorize, { args: [message] })
      .then(
        () => 'accepted',
        (error: unknown) => codedFailureIn(error)?.code ?? String(error),
      );
  }

  type Answer = ReturnType<typeof authorizationOf>;

  async function signedFor(
    key: TestKey,
    request: ApprovalRequest,
    answer: Answer,
    purpose: string = UPDATES.authorize,
  ) {
    const { namespace, tenant, workflowId, runId } = request;
    const sub = answer.approver.id.replace('acme|', '');
    const about = { purpose, namespace, tenant, workflowId, runId, iss: 'acme', sub };
    const signature = await signedWith(key, claimsFor(answer, about, { jti: answer.decisionId }));
    return { ...answer, signature };
  }

  test('consent: unsigned, changed, by another or for another update it grants nothing; signed it grants the scope, after a roll', async () => {
    const run = await signedStart('admin', 'notes');
    const before = await wantedFor(run);
    const early = authorizationOf(before, 'acme|bob', { kind: 'consent' });
    await rolled(signed.world, run.runId);
    const request = await wantedFor(run);
    // Of the new execution's own digest.
    expect(request.digest).not.toBe(before.digest);
    const consent = authorizationOf(request, 'acme|bob', { kind: 'consent' });
    const good = await signedFor(bob, request, consent);
    expect(await raw(run, consent)).toBe('SIGNATURE_MISSING');
    expect(await raw(run, await signedFor(bob, request, consent, UPDATES.decide))).toBe('SIGNATURE_INVALID');
    expect(await raw(run, { ...good, comment: 'and more' })).toBe('SIGNATURE_INVALID');
    expect(await raw(run, await signedFor(eve, request, consent))).toMatch(/^SIGN/);
    const others = authorizationOf(request, 'acme|eve', { kind: 'consent' });
    expect(await raw(run, await signedFor(eve, request, others))).toBe('APPROVER_NOT_ENTITLED');
    expect(signed.server.calls).toEqual([]);
    // What was read before the roll is the same request.
    await as(bob.signer, run).authorize(early);
    expect(await outcomesAtEnd(run)).toEqual({ 't1.c0': 'succeeded' });
    const [first, second] = signed.server.seen
      .filter(({ rpcMethod }) => rpcMethod === 'tools/call')
      .map(({ headers }) => decodeJwt(headers.authorization?.replace(/^(?:Bearer|DPoP) /, '') ?? '')['scope']);
    expect([first, second]).toEqual(['notes:read', 'notes:read notes:admin']);
    expect(factsOf(await run.ledger(), 'authorization.given')).toMatchObject([{ signature: expect.anything() }]);
    await verified(run);
  });

  test('a fresh grant of a call: of its subject alone, as they signed it, after a roll', async () => {
    const run = await signedStart('fresh', 'mine', 'stale-token');
    await wantedFor(run);
    await rolled(signed.world, run.runId);
    const request = await wantedFor(run);
    const target = { url: signed.server.url, key: signed.zone.publicJwk };
    const grant = await run.sealGrant({ server: 'mine', authorization: 'fresh-token', target });
    const given = authorizationOf(request, 'acme|ann', { kind: 'grant', grant });
    const good = await signedFor(ann, request, given);
    expect(await raw(run, given)).toBe('SIGNATURE_MISSING');
    const other = { ...good, grant: await run.sealGrant({ server: 'mine', authorization: 'theirs', target }) };
    expect(await raw(run, other)).toBe('SIGNATURE_INVALID');
    const bobs = authorizationOf(request, 'acme|bob', { kind: 'grant', grant });
    expect(await raw(run, await signedFor(bob, request, bobs))).toBe('APPROVER_NOT_ENTITLED');
    await as(ann.signer, run).authorize(given);
    expect(await outcomesAtEnd(run)).toEqual({ 't1.c0': 'succeeded' });
    await verified(run);
  });

  test('a fresh grant for the list of tools: proven where they are listed, and with each call after it', async () => {
    const run = await signedStart('fresh', 'mine');
    await wantedFor(run, 't0.c0');
    await rolled(signed.world, run.runId);
    const request = await wantedFor(run, 't0.c0');
    const target = { url: signed.server.url, key: signed.zone.publicJwk };
    const grant = await run.sealGrant({ server: 'mine', authorization: 'fresh-token', target });
    const given = authorizationOf(request, 'acme|ann', { kind: 'grant', grant });
    expect(await raw(run, given)).toBe('SIGNATURE_MISSING');
    await as(ann.signer, run).authorize(given);
    expect(await outcomesAtEnd(run)).toEqual({ 't1.c0': 'succeeded' });
    await verified(run);
  });

  async function verified(run: RunHandle): Promise<void> {
    const { engine } = signed.world;
    const trust = ['--trust', join(engine.directory, 'trust.jwks')];
    expect(await commandsAt(engine)(['verify-ledger', run.runId, ...trust])).toMatchObject({ exitCode: 0 });
  }
});
