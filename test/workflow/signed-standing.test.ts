/** Trust mode `signed`: what stands is proven by what was signed, and only a signed word takes it back (INV-G1, INV-G2, F22). */
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { codedFailureIn } from '../../contracts/failure.ts';
import { startEngine, type TestEngine } from '../support/engine.ts';
import { type RecordingServer, startRecordingServer } from '../support/servers/recording-server.ts';
import { codeOf } from '../support/world/run-record.ts';
import { service, writeTrust } from '../support/signing/people.ts';
import { decisionOn, requestFor, startWorld, type World } from '../support/world/world.ts';

let engine: TestEngine;
let bank: RecordingServer;
let world: World;

const backend = service('backend');
const ANN = 'acme|ann';

beforeAll(async () => {
  engine = await startEngine();
  bank = await startRecordingServer();
  await writeTrust(join(engine.directory, 'trust.jwks'), backend);
  world = await startWorld({
    engine,
    client: { signer: backend.signer },
    config: {
      policy: { approvers: { ids: [ANN], remember: ['tool'] } },
      servers: { bank: { url: bank.url, credentials: { kind: 'none' } } },
      trust: { mode: 'signed', jwks: 'trust.jwks' },
    },
  });
});
afterAll(async () => {
  await world.stop();
  await bank.close();
  await engine.stop();
});

const call = (amount: number, tool = 'pay') => ({
  calls: [{ tool: `bank/${tool}`, arguments: { purpose: 'signed', amount } }],
});

test('a signed approval answers later calls, and an unsigned word does not take it back', async () => {
  const steps = [call(1), call(2), call(0, 'bare'), call(3), { text: 'done' }];
  const run = await world.start(steps, { initiator: { id: ANN } });
  const first = await requestFor(run, 't1.c0');
  const decision = Object.assign(decisionOn(first, ANN), { comment: 'seen', remember: { scope: 'tool' as const } });
  await run.decide(decision);
  const pause = await requestFor(run, 't3.c0');
  expect(bank.callsFor('signed').map(({ arguments: args }) => args['amount'])).toEqual([1, 2]);
  const message = { standing: decision.decisionId, by: { id: ANN, groups: [] } };
  const raw = world.client.workflow.getHandle(run.runId).executeUpdate('forget', { args: [message] });
  expect(
    await raw.then(
      () => 'taken',
      (error: unknown) => codedFailureIn(error)?.code,
    ),
  ).toBe('SIGNATURE_MISSING');
  expect(await codeOf(run.forget({ ...message, by: { id: 'acme|mallory' } }))).toBe('APPROVER_NOT_ENTITLED');
  expect((await run.state()).standing).toHaveLength(1);
  expect(await run.forget(message)).toMatchObject({ forgottenBy: ANN });
  await run.decide(decisionOn(pause, ANN, 'reject'));
  const last = await requestFor(run, 't4.c0');
  expect(last.status).toBe('open');
  await run.decide(decisionOn(last, ANN, 'reject'));
  await run.result();
  expect(bank.callsFor('signed')).toHaveLength(2);
});
