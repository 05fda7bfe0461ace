/**
 * Trust mode `signed`, used as it is meant: starts, decisions and messages count because a trusted key has signed them
 * (§3.3, D-7, D-8). What stands is proven by what was signed, and only a signed word takes it back (INV-G1, INV-G2,
 * F22).
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { Client } from '@temporalio/client';
import { assertIntact, Countersign, type RunHandle, type Signer } from '../../client/index.ts';
import { updateIdOf } from '../../client/engine/engine.ts';
import { compareWithHistory, readDeeds } from '../../client/ledger/history.ts';
import { codedFailureIn } from '../../contracts/failure.ts';
import { ACTIVITIES, RUN_WORKFLOW } from '../../contracts/names.ts';
import { Stop } from '../../contracts/schemas/request.ts';
import { KEY_FIELD } from '../../contracts/zone.ts';
import { EncryptionCodec } from '../../workers/codec.ts';
import { documentOf, errorOf, runCommand } from '../support/cli.ts';
import { answersOf } from '../support/forgery/impostor.ts';
import { codeOf, executions, factsOf } from '../support/world/run-record.ts';
import { lostCall, resolutionOf } from '../support/scenes/lost-answers.ts';
import {
  claimsFor,
  person,
  service,
  signedWith,
  type TestKey,
  writeTrust,
  ZONE_KEY,
} from '../support/signing/people.ts';
import { until } from '../support/until.ts';
import { decisionOn, openRequests, requestAfter, requestFor } from '../support/world/world.ts';
import { useBank } from '../support/world/bank-world.ts';
import { resetRun } from '../support/world/reset.ts';

const backend = service('backend-1', ['ops']);
const bridge = service('bridge', ['ops'], { speaksForMany: true });
const ann = person('ann-1', 'ann');
const ben = person('ben-1', 'ben', ['ops']);
const ALL: readonly TestKey[] = [backend, bridge, ann, ben];

const policy = {
  approvers: { ids: ['acme|ann'], groups: ['ops'] },
  servers: {
    pair: { tools: { pay: { action: 'ask' as const, approvers: { groups: ['ops'], ids: ['acme|ann'], need: 2 } } } },
    open: { default: 'allow' as const },
    stands: {
      tools: { pay: { action: 'ask' as const, approvers: { ids: ['acme|ann'], remember: ['tool' as const] } } },
    },
  },
};
const { bank, world } = useBank(
  { policy },
  { names: ['bank', 'pair', 'open', 'stands'], trusted: ALL, client: { signer: backend.signer } },
);

const call = (tool: string, purpose: string) => ({ tool, arguments: { purpose } });
const END = { text: 'done' };
const initiator = { id: 'acme|ann' };

/** The same service, for whoever holds this key. */
function as(signer: Signer): Countersign {
  return new Countersign({
    client: world.client,
    artifacts: world.artifacts,
    taskQueue: world.config.taskQueue,
    signer,
  });
}

async function request(run: RunHandle) {
  const [open] = await openRequests(run);
  return open;
}

const approval = (of: Awaited<ReturnType<typeof request>>, id: string, groups: string[] = []) => ({
  ...decisionOn(of, id),
  approver: { id, groups },
});

