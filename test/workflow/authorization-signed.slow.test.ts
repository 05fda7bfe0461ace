/** Trust mode `signed`: consent and grants count as somebody signed them for that, also across continue-as-new (INV-G2, INV-S2, D-7). */
import { join } from 'node:path';
import { afterAll, beforeAll, expect, jest, test } from '@jest/globals';
import { decodeJwt } from 'jose';
import { Countersign, type RunHandle, type Signer } from '../../client/index.ts';
import { codedFailureIn } from '../../contracts/failure.ts';
import { UPDATES } from '../../contracts/names.ts';
import type { ApprovalRequest } from '../../contracts/schemas/request.ts';
import { runCommand } from '../support/cli.ts';
import { executions, factsOf, outcomes } from '../support/world/run-record.ts';
import { claimsFor, person, service, signedWith, type TestKey, writeTrust } from '../support/signing/people.ts';
import { until } from '../support/until.ts';
import { authorizationOf, startWantedScene, wantedFor, type WantedScene } from '../support/scenes/authorizations.ts';

const backend = service('backend', ['ops']);
const [ann, bob, eve] = [person('ann-1', 'ann'), person('bob-1', 'bob'), person('eve-1', 'eve')];
let scene: WantedScene;

beforeAll(async () => {
  // oidc-provider says on the console that it runs on Node 20 and without a store.
  jest.spyOn(console, 'info').mockImplementation(() => undefined);
  jest.spyOn(console, 'warn').mockImplementation(() => undefined);
  scene = await startWantedScene(async ({ directory }) => {
    await writeTrust(join(directory, 'trust.jwks'), backend, ann, bob, eve);
    return {
      client: { signer: backend.signer },
      config: {
        policy: { approvers: { ids: ['acme|bob'] }, strategy: 'never' },
        trust: { mode: 'signed', jwks: 'trust.jwks' },
      },
    };
  });
}, 120_000);
afterAll(async () => {
  await scene?.close();
  jest.restoreAllMocks();
});

const END = { text: 'done' };

async function started(tool: string, server: string, token?: string): Promise<RunHandle> {
  const over = { initiator: { id: 'acme|ann' }, servers: [{ name: server }] };
  const given = token === undefined ? {} : { authorizations: { [server]: token } };
  return await scene.world.start([{ calls: [{ tool: `${server}/${tool}` }] }, END], over, given);
}

function as(signer: Signer, { runId }: RunHandle): RunHandle {
  const { client, artifacts, config } = scene.world;
  return new Countersign({ client, artifacts, taskQueue: config.taskQueue, signer }).run(runId);
}

async function raw(run: RunHandle, message: object): Promise<string> {
  return await scene.world.client.workflow
    .getHandle(run.runId)
    .executeUpdate<unknown, [unknown]>(UPDATES.authorize, { args: [message] })
    .then(
      () => 'accepted',
      (error: unknown) => codedFailureIn(error)?.code ?? String(error),
    );
}

type Answer = ReturnType<typeof authorizationOf>;

async function signedFor(key: TestKey, request: ApprovalRequest, answer: Answer, purpose: string = UPDATES.authorize) {
  const { namespace, tenant, workflowId, runId } = request;
  const sub = answer.approver.id.replace('acme|', '');
  const about = { purpose, namespace, tenant, workflowId, runId, iss: 'acme', sub };
  const signature = await signedWith(key, claimsFor(answer, about, { jti: answer.decisionId }));
  return { ...answer, signature };
}

/** The request as it waits in the next execution. */
async function rolled(run: RunHandle, callId: string): Promise<ApprovalRequest> {
  await scene.world.client.workflow.getHandle(run.runId).signal('nudge');
  await until(async () => ((await executions(scene.world, run.runId)).length > 1 ? true : undefined), {
    what: `${run.runId} continues as new`,
  });
  return await wantedFor(run, callId);
}

async function verified(run: RunHandle): Promise<void> {
  const { address, namespace } = scene.engine.server;
  const { directory } = scene.engine;
  const where = ['--trust', join(directory, 'trust.jwks'), '--address', address, '--namespace', namespace];
  expect(await runCommand(['verify-ledger', run.runId, ...where], { directory })).toMatchObject({ exitCode: 0 });
}

test('consent: unsigned, changed, by another or for another update it grants nothing; signed it grants the scope, after a roll', async () => {
  const run = await started('admin', 'notes');
  const before = await wantedFor(run);
  const early = authorizationOf(before, 'acme|bob', { kind: 'consent' });
  const request = await rolled(run, 't1.c0');
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
  expect(scene.server.calls).toEqual([]);
  // What was read before the roll is the same request.
  await as(bob.signer, run).authorize(early);
  await run.result();
  expect(await outcomes(run)).toEqual({ 't1.c0': 'succeeded' });
  const [first, second] = scene.server.seen
    .filter(({ rpcMethod }) => rpcMethod === 'tools/call')
    .map(({ headers }) => decodeJwt(headers.authorization?.replace('Bearer ', '') ?? '')['scope']);
  expect([first, second]).toEqual(['notes:read', 'notes:read notes:admin']);
  expect(factsOf(await run.ledger(), 'authorization.given')).toMatchObject([{ signature: expect.anything() }]);
  await verified(run);
});

test('a fresh grant of a call: of its subject alone, as they signed it, after a roll', async () => {
  const run = await started('fresh', 'mine', 'stale-token');
  await wantedFor(run);
  const request = await rolled(run, 't1.c0');
  const target = { url: scene.server.url, key: scene.zone.publicJwk };
  const grant = await run.sealGrant({ server: 'mine', authorization: 'fresh-token', target });
  const given = authorizationOf(request, 'acme|ann', { kind: 'grant', grant });
  const good = await signedFor(ann, request, given);
  expect(await raw(run, given)).toBe('SIGNATURE_MISSING');
  const other = { ...good, grant: await run.sealGrant({ server: 'mine', authorization: 'theirs', target }) };
  expect(await raw(run, other)).toBe('SIGNATURE_INVALID');
  const bobs = authorizationOf(request, 'acme|bob', { kind: 'grant', grant });
  expect(await raw(run, await signedFor(bob, request, bobs))).toBe('APPROVER_NOT_ENTITLED');
  await as(ann.signer, run).authorize(given);
  await run.result();
  expect(await outcomes(run)).toEqual({ 't1.c0': 'succeeded' });
  await verified(run);
});

test('a fresh grant for the list of tools: proven where they are listed, and with each call after it', async () => {
  const run = await started('fresh', 'mine');
  await wantedFor(run, 't0.c0');
  const request = await rolled(run, 't0.c0');
  const target = { url: scene.server.url, key: scene.zone.publicJwk };
  const grant = await run.sealGrant({ server: 'mine', authorization: 'fresh-token', target });
  const given = authorizationOf(request, 'acme|ann', { kind: 'grant', grant });
  expect(await raw(run, given)).toBe('SIGNATURE_MISSING');
  await as(ann.signer, run).authorize(given);
  await run.result();
  expect(await outcomes(run)).toEqual({ 't1.c0': 'succeeded' });
  await verified(run);
});
