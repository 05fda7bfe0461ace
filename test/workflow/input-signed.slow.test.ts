/** Trust mode `signed`: answers to a server count only as somebody signed them; where no key is configured no server asks (INV-G2). */
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from '@jest/globals';
import type { RunHandle } from '../../client/index.ts';
import { UPDATES } from '../../contracts/names.ts';
import type { ConfigInput } from '../../contracts/schemas/config.ts';
import type { ApprovalRequest, ProvisionInput } from '../../contracts/schemas/request.ts';
import { codedFailureIn } from '../../contracts/failure.ts';
import { runCommand } from '../support/cli.ts';
import { startEngine, type TestEngine } from '../support/engine.ts';
import { keepZoneKey } from '../support/signing/keys.ts';
import { type MrtrServer, startMrtrServer } from '../support/servers/mrtr-server.ts';
import { factsOf, outcomes, results } from '../support/world/run-record.ts';
import { claimsFor, person, service, signedWith, writeTrust } from '../support/signing/people.ts';
import { until } from '../support/until.ts';
import { decisionOn, openRequests, startWorld, type World } from '../support/world/world.ts';

let engine: TestEngine;
let server: MrtrServer;
let world: World;
let keyless: World;

const backend = service('backend');
const ann = person('ann-key', 'ann');
const bob = person('bob-key', 'bob');

beforeAll(async () => {
  server = await startMrtrServer();
  engine = await startEngine();
  const zone = await keepZoneKey(engine.directory);
  await writeTrust(join(engine.directory, 'trust.jwks'), backend, ann, bob);
  const config: ConfigInput = {
    servers: {
      desk: { url: server.url, credentials: { kind: 'none' } },
      // At the same address, with more rights.
      admin: { url: server.url, credentials: { kind: 'none' }, headers: { 'X-Role': 'admin' } },
    },
    policy: { servers: { desk: { default: 'allow' } }, approvers: { ids: ['acme|ann'] } },
  };
  world = await startWorld({
    engine,
    client: { signer: backend.signer },
    config: {
      ...config,
      trust: { mode: 'signed', jwks: 'trust.jwks' },
      grants: zone.grants,
    },
  });
  keyless = await startWorld({ engine, bundle: world.bundle, config: { ...config, taskQueue: 'keyless' } });
});
beforeEach(() => server.reset());
afterEach(async () => {});
afterAll(async () => {
  await keyless.stop();
  await world.stop();
  await server.close();
  await engine.stop();
});

const END = { text: 'done' };
const steps = (tool: string) => [{ calls: [{ tool: `desk/${tool}`, arguments: { n: 1 } }] }, END];

async function question(run: RunHandle, key = 'confirm', text = ''): Promise<ApprovalRequest> {
  return await until(
    async () =>
      (await run.requests()).find(
        ({ status, about }) =>
          status === 'open' && about?.kind === 'input' && about.requests[key]?.message.includes(text) === true,
      ),
    { what: `a question of ${run.runId}` },
  );
}

function answerTo({ callId, digest, runId }: ApprovalRequest, decisionId: string, sure = true): ProvisionInput {
  const approver = { id: 'acme|ann', groups: [] };
  const responses = { confirm: { action: 'accept' as const, content: { sure } } };
  return { kind: 'provide', decisionId, callId, digest, runId, approver, responses };
}

const claimsAbout = (run: RunHandle, { runId }: ApprovalRequest) => ({
  purpose: UPDATES.provideInput,
  namespace: 'default',
  tenant: 'default',
  workflowId: run.runId,
  runId,
  iss: 'acme',
  sub: 'ann',
});

async function sendTo(run: RunHandle, input: object): Promise<unknown> {
  return await world.client.workflow
    .getHandle(run.runId)
    .executeUpdate(UPDATES.provideInput, { args: [input] })
    .catch((error: unknown) => codedFailureIn(error)?.code ?? error);
}

