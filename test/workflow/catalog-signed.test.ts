/**
 * Catalogs in trust mode `signed`, against somebody who may write to the namespace: messages by Temporal's own client, as its UI
 * sends them. Once a catalog knows of keys, none that is not proven enters history (INV-G2).
 */
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { type CatalogHandle, Countersign } from '../../client/index.ts';
import { catalogStart, type ToolCatalog } from '../../client/catalog-start.ts';
import { codedFailureIn } from '../../contracts/failure.ts';
import type { CatalogAck } from '../../contracts/schemas/catalog.ts';
import { entryOf } from '../../domain/catalog.ts';
import { startEngine, type TestEngine } from '../support/engine.ts';
import { type RecordingServer, startRecordingServer } from '../support/recording-server.ts';
import { codeOf, executions, factsOf } from '../support/run-record.ts';
import { claimsFor, person, service, signedWith, type TestClaims, type TestKey, writeTrust } from '../support/trust.ts';
import { until } from '../support/until.ts';
import { startWorld, type World } from '../support/world.ts';

let engine: TestEngine;
let bank: RecordingServer;
let world: World;
let catalog: CatalogHandle;
let runId: string;

const backend = service('backend', ['admins']);
const ann = person('ann', 'ann');
const ben = person('ben', 'ben');
const mallory = person('mallory', 'mallory', ['crew']);
const theirs = person('theirs', 'ann', [], { tenants: ['theirs'] });
const ANN = { id: 'acme|ann', groups: [] as string[] };
const BEN = { id: 'acme|ben', groups: [] as string[] };

const clientOf = (key: TestKey): Countersign =>
  new Countersign({
    client: world.client,
    artifacts: world.artifacts,
    taskQueue: world.config.taskQueue,
    signer: key.signer,
  });

beforeAll(async () => {
  engine = await startEngine();
  bank = await startRecordingServer();
  await writeTrust(join(engine.directory, 'trust.jwks'), backend, ann, ben, mallory, theirs);
  world = await startWorld({
    engine,
    config: {
      catalog: {
        administrators: [{ ids: ['acme|ann', 'acme|ben'], groups: ['admins'], may: ['connect', 'loosen', 'tighten'] }],
        origins: [new URL(bank.url).origin],
        loosening: 'countersign',
      },
      trust: { mode: 'signed', jwks: 'trust.jwks' },
    },
  });
  catalog = clientOf(ann).catalog('bank');
  const { refresh = 0 } = await catalog.connect({ by: ANN, url: bank.url });
  await catalog.settled(refresh);
  runId = (await catalog.snapshot()).signing?.runId ?? '';
});
afterAll(async () => {
  await world.stop();
  await bank.close();
  await engine.stop();
});

const length = async (workflowId = catalog.workflowId): Promise<number> =>
  (await executions(world, workflowId)).reduce((sum, { events }) => sum + events.length, 0);

/** Straight to Temporal; nothing of it stands in history, neither an acceptance nor a refusal. */
async function refused(update: string, message: object, workflowId = catalog.workflowId): Promise<string> {
  const before = await length(workflowId);
  const code = await sent(update, message, workflowId);
  expect(await length(workflowId)).toBe(before);
  return code;
}

async function sent(update: string, message: object, workflowId = catalog.workflowId): Promise<string> {
  try {
    await world.client.workflow.getHandle(workflowId).executeUpdate<unknown, [object]>(update, { args: [message] });
    return 'accepted';
  } catch (error) {
    return codedFailureIn(error)?.code ?? 'no code';
  }
}

const version = async (): Promise<number> => (await catalog.snapshot()).policyVersion;

const tighten = (expectedVersion: number, over: object = {}) => ({
  requestId: randomUUID(),
  by: ANN,
  expectedVersion,
  changes: [{ tool: 'pay', denied: true }],
  ...over,
});

async function signedBy<T extends { readonly requestId: string; readonly by: typeof ANN }>(
  key: TestKey,
  message: T,
  over: TestClaims = {},
): Promise<T & { signature: string }> {
  const [iss, sub] = message.by.id.split('|');
  const { namespace } = world.client.options;
  const about = { purpose: 'catalog.setToolPolicies', namespace, tenant: 'default', workflowId: catalog.workflowId };
  const claims = claimsFor(
    message,
    { ...about, runId, iss, sub, groups: message.by.groups },
    { jti: message.requestId, ...over },
  );
  return { ...message, signature: await signedWith(key, claims) };
}

const now = (): number => Math.floor(Date.now() / 1_000);

test('the ledger says with which key the server was connected', async () => {
  expect(factsOf(await catalog.ledger(), 'catalog.connected')).toMatchObject([
    { by: ANN, signature: { kid: 'ann', iss: 'acme' } },
  ]);
});