test('INV-G1: a run that was signed at its start calls what policy allows, and what a signed decision approves', async () => {
  const run = await world.start([{ calls: [call('open/pay', 'genuine'), call('bank/pay', 'genuine')] }, END], {
    initiator,
  });
  const open = await request(run);
  expect((await run.state()).signing).toEqual({ tenant: 'default' });
  const ack = await as(ann.signer).run(run.runId).decide(approval(open, 'acme|ann'));
  expect(ack).toMatchObject({ status: 'approved', decidedBy: 'acme|ann' });
  expect(await run.result()).toMatchObject({ status: 'completed' });
  expect(bank.callsFor('genuine')).toHaveLength(2);
  const ledger = await run.ledger();
  assertIntact(ledger, run.runId);
  const accepted = ledger.map(({ fact }) => fact).find(({ kind }) => kind === 'decision.accepted');
  expect(accepted).toMatchObject({
    signature: { kid: 'ann-1', jti: ack.decisionId, iss: 'acme', sha256: expect.any(String) },
  });
  // And it is the very signature that was sent: another one in its place is found.
  const deeds = await readDeeds(world.client, run.runId);
  expect(compareWithHistory({ before: ledger, after: ledger }, deeds)).toEqual([]);
  const forged = ledger.map((entry) =>
    'signature' in entry.fact
      ? { ...entry, fact: { ...entry.fact, signature: { ...entry.fact.signature, sha256: 'a'.repeat(64) } } }
      : entry,
  );
  expect(compareWithHistory({ before: forged, after: forged }, deeds)).toEqual([
    expect.objectContaining({ kind: 'history', reason: expect.stringContaining('another signature') }),
  ]);
});

test('INV-D3: a decision that is signed anew, after its sender was started again, gets its first answer; another under its id none', async () => {
  const run = await world.start([{ calls: [call('pair/pay', 'anew')] }, END], { initiator });
  const decision = { ...approval(await request(run), 'acme|ann'), comment: 'checked' };
  const send = async (comment: string) =>
    await as(ann.signer)
      .run(run.runId)
      .decide({ ...decision, kind: 'approve', comment });
  const ack = await send('checked');
  expect(ack).toMatchObject({ status: 'counted' });
  expect(await send('checked')).toEqual(ack);
  await expect(send('not checked')).rejects.toMatchObject({
    code: 'DECISION_INVALID',
    facts: { path: 'decisionId' },
  });
  // Not by the id of Temporal's update alone: the run itself compares, and leaves the signature out.
  const raw = await rawSigned(decision);
  const handle = world.client.workflow.getHandle(run.runId);
  expect(await handle.executeUpdate('decide', { args: [raw] })).toEqual(ack);
  await run.stop({ by: 'acme|ann', reason: 'enough' });

  async function rawSigned(message: typeof decision): Promise<object> {
    const { namespace } = world.client.options;
    const about = { purpose: 'decide', namespace, tenant: 'default', workflowId: run.runId, runId: message.runId };
    const claims = claimsFor(message, { ...about, iss: 'acme', sub: 'ann' }, { jti: message.decisionId });
    return { ...message, signature: await signedWith(ann, claims) };
  }
});

test('a service speaks for the people of its issuer, with groups that it may claim (D-9)', async () => {
  const run = await world.start([{ calls: [call('bank/pay', 'service')] }, END], { initiator });
  await run.decide(approval(await request(run), 'acme|eve', ['ops']));
  await run.result();
  expect(bank.callsFor('service')).toHaveLength(1);
});

test('F21, E-1: two people with keys of their own make a quorum; one key is one voice, unless it speaks for many', async () => {
  const steps = [{ calls: [call('pair/pay', 'pair')] }, END];
  const run = await world.start(steps, { initiator });
  const open = await request(run);
  expect(await run.decide(approval(open, 'acme|eve', ['ops']))).toMatchObject({ status: 'counted' });
  await expect(run.decide(approval(open, 'acme|max', ['ops']))).rejects.toMatchObject({
    code: 'APPROVER_NOT_ENTITLED',
  });
  expect(
    await as(ben.signer)
      .run(run.runId)
      .decide(approval(open, 'acme|ben', ['ops'])),
  ).toMatchObject({ status: 'approved' });
  await run.result();
  const many = await world.start(steps, { initiator });
  const other = await request(many);
  const bridged = as(bridge.signer).run(many.runId);
  expect(await bridged.decide(approval(other, 'acme|eve', ['ops']))).toMatchObject({ status: 'counted' });
  expect(await bridged.decide(approval(other, 'acme|max', ['ops']))).toMatchObject({ status: 'approved' });
  await many.result();
  expect(bank.callsFor('pair')).toHaveLength(2);
});

