/**
 * Catalogs in trust mode `signed`: their life, with two key holders, continue-as-new, a reset, a key that is revoked;
 * and somebody who may write to the namespace, and sends messages by Temporal's own client, as its UI does. Once a
 * catalog knows of keys, none that is not proven enters history (INV-G2).
 */
import { randomUUID } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { stringify } from 'yaml';
import { catalogStart, type ToolCatalog } from '../../client/catalog/catalog-handle.ts';
import type { CatalogHandle } from '../../client/index.ts';
import { codedFailureIn } from '../../contracts/failure.ts';
import type { CatalogAck } from '../../contracts/schemas/catalog.ts';
import { entryOf } from '../../domain/catalog/state.ts';
import { commandsAt, errorOf } from '../support/cli.ts';
import { codeOf, factsOf } from '../support/world/run-record.ts';
import {
  ANN,
  ann,
  backend,
  BEN,
  ben,
  mallory,
  startSignedCatalog,
  theirs,
  tighten,
} from '../support/scenes/signed-catalog.ts';
import { person, type TestClaims } from '../support/signing/people.ts';
import { until } from '../support/until.ts';
import { resetRun } from '../support/world/reset.ts';
import { during } from '../support/world/during.ts';

const catalog = during(() => startSignedCatalog());

/** Waits until the catalog goes on under another Temporal run, and returns its id. */
async function nextExecution(): Promise<string> {
  return await until(
    async () => {
      const { signing } = await catalog.handle.snapshot();
      return signing !== undefined && signing.runId !== catalog.runId ? signing.runId : undefined;
    },
    { what: 'the next execution' },
  );
}

const now = (): number => Math.floor(Date.now() / 1_000);

describe('a change that is not proven never enters history', () => {
  test.each<readonly [string, () => TestClaims, string]>([
    ['expired', () => ({ iat: now() - 400, exp: now() - 100 }), 'SIGNATURE_EXPIRED'],
    ['signed to refresh', () => ({ purpose: 'catalog.refresh' }), 'SIGNATURE_INVALID'],
    ['signed for another catalog', () => ({ workflowId: 'catalog/default/x' }), 'SIGNATURE_INVALID'],
    ['signed for another tenant', () => ({ tenant: 'theirs' }), 'SIGNATURE_INVALID'],
    ['signed in another namespace', () => ({ namespace: 'other' }), 'SIGNATURE_INVALID'],
    ['signed for another Temporal run', () => ({ runId: randomUUID() }), 'SIGNATURE_INVALID'],
    ['for another request', () => ({ jti: 'other' }), 'SIGNATURE_INVALID'],
  ])('%s', async (_what, claims, code) => {
    const before = await catalog.version();
    expect(await catalog.refused('setToolPolicies', await catalog.signedBy(ann, tighten(before), claims()))).toBe(code);
    expect(await catalog.version()).toBe(before);
  });

  test.each<readonly [string, (at: number) => Promise<object>, string]>([
    ['without a signature', async (at) => tighten(at), 'SIGNATURE_MISSING'],
    ['with one that is none', async (at) => ({ ...tighten(at), signature: 'e30.e30.' }), 'SIGNATURE_INVALID'],
    [
      'with a key of no one',
      async (at) => await catalog.signedBy(person('stranger', 'ann'), tighten(at)),
      'TRUST_KEY_UNKNOWN',
    ],
    [
      'with a key of no one under a trusted name',
      async (at) => await catalog.signedBy(person('ann', 'ann'), tighten(at)),
      'SIGNATURE_INVALID',
    ],
    ['with the key of another tenant', async (at) => await catalog.signedBy(theirs, tighten(at)), 'TRUST_KEY_UNKNOWN'],
    ['by somebody who is not ann', async (at) => await catalog.signedBy(mallory, tighten(at)), 'SIGNER_NOT_ENTITLED'],
    [
      'by somebody who may nothing',
      async (at) => await catalog.signedBy(mallory, tighten(at, { by: { id: 'acme|mallory', groups: ['crew'] } })),
      'CATALOG_FORBIDDEN',
    ],
    [
      'group escalation',
      async (at) => await catalog.signedBy(mallory, tighten(at, { by: { id: 'acme|mallory', groups: ['admins'] } })),
      'SIGNER_NOT_ENTITLED',
    ],
    [
      'altered',
      async (at) => ({ ...(await catalog.signedBy(ann, tighten(at))), changes: [{ tool: 'pay', enabled: false }] }),
      'SIGNATURE_INVALID',
    ],
    ['of another version', async (at) => await catalog.signedBy(ann, tighten(at + 7)), 'CATALOG_VERSION_CONFLICT'],
  ])('%s', async (_what, forge, code) => {
    const before = await catalog.version();
    expect(await catalog.refused('setToolPolicies', await forge(before))).toBe(code);
    expect(await catalog.version()).toBe(before);
  });

  test.each([
    ['connect', { url: 'https://evil.example/mcp', trusted: true }],
    ['refresh', {}],
    ['disconnect', { expectedVersion: 1 }],
    ['decide', { changeId: 'change-1', digest: 'a'.repeat(64), verdict: 'approve' }],
  ])('%s, unsigned or signed for something else', async (update, fields) => {
    const message = { requestId: randomUUID(), by: ANN, ...fields };
    expect(await catalog.refused(update, message)).toBe('SIGNATURE_MISSING');
    expect(await catalog.refused(update, await catalog.signedBy(ann, message))).toBe('SIGNATURE_INVALID');
  });

  test('a client with a key that is not trusted is told so', async () => {
    const stranger = catalog.through(person('never', 'ann'));
    expect(await codeOf(stranger.refresh({ by: ANN }))).toBe('TRUST_KEY_UNKNOWN');
  });
});