describe('a change that is not proven never enters history', () => {
  test.each<readonly [string, (at: number) => Promise<object>, string]>([
    ['without a signature', async (at) => tighten(at), 'SIGNATURE_MISSING'],
    ['with one that is none', async (at) => ({ ...tighten(at), signature: 'e30.e30.' }), 'SIGNATURE_INVALID'],
    ['with a key of no one', async (at) => await signedBy(person('stranger', 'ann'), tighten(at)), 'TRUST_KEY_UNKNOWN'],
    [
      'with a key of no one under a trusted name',
      async (at) => await signedBy(person('ann', 'ann'), tighten(at)),
      'SIGNATURE_INVALID',
    ],
    ['with the key of another tenant', async (at) => await signedBy(theirs, tighten(at)), 'TRUST_KEY_UNKNOWN'],
    ['by somebody who is not ann', async (at) => await signedBy(mallory, tighten(at)), 'SIGNER_NOT_ENTITLED'],
    [
      'by somebody who may nothing',
      async (at) => await signedBy(mallory, tighten(at, { by: { id: 'acme|mallory', groups: ['crew'] } })),
      'CATALOG_FORBIDDEN',
    ],
    [
      'group escalation',
      async (at) => await signedBy(mallory, tighten(at, { by: { id: 'acme|mallory', groups: ['admins'] } })),
      'SIGNER_NOT_ENTITLED',
    ],
    [
      'expired',
      async (at) => await signedBy(ann, tighten(at), { iat: now() - 400, exp: now() - 100 }),
      'SIGNATURE_EXPIRED',
    ],
    [
      'signed to refresh',
      async (at) => await signedBy(ann, tighten(at), { purpose: 'catalog.refresh' }),
      'SIGNATURE_INVALID',
    ],
    [
      'signed for another catalog',
      async (at) => await signedBy(ann, tighten(at), { workflowId: 'catalog/default/x' }),
      'SIGNATURE_INVALID',
    ],
    [
      'signed for another tenant',
      async (at) => await signedBy(ann, tighten(at), { tenant: 'theirs' }),
      'SIGNATURE_INVALID',
    ],
    [
      'signed in another namespace',
      async (at) => await signedBy(ann, tighten(at), { namespace: 'other' }),
      'SIGNATURE_INVALID',
    ],
    [
      'signed for another Temporal run',
      async (at) => await signedBy(ann, tighten(at), { runId: randomUUID() }),
      'SIGNATURE_INVALID',
    ],
    ['for another request', async (at) => await signedBy(ann, tighten(at), { jti: 'other' }), 'SIGNATURE_INVALID'],
    [
      'altered',
      async (at) => ({ ...(await signedBy(ann, tighten(at))), changes: [{ tool: 'pay', enabled: false }] }),
      'SIGNATURE_INVALID',
    ],
    ['of another version', async (at) => await signedBy(ann, tighten(at + 7)), 'CATALOG_VERSION_CONFLICT'],
  ])('%s', async (_what, forge, code) => {
    const before = await version();
    expect(await refused('setToolPolicies', await forge(before))).toBe(code);
    expect(await version()).toBe(before);
  });

  test.each([
    ['connect', { url: 'https://evil.example/mcp', trusted: true }],
    ['refresh', {}],
    ['disconnect', { expectedVersion: 1 }],
    ['decide', { changeId: 'change-1', digest: 'a'.repeat(64), verdict: 'approve' }],
  ])('%s, unsigned or signed for something else', async (update, fields) => {
    const message = { requestId: randomUUID(), by: ANN, ...fields };
    expect(await refused(update, message)).toBe('SIGNATURE_MISSING');
    expect(await refused(update, await signedBy(ann, message))).toBe('SIGNATURE_INVALID');
  });

  test('a client with a key that is not trusted is told so', async () => {
    const stranger = clientOf(person('never', 'ann')).catalog('bank');
    expect(await codeOf(stranger.refresh({ by: ANN }))).toBe('TRUST_KEY_UNKNOWN');
  });
});

test('a catalog that is begun without a signature gets nowhere, and knows from then on', async () => {
  const other = world.countersign.catalog('fresh');
  const message = { requestId: randomUUID(), by: ANN, url: bank.url, trusted: false };
  const begun = world.client.workflow.executeUpdateWithStart<ToolCatalog, CatalogAck, [object]>('connect', {
    args: [message],
    startWorkflowOperation: catalogStart(other, world.config.taskQueue),
  });
  expect(
    await begun.then(
      () => 'accepted',
      (error: unknown) => codedFailureIn(error)?.code,
    ),
  ).toBe('SIGNATURE_MISSING');
  expect(await codeOf(other.snapshot())).toBe('CATALOG_NOT_FOUND');
  expect(await refused('connect', { ...message, requestId: randomUUID() }, other.workflowId)).toBe(
    'SIGNATURE_MISSING',
  );
});