test('say and stop are signed each for itself, and the initiator may send them', async () => {
  const run = await world.start([{ calls: [call('bank/pay', 'said')] }, END], { initiator });
  await request(run);
  const mine = as(ann.signer).run(run.runId);
  await mine.say({ messageId: 'm1', text: 'and mind the gap', from: 'acme|ann' });
  await expect(
    as(ben.signer).run(run.runId).say({ messageId: 'm2', text: 'no', from: 'acme|ben' }),
  ).rejects.toMatchObject({
    code: 'SIGNER_NOT_ENTITLED',
  });
  await expect(as(ben.signer).run(run.runId).stop({ by: 'acme|ben', reason: 'no' })).rejects.toMatchObject({
    code: 'SIGNER_NOT_ENTITLED',
  });
  await mine.stop({ by: 'acme|ann', reason: 'enough' });
  expect(await run.result()).toMatchObject({ status: 'stopped' });
  expect(bank.callsFor('said')).toHaveLength(0);
});

test('INV-G2: a stop or a message under an update id that somebody has used up before is taken all the same', async () => {
  const run = await world.start([{ calls: [call('bank/pay', 'used-up')] }, END], { initiator });
  await request(run);
  const said = { messageId: 'm1', text: 'wait for me', from: 'acme|ann' };
  const stop = { by: 'acme|ann', reason: 'its client no longer wants it' };
  for (const updateId of [updateIdOf('say', said, 'm1'), updateIdOf('stop', Stop.parse(stop))])
    await world.client.workflow.getHandle(run.runId).executeUpdate('advance', { updateId });
  const mine = as(ann.signer).run(run.runId);
  await mine.say(said);
  await mine.stop(stop);
  const ledger = await run.ledger();
  expect(factsOf(ledger, 'said')).toMatchObject([{ messageId: 'm1' }]);
  expect(factsOf(ledger, 'stop.requested')).toMatchObject([{ by: 'acme|ann' }]);
  expect(await run.result()).toMatchObject({ status: 'stopped' });
});

test('a key that is newer than the run is read when it is needed, also after continue-as-new; no timer waits for it', async () => {
  const run = await world.start([{ calls: [call('bank/pay', 'rotated')] }, END], { initiator });
  const before = await request(run);
  const eve = person('eve-1', 'eve', ['ops']);
  await writeTrust(join(world.engine.directory, 'trust.jwks'), ...ALL, eve);
  await world.client.workflow.getHandle(run.runId).signal('nudge');
  const open = await requestAfter(run, before);
  expect(
    await as(eve.signer)
      .run(run.runId)
      .decide(approval(open, 'acme|eve', ['ops'])),
  ).toMatchObject({ status: 'approved' });
  await run.result();
  expect(bank.callsFor('rotated')).toHaveLength(1);
  const events = (await executions(world, run.runId)).flatMap((execution) => execution.events);
  const read = events.filter(
    ({ activityTaskScheduledEventAttributes: scheduled }) => scheduled?.activityType?.name === 'readTrust',
  );
  expect(read).toHaveLength(1);
});

test('a decision of before continue-as-new counts: Temporal says that its run is of this chain', async () => {
  const run = await world.start([{ calls: [call('pair/pay', 'chain')] }, END], { initiator });
  const before = await request(run);
  expect(await as(ann.signer).run(run.runId).decide(approval(before, 'acme|ann'))).toMatchObject({ status: 'counted' });
  await world.client.workflow.getHandle(run.runId).signal('nudge');
  const after = await requestAfter(run, before);
  expect(
    await as(ben.signer)
      .run(run.runId)
      .decide(approval(after, 'acme|ben', ['ops'])),
  ).toMatchObject({ status: 'approved' });
  await run.result();
  expect(bank.callsFor('chain')).toHaveLength(1);
});