test('a catalog that is begun without a signature gets nowhere, and knows from then on', async () => {
  const other = catalog.world.countersign.catalog('fresh');
  const message = { requestId: randomUUID(), by: ANN, url: catalog.bank.url, trusted: false };
  const begun = catalog.world.client.workflow.executeUpdateWithStart<ToolCatalog, CatalogAck, [object]>('connect', {
    args: [message],
    startWorkflowOperation: catalogStart(other, catalog.world.config.taskQueue),
  });
  expect(
    await begun.then(
      () => 'accepted',
      (error: unknown) => codedFailureIn(error)?.code,
    ),
  ).toBe('SIGNATURE_MISSING');
  expect(await codeOf(other.snapshot())).toBe('CATALOG_NOT_FOUND');
  expect(await catalog.refused('connect', { ...message, requestId: randomUUID() }, other.workflowId)).toBe(
    'SIGNATURE_MISSING',
  );
});

describe('a client with a key learns what the catalog wants before it sends', () => {
  test('of two who connect a new server at once, neither sends without a signature', async () => {
    const connect = async () =>
      await catalog
        .through(ann, 'twice')
        .connect({ by: ANN, url: catalog.bank.url })
        .then(
          ({ status }) => status,
          (error: unknown) => codedFailureIn(error)?.code,
        );
    expect(await Promise.all([connect(), connect()])).not.toContain('SIGNATURE_MISSING');
    expect((await catalog.through(ann, 'twice').snapshot()).status).toBe('connected');
  });

  test('one that has not read its keys yet is asked to', async () => {
    const other = catalog.through(ann, 'keyless');
    const { workflowId, ...start } = catalogStart(other, catalog.world.config.taskQueue).options;
    await catalog.world.client.workflow.signalWithStart('toolCatalog', { ...start, workflowId, signal: 'nudge' });
    expect(await codeOf(other.disconnect({ by: ANN, expectedVersion: 0 }))).toBe('CATALOG_NOT_FOUND');
  });
});

test('the ledger says with which key the server was connected', async () => {
  expect(factsOf(await catalog.handle.ledger(), 'catalog.connected')).toMatchObject([
    { by: ANN, signature: { kid: 'ann', iss: 'acme' } },
  ]);
});

test('INV-D3: what was sent again gets its first answer, and changes nothing twice', async () => {
  const message = await catalog.signedBy(ann, tighten(await catalog.version()));
  expect(await catalog.sent('setToolPolicies', message)).toBe('accepted');
  const after = await catalog.version();
  expect(await catalog.sent('setToolPolicies', message)).toBe('accepted');
  expect(await catalog.version()).toBe(after);
  expect(await catalog.refused('setToolPolicies', { ...message, requestId: randomUUID() })).toBe('SIGNATURE_INVALID');
});

