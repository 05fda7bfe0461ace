/** Trust mode `signed`: what became of a call is said by a signature for that, and proven again where the call is sent (INV-X1, INV-G2, D-7). */
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { Countersign, type RunHandle, type Signer } from '../../client/index.ts';
import { compareWithHistory, readDeeds } from '../../client/ledger/history.ts';
import { checkProofs } from '../../client/ledger/proofs.ts';
import { signed } from '../../client/signing/signing.ts';
import { codedFailureIn } from '../../contracts/failure.ts';
import type { ApprovalRequest } from '../../contracts/schemas/request.ts';
import type { SignedPurpose } from '../../contracts/schemas/trust.ts';
import { startEngine, type TestEngine } from '../support/engine.ts';
import { lostCall, resolutionOf } from '../support/scenes/lost-answers.ts';
import { type RecordingServer, startRecordingServer } from '../support/servers/recording-server.ts';
import { outcomes } from '../support/world/run-record.ts';
import { person, service, writeTrust } from '../support/signing/people.ts';
import { startWorld, type World } from '../support/world/world.ts';

let engine: TestEngine;
let bank: RecordingServer;
let world: World;

const backend = service('backend-1', ['ops']);
const ann = person('ann-1', 'ann');

beforeAll(async () => {
  engine = await startEngine();
  bank = await startRecordingServer();
  await writeTrust(join(engine.directory, 'trust.jwks'), backend, ann);
  world = await startWorld({
    engine,
    client: { signer: backend.signer },
    config: {
      policy: { approvers: { ids: ['acme|ann'] }, servers: { open: { default: 'allow' } } },
      servers: { open: { url: bank.url, credentials: { kind: 'none' } } },
      trust: { mode: 'signed', jwks: 'trust.jwks' },
    },
  });
});
afterAll(async () => {
  await world.stop();
  await bank.close();
  await engine.stop();
});

async function lost(purpose: string): Promise<{ run: RunHandle; request: ApprovalRequest }> {
  const run = await world.start([{ calls: [{ tool: 'open/slow', arguments: { purpose } }] }, { text: 'done' }], {
    initiator: { id: 'acme|ann' },
    limits: { callTimeoutSeconds: 1 },
  });
  return { run, request: await lostCall(run) };
}

function as(signer: Signer, { runId }: RunHandle): RunHandle {
  const { client, artifacts, config } = world;
  return new Countersign({ client, artifacts, taskQueue: config.taskQueue, signer }).run(runId);
}

async function raw(run: RunHandle, message: object): Promise<string> {
  return await world.client.workflow
    .getHandle(run.runId)
    .executeUpdate<unknown, [unknown]>('resolveOutcome', { args: [message] })
    .then(
      () => 'accepted',
      (error: unknown) => codedFailureIn(error)?.code ?? String(error),
    );
}

test('a signed retry is sent once more, and the ledger names the signature', async () => {
  const { run, request } = await lost('retry');
  bank.release('retry');
  await as(ann.signer, run).resolveOutcome(resolutionOf(request, 'acme|ann', { kind: 'retry' }));
  await run.result();
  expect(await outcomes(run)).toEqual({ 't1.c0': 'succeeded' });
  expect(bank.callsFor('retry')).toHaveLength(2);
  const ledger = await run.ledger();
  const deeds = await readDeeds(world.client, run.runId);
  expect(compareWithHistory({ before: ledger, after: ledger }, deeds)).toEqual([]);
  const parts = { namespace: 'default', workflowId: run.runId, trusted: [backend.entry, ann.entry], deeds };
  expect(checkProofs(ledger, parts)).toEqual({ faults: [], checked: 2, unchecked: 0 });
  const forged = ledger.map((entry) =>
    entry.fact.kind === 'outcome.resolved'
      ? { ...entry, fact: { ...entry.fact, answer: 'succeeded' as const, recordedHash: 'a'.repeat(64) } }
      : entry,
  );
  expect(checkProofs(forged, parts).faults).toMatchObject([{ kind: 'proof-altered' }]);
});

test('unsigned, signed for another update, by another, or for another answer it changes nothing', async () => {
  const { run, request } = await lost('forged');
  const plain = () => resolutionOf(request, 'acme|ann', { kind: 'retry' });
  const signedFor = async (message: ReturnType<typeof plain>, purpose: SignedPurpose, { signer } = ann) =>
    await signed(
      signer,
      { ...message, approver: { id: message.approver.id, groups: [] } },
      {
        purpose,
        namespace: request.namespace,
        tenant: request.tenant,
        workflowId: run.runId,
        runId: request.runId,
        jti: message.decisionId,
        person: message.approver.id,
        groups: [],
      },
    );
  expect(await raw(run, plain())).toBe('SIGNATURE_MISSING');
  expect(await raw(run, await signedFor(plain(), 'decide'))).toBe('SIGNATURE_INVALID');
  const caught = await signedFor(plain(), 'resolveOutcome');
  expect(await raw(run, { ...caught, kind: 'succeeded', result: 'x' })).toBe('SIGNATURE_INVALID');
  const stranger = { ...plain(), approver: { id: 'acme|eve', groups: [] } };
  expect(await raw(run, await signedFor(stranger, 'resolveOutcome'))).toBe('SIGNER_NOT_ENTITLED');
  expect(await raw(run, await signedFor(stranger, 'resolveOutcome', backend))).toBe('APPROVER_NOT_ENTITLED');
  expect(bank.callsFor('forged')).toHaveLength(1);
  expect(await raw(run, await signedFor({ ...plain(), kind: 'failed', message: 'x' }, 'resolveOutcome'))).toBe(
    'accepted',
  );
  await run.result();
  expect(bank.callsFor('forged')).toHaveLength(1);
});