test('INV-D3: what was sent again gets its first answer, and changes nothing twice', async () => {
  const message = await signedBy(ann, tighten(await version()));
  expect(await sent('setToolPolicies', message)).toBe('accepted');
  const after = await version();
  expect(await sent('setToolPolicies', message)).toBe('accepted');
  expect(await version()).toBe(after);
  expect(await refused('setToolPolicies', { ...message, requestId: randomUUID() })).toBe('SIGNATURE_INVALID');
});

describe('a second administrator', () => {
  const loosened = async (handle: CatalogHandle) => {
    await handle.setToolPolicies({
      by: ANN,
      expectedVersion: await version(),
      changes: [{ tool: 'pay', requiresApproval: false, denied: false }],
    });
    const pending = (await catalog.snapshot()).pending.at(-1);
    if (pending === undefined) throw new Error('nothing waits');
    return { changeId: pending.changeId, digest: pending.digest, verdict: 'approve' as const };
  };

  test('is another key holder', async () => {
    const through = clientOf(backend).catalog('bank');
    const change = await loosened(through);
    const message = await signedBy(
      backend,
      { requestId: randomUUID(), by: BEN, ...change },
      { purpose: 'catalog.decide' },
    );
    expect(await refused('decide', message)).toBe('APPROVER_NOT_ENTITLED');
    expect(entryOf(await catalog.snapshot(), 'pay')?.setting).toMatchObject({ requiresApproval: true });
    expect(await clientOf(ben).catalog('bank').decide({ by: BEN, ...change })).toMatchObject({ status: 'applied' });
    expect(factsOf(await catalog.ledger(), 'catalog.policy').at(-1)).toMatchObject({
      by: ANN,
      signature: { kid: 'backend' },
      countersignedBy: BEN,
      countersignature: { kid: 'ben' },
    });
  });
});

test('what was signed before a rollover counts after it, and its keys go along', async () => {
  const message = await signedBy(ann, tighten(await version()));
  await world.client.workflow.getHandle(catalog.workflowId).signal('nudge');
  const rolled = await until(
    async () => {
      const { signing } = await catalog.snapshot();
      return signing !== undefined && signing.runId !== runId ? signing.runId : undefined;
    },
    { what: 'the next execution' },
  );
  expect(await refused('setToolPolicies', tighten(await version()))).toBe('SIGNATURE_MISSING');
  expect(await sent('setToolPolicies', message)).toBe('accepted');
  runId = rolled;
});

test('INV-G2: after a reset nothing counts that was signed before it', async () => {
  const message = await signedBy(ann, tighten(await version(), { changes: [{ tool: 'pay', deadlineSeconds: 60 }] }));
  const last = (await executions(world, catalog.workflowId)).at(-1);
  const task = last?.events.find(
    ({ workflowTaskCompletedEventAttributes: done }) => done !== undefined && done !== null,
  );
  await world.client.workflowService.resetWorkflowExecution({
    namespace: world.client.options.namespace,
    workflowExecution: { workflowId: catalog.workflowId, runId: last?.runId ?? '' },
    reason: 'test',
    requestId: randomUUID(),
    workflowTaskFinishEventId: task?.eventId ?? null,
  });
  const revived = await until(
    async () => {
      const { signing } = await catalog.snapshot();
      return signing !== undefined && signing.runId !== runId ? signing.runId : undefined;
    },
    { what: 'the execution after the reset' },
  );
  expect(await sent('setToolPolicies', message)).toBe('SIGNATURE_INVALID');
  runId = revived;
  expect(await sent('setToolPolicies', await signedBy(ann, tighten(await version())))).toBe('accepted');
});

test('a key that was revoked counts for nothing at once', async () => {
  await writeTrust(join(engine.directory, 'trust.jwks'), backend, ben, mallory, theirs);
  const before = await version();
  const message = tighten(before, { changes: [{ tool: 'pay', deadlineSeconds: 90 }] });
  // The catalog does not know yet; its review does, and tells it.
  expect(await sent('setToolPolicies', await signedBy(ann, message))).toBe('SIGNER_NOT_ENTITLED');
  expect(await version()).toBe(before);
  expect(await refused('setToolPolicies', await signedBy(ann, { ...message, requestId: randomUUID() }))).toBe(
    'TRUST_KEY_UNKNOWN',
  );
});