describe('a second administrator', () => {
  const loosened = async (handle: CatalogHandle) => {
    await handle.setToolPolicies({
      by: ANN,
      expectedVersion: await catalog.version(),
      changes: [{ tool: 'pay', requiresApproval: false, denied: false }],
    });
    const pending = (await catalog.handle.snapshot()).pending.at(-1);
    if (pending === undefined) throw new Error('nothing waits');
    return { changeId: pending.changeId, digest: pending.digest, verdict: 'approve' as const };
  };

  test('is another key holder', async () => {
    const through = catalog.through(backend);
    const change = await loosened(through);
    const message = await catalog.signedBy(
      backend,
      { requestId: randomUUID(), by: BEN, ...change },
      { purpose: 'catalog.decide' },
    );
    expect(await catalog.refused('decide', message)).toBe('APPROVER_NOT_ENTITLED');
    expect(entryOf(await catalog.handle.snapshot(), 'pay')?.setting).toMatchObject({ requiresApproval: true });
    expect(await catalog.through(ben).decide({ by: BEN, ...change })).toMatchObject({ status: 'applied' });
    expect(factsOf(await catalog.handle.ledger(), 'catalog.policy').at(-1)).toMatchObject({
      by: ANN,
      signature: { kid: 'backend' },
      countersignedBy: BEN,
      countersignature: { kid: 'ben' },
    });
  });
});

test('the command line signs with --key', async () => {
  const { config } = catalog.world;
  await writeFile(
    join(catalog.engine.directory, 'countersign.yaml'),
    stringify({ taskQueue: config.taskQueue, catalog: config.catalog, trust: config.trust }),
  );
  const key = { ...ben.privateJwk, kid: ben.kid, countersign: ben.entry.countersign };
  await writeFile(join(catalog.engine.directory, 'ben.jwk'), JSON.stringify(key));
  const line = ['catalog', 'refresh', 'bank', '--as', BEN.id, '--json'];
  const cli = commandsAt(catalog.engine);
  expect(errorOf(await cli(line))).toMatchObject({
    code: 'SIGNATURE_MISSING',
  });
  expect(await cli([...line, '--key', 'ben.jwk'])).toMatchObject({
    exitCode: 0,
    err: '',
  });
});

test('what was signed before a rollover counts after it, and its keys go along', async () => {
  const message = await catalog.signedBy(ann, tighten(await catalog.version()));
  await catalog.world.client.workflow.getHandle(catalog.handle.workflowId).signal('nudge');
  const rolled = await nextExecution();
  expect(await catalog.refused('setToolPolicies', tighten(await catalog.version()))).toBe('SIGNATURE_MISSING');
  expect(await catalog.sent('setToolPolicies', message)).toBe('accepted');
  catalog.runId = rolled;
});

test('INV-G2: after a reset nothing counts that was signed before it', async () => {
  const message = await catalog.signedBy(
    ann,
    tighten(await catalog.version(), { changes: [{ tool: 'pay', deadlineSeconds: 60 }] }),
  );
  await resetRun(catalog.world.client, { workflowId: catalog.handle.workflowId }, 'first');
  const revived = await nextExecution();
  expect(await catalog.sent('setToolPolicies', message)).toBe('SIGNATURE_INVALID');
  catalog.runId = revived;
  expect(await catalog.sent('setToolPolicies', await catalog.signedBy(ann, tighten(await catalog.version())))).toBe(
    'accepted',
  );
});

test('a key that was revoked counts for nothing at once', async () => {
  await catalog.trust(backend, ben, mallory, theirs);
  const before = await catalog.version();
  const message = tighten(before, { changes: [{ tool: 'pay', deadlineSeconds: 90 }] });
  // The catalog does not know yet; its review does, and tells it.
  expect(await catalog.sent('setToolPolicies', await catalog.signedBy(ann, message))).toBe('SIGNER_NOT_ENTITLED');
  expect(await catalog.version()).toBe(before);
  expect(
    await catalog.refused('setToolPolicies', await catalog.signedBy(ann, { ...message, requestId: randomUUID() })),
  ).toBe('TRUST_KEY_UNKNOWN');
});