test('an answer counts as it was signed; unsigned, by somebody else, changed, or signed for another purpose it does not', async () => {
  const run = await world.start(steps('deploy'), { initiator: { id: 'acme|ann' } });
  const shown = await question(run);
  const message = answerTo(shown, 'signed-1');
  const about = claimsAbout(run, shown);
  const good = await signedWith(ann, claimsFor(message, about, { jti: 'signed-1' }));
  const send = async (input: object): Promise<unknown> => await sendTo(run, input);
  expect(await send(message)).toBe('SIGNATURE_MISSING');
  expect(await send({ ...answerTo(shown, 'signed-1', false), signature: good })).toBe('SIGNATURE_INVALID');
  expect(
    await send({ ...message, signature: await signedWith(bob, claimsFor(message, about, { jti: 'signed-1' })) }),
  ).toMatch(/SIGN/);
  const decide = await signedWith(ann, claimsFor(message, { ...about, purpose: UPDATES.decide }, { jti: 'signed-1' }));
  expect(await send({ ...message, signature: decide })).toBe('SIGNATURE_INVALID');
  expect(server.executed).toEqual([]);
  expect(await send({ ...message, signature: good })).toMatchObject({ answer: 'provide' });
  await run.result();
  expect(server.executed).toEqual(['deployed, sure: true']);
  expect(factsOf(await run.ledger(), 'input.provided')).toMatchObject([{ signature: expect.anything() }]);
  const { address, namespace } = engine.server;
  const trust = ['--trust', join(engine.directory, 'trust.jwks')];
  const where = ['--address', address, '--namespace', namespace];
  const verified = await runCommand(['verify-ledger', run.runId, ...trust, ...where], { directory: engine.directory });
  expect(verified).toMatchObject({ exitCode: 0 });
});

test('INV-G1: a question that somebody puts into a run in a worker’s place is shown to nobody; the call may have run', async () => {
  const yes = async (run: RunHandle, shown: ApprovalRequest): Promise<unknown> => {
    const decisionId = `on-${shown.digest}`;
    const message = { ...answerTo(shown, decisionId), responses: { page: { action: 'accept' as const } } };
    const claims = claimsFor(message, claimsAbout(run, shown), { jti: decisionId });
    return await sendTo(run, { ...message, signature: await signedWith(ann, claims) });
  };
  // What the server asks, as anybody may read it elsewhere.
  const before = await world.start(steps('visit'), { initiator: { id: 'acme|ann' } });
  const known = await question(before, 'page');
  await yes(before, known);
  await before.result();
  server.reset();

  const goOn = server.hold();
  const run = await world.start(steps('visit'), { initiator: { id: 'acme|ann' } });
  const handle = world.client.workflow.getHandle(run.runId);
  const activityId = await until(
    async () =>
      server.legs.length === 0
        ? undefined
        : ((await handle.describe()).raw.pendingActivities?.[0]?.activityId ?? undefined),
    { what: 'the call is under way' },
  );
  const { page } = known.about?.kind === 'input' ? known.about.requests : {};
  const requests = { page: { ...page, message: 'Do you like blue?' } };
  const forged = { kind: 'input', round: 1, requests, used: [] };
  await world.client.activity.complete({ workflowId: run.runId, activityId }, forged);
  goOn();
  const [asked] = await openRequests(run);
  expect(asked?.about?.kind).toBe('outcome');
  expect(server.legs.map(({ answers }) => answers)).toEqual([[]]);
  expect(server.executed).toEqual([]);
  await run.stop({ by: 'acme|ann', reason: 'enough' });
  await run.result();
  expect(await outcomes(run)).toEqual({ 't1.c0': 'unknown' });
});

test('INV-G1: what is approved goes to no server with whose address another one of the run has other credentials', async () => {
  const started = async (...names: readonly string[]): Promise<RunHandle> => {
    const servers = names.map((name) => ({ name }));
    const calls = [{ tool: 'admin/visit', arguments: {} }];
    const run = await world.start([{ calls }, END], { initiator: { id: 'acme|ann' }, servers });
    const [asked] = await openRequests(run);
    if (asked === undefined) throw new Error('it is asked');
    await run.decide(decisionOn(asked, 'acme|ann'));
    return run;
  };
  const both = await started('desk', 'admin');
  await both.result();
  expect(await outcomes(both)).toEqual({ 't1.c0': 'denied' });
  expect(JSON.stringify(await results(world, both))).toContain('Servers admin and desk');
  expect(server.legs).toEqual([]);
  const one = await started('admin');
  await question(one, 'page');
  expect(server.legs).toHaveLength(1);
  await one.stop({ by: 'acme|ann', reason: 'enough', inFlight: 'cancel' });
});

test('without a key in grants.keys no server may ask, and the refusal names the setting', async () => {
  const run = await keyless.start(steps('deploy'));
  await run.result();
  expect(await outcomes(run)).toEqual({ 't1.c0': 'failed' });
  expect(JSON.stringify(await results(keyless, run))).toContain('grants.keys');
  expect(server.executed).toEqual([]);
});