test('what was signed before a key was replaced counts on; of a revoked key nothing does, and the call asks again', async () => {
  const old = person('old', 'olga', ['ops'], {});
  await writeTrust(join(world.engine.directory, 'trust.jwks'), ...ALL, old);
  const run = await world.start([{ calls: [call('pair/pay', 'revoked')] }, END], { initiator });
  const open = await request(run);
  expect(
    await as(old.signer)
      .run(run.runId)
      .decide(approval(open, 'acme|olga', ['ops'])),
  ).toMatchObject({ status: 'counted' });
  await writeTrust(join(world.engine.directory, 'trust.jwks'), ...ALL);
  await as(ben.signer)
    .run(run.runId)
    .decide(approval(open, 'acme|ben', ['ops']));
  const again = await until(
    async () => (await run.requests()).find(({ generation, status }) => generation === 2 && status === 'open'),
    { what: 'the call asking again' },
  );
  expect(again.reopenedBecause).toContain('TRUST_KEY_UNKNOWN');
  expect(bank.callsFor('revoked')).toHaveLength(0);
  await as(ann.signer).run(run.runId).decide(approval(again, 'acme|ann'));
  await as(ben.signer)
    .run(run.runId)
    .decide(approval(again, 'acme|ben', ['ops']));
  await run.result();
  expect(bank.callsFor('revoked')).toHaveLength(1);
});

test('F38: after a reset a run is still the one that was signed, and takes decisions that are signed for it now', async () => {
  const run = await world.start([{ calls: [call('bank/pay', 'reset')] }, END], { initiator });
  const before = await request(run);
  await resetRun(world.client, { workflowId: run.runId, runId: before.runId });
  const after = await requestAfter(run, before);
  await as(ann.signer).run(run.runId).decide(approval(after, 'acme|ann'));
  await run.result();
  expect(bank.callsFor('reset')).toHaveLength(1);
  // Reset once more, it has been sent: what became of it, or that it is sent again, is signed for the run as it is now.
  await resetRun(world.client, { workflowId: run.runId, runId: before.runId });
  const third = await requestAfter(run, after);
  await as(ann.signer).run(run.runId).decide(approval(third, 'acme|ann'));
  const lost = await lostCall(run);
  expect(bank.callsFor('reset')).toHaveLength(1);
  await as(ann.signer)
    .run(run.runId)
    .resolveOutcome(resolutionOf(lost, 'acme|ann', { kind: 'retry' }));
  await run.result();
  expect(bank.callsFor('reset')).toHaveLength(2);
});

test('the command line signs with --key, or with the key that COUNTERSIGN_KEY names', async () => {
  const { kid, privateJwk, entry } = ben;
  const file = join(world.engine.directory, 'ben.jwk');
  await writeFile(file, JSON.stringify({ ...privateJwk, kid, countersign: entry.countersign }));
  const { address, namespace } = world.engine.server;
  const say = async (verb: string, runId: string, args: readonly string[], env = {}) =>
    await runCommand(
      [verb, runId, ...args, '--as', 'acme|ben', '--address', address, '--namespace', namespace, '--json'],
      {
        directory: world.engine.directory,
        env,
      },
    );
  const run = await world.start([{ calls: [call('bank/pay', 'typed')] }, END], { initiator: { id: 'acme|ben' } });
  const { digest } = await request(run);
  const approve = ['t1.c0', '--group', 'ops', '--digest', digest];
  expect(errorOf(await say('approve', run.runId, approve))).toMatchObject({ code: 'SIGNATURE_MISSING' });
  expect((await say('approve', run.runId, [...approve, '--key', file])).exitCode).toBe(0);
  await run.result();
  expect(bank.callsFor('typed')).toHaveLength(1);
  const other = await world.start([{ calls: [call('bank/pay', 'typed')] }, END], { initiator: { id: 'acme|ben' } });
  await request(other);
  const stopped = await say('stop', other.runId, ['--reason', 'enough'], { COUNTERSIGN_KEY: file });
  expect(stopped.exitCode).toBe(0);
  expect(await other.result()).toMatchObject({ status: 'stopped' });
});

