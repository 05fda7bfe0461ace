/** Trust mode `signed`: runs that somebody starts past the client library, by Temporal's own client (§3.3, D-6, D-7). */
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { defaultPayloadConverter } from '@temporalio/common';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { codedFailureIn } from '../../contracts/failure.ts';
import { startEngine, type TestEngine } from '../support/engine.ts';
import { type RecordingServer, startRecordingServer } from '../support/servers/recording-server.ts';
import { executions } from '../support/world/run-record.ts';
import { claimsFor, person, signedWith, type TestClaims, writeTrust } from '../support/signing/people.ts';
import { openRequests, startWorld, type World } from '../support/world/world.ts';

let engine: TestEngine;
let bank: RecordingServer;
let world: World;

const ann = person('ann', 'ann');
const mallory = person('mallory', 'mallory');
const steps = [{ calls: [{ tool: 'bank/pay', arguments: { purpose: 'direct' } }] }, { text: 'done' }];

beforeAll(async () => {
  engine = await startEngine();
  bank = await startRecordingServer();
  await writeTrust(join(engine.directory, 'trust.jwks'), ann, mallory);
  const policy = { strategy: 'never' } as const;
  const servers = { bank: { url: bank.url, credentials: { kind: 'none' } } } as const;
  const trust = { mode: 'signed', jwks: 'trust.jwks' } as const;
  world = await startWorld({ engine, client: { signer: ann.signer }, config: { policy, servers, trust } });
});
afterAll(async () => {
  expect(bank.callsFor('direct')).toHaveLength(0);
  await world.stop();
  await bank.close();
  await engine.stop();
});

const now = (): number => Math.floor(Date.now() / 1_000);

const direct = async (workflowId: string, spec: object): Promise<string> => {
  try {
    await world.client.workflow.execute('agentRun', {
      workflowId,
      taskQueue: world.config.taskQueue,
      args: [spec],
      workflowIdReusePolicy: 'ALLOW_DUPLICATE',
    });
    return 'completed';
  } catch (error) {
    return codedFailureIn(error instanceof Error ? error.cause : error)?.code ?? 'no code';
  }
};
const specOf = () => ({ ...world.spec(steps), initiator: { id: 'acme|ann', groups: [], tenant: 'default' } });
const startClaims = (workflowId: string, over: TestClaims = {}): TestClaims => ({
  purpose: 'start',
  namespace: world.client.options.namespace,
  tenant: 'default',
  workflowId,
  iss: 'acme',
  sub: 'ann',
  ...over,
});

test.each<readonly [string, (id: string) => Promise<object>, string]>([
  ['unsigned', async () => specOf(), 'SIGNATURE_MISSING'],
  [
    'signed by somebody else than its initiator',
    async (id) => {
      const spec = specOf();
      return { ...spec, signature: await signedWith(mallory, claimsFor(spec, startClaims(id))) };
    },
    'SIGNER_NOT_ENTITLED',
  ],
  [
    'in a tenant that its key has no say in',
    async (id) => {
      const spec = { ...specOf(), initiator: { id: 'acme|ann', groups: [], tenant: 'theirs' } };
      return { ...spec, signature: await signedWith(ann, claimsFor(spec, startClaims(id, { tenant: 'theirs' }))) };
    },
    'SIGNER_NOT_ENTITLED',
  ],
  [
    'with a looser policy than was signed',
    async (id) => {
      const spec = specOf();
      const signature = await signedWith(ann, claimsFor({ ...spec, policy: { strategy: 'always' } }, startClaims(id)));
      return { ...spec, signature };
    },
    'SIGNATURE_INVALID',
  ],
  [
    'under another id than was signed',
    async () => {
      const spec = specOf();
      return { ...spec, signature: await signedWith(ann, claimsFor(spec, startClaims('other'))) };
    },
    'SIGNATURE_INVALID',
  ],
  [
    'with a signature that was caught and kept',
    async (id) => {
      const spec = specOf();
      const past = { iat: now() - 900, exp: now() - 600 };
      return { ...spec, signature: await signedWith(ann, claimsFor(spec, startClaims(id), past)) };
    },
    'SIGNATURE_EXPIRED',
  ],
])('a start %s is refused', async (_what, forge, code) => {
  const id = `direct-${randomUUID()}`;
  expect(await direct(id, await forge(id))).toBe(code);
});

test('a run that was terminated and started again under the same id with a looser spec is refused (D-6)', async () => {
  const victim = await world.start(steps, { initiator: { id: 'acme|ann' }, policy: { strategy: 'always' } });
  await openRequests(victim);
  const [execution] = await executions(world, victim.runId);
  const payload = execution?.events[0]?.workflowExecutionStartedEventAttributes?.input?.payloads?.[0];
  if (payload === undefined || payload === null) throw new Error('no input');
  const genuine = defaultPayloadConverter.fromPayload<Record<string, unknown>>(payload);
  await world.client.workflow.getHandle(victim.runId).terminate();
  const { policy: _, ...looser } = genuine;
  expect(await direct(victim.runId, looser)).toBe('SIGNATURE_INVALID');
});