test('keys of the zone rotate while runs wait, and which of them need one is told (docs/adr/0047)', async () => {
  const run = await world.start([{ calls: [call('bank/pay', 'zone')] }, END], { initiator });
  const asked = await request(run);
  const { address, namespace } = world.engine.server;
  const where = ['--address', address, '--namespace', namespace, '--json'];
  const used = async (id: string) =>
    await runCommand(['keys', 'zone', 'used', id, ...where], { directory: world.engine.directory });
  expect(documentOf(await used('other'))).toMatchObject({ users: [] });
  const needed = await used(ZONE_KEY.id);
  expect(needed.exitCode).toBe(2);
  expect(needed.out).toContain(run.runId);

  // Another deployment in the namespace, whose keys this one has not: nobody knows what it needs.
  const codec = new EncryptionCodec([{ id: 'theirs', key: Buffer.alloc(32, 1) }]);
  const { connection } = world.client;
  const theirs = new Client({ connection, namespace, dataConverter: { payloadCodecs: [codec] } });
  const foreign = await theirs.workflow.start(RUN_WORKFLOW, { workflowId: 'theirs', taskQueue: 'theirs', args: [{}] });
  const unread = [{ workflowId: 'theirs', reason: expect.stringContaining('encryption.keys') }];
  // Lists of Temporal come after the start.
  await until(async () => (await used('other')).exitCode === 2);
  const maybe = await used('other');
  expect([maybe.exitCode, documentOf(maybe)]).toEqual([2, expect.objectContaining({ users: [], unread })]);
  expect(documentOf(await used(ZONE_KEY.id))).toMatchObject({ users: [run.runId], unread });
  await foreign.terminate();

  const { trust } = world.config;
  if (trust.mode !== 'signed') throw new Error('another mode');
  trust.zone.keys.unshift({ id: 'newer', key: Buffer.alloc(32, 8).toString('base64') });
  await world.restartWorkers();
  await as(ann.signer).run(run.runId).decide(approval(asked, 'acme|ann'));
  await run.result();
  expect(bank.callsFor('zone')).toHaveLength(1);
  const keys = (await answersOf(world, run, ACTIVITIES.modelStep)).map(({ metadata }) =>
    Buffer.from(metadata?.[KEY_FIELD] ?? []).toString('utf8'),
  );
  expect(keys).toEqual([ZONE_KEY.id, 'newer']);
});

const paying = (amount: number, tool = 'pay') => ({
  calls: [{ tool: `stands/${tool}`, arguments: { purpose: 'signed', amount } }],
});

test('a signed approval answers later calls, and an unsigned word does not take it back', async () => {
  const steps = [paying(1), paying(2), paying(0, 'bare'), paying(3), END];
  const run = await world.start(steps, { initiator });
  const first = await requestFor(run, 't1.c0');
  const decision = Object.assign(decisionOn(first, initiator.id), {
    comment: 'seen',
    remember: { scope: 'tool' as const },
  });
  await run.decide(decision);
  const pause = await requestFor(run, 't3.c0');
  expect(bank.callsFor('signed').map(({ arguments: args }) => args['amount'])).toEqual([1, 2]);
  const message = { standing: decision.decisionId, by: { ...initiator, groups: [] } };
  const raw = world.client.workflow.getHandle(run.runId).executeUpdate('forget', { args: [message] });
  expect(
    await raw.then(
      () => 'taken',
      (error: unknown) => codedFailureIn(error)?.code,
    ),
  ).toBe('SIGNATURE_MISSING');
  expect(await codeOf(run.forget({ ...message, by: { id: 'acme|mallory' } }))).toBe('APPROVER_NOT_ENTITLED');
  expect((await run.state()).standing).toHaveLength(1);
  expect(await run.forget(message)).toMatchObject({ forgottenBy: initiator.id });
  await run.decide(decisionOn(pause, initiator.id, 'reject'));
  const last = await requestFor(run, 't4.c0');
  expect(last.status).toBe('open');
  await run.decide(decisionOn(last, initiator.id, 'reject'));
  await run.result();
  expect(bank.callsFor('signed')).toHaveLength(2);
});
