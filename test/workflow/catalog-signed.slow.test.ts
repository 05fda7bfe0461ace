/** The life of a catalog in trust mode `signed`: two key holders, continue-as-new, a reset, a key that is revoked. */
import { randomUUID } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { stringify } from 'yaml';
import type { CatalogHandle } from '../../client/index.ts';
import { entryOf } from '../../domain/catalog/state.ts';
import { errorOf, runCommand } from '../support/cli.ts';
import { factsOf } from '../support/world/run-record.ts';
import {
  ANN,
  ann,
  backend,
  BEN,
  ben,
  mallory,
  type SignedCatalog,
  startSignedCatalog,
  theirs,
  tighten,
} from '../support/scenes/signed-catalog.ts';
import { resetRun } from '../support/world/reset.ts';
import { until } from '../support/until.ts';

let catalog: SignedCatalog;
beforeAll(async () => {
  catalog = await startSignedCatalog();
});
afterAll(async () => catalog.stop());

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
  const { address, namespace } = catalog.engine.server;
  const where = ['--address', address, '--namespace', namespace, '--json'];
  const line = ['catalog', 'refresh', 'bank', '--as', BEN.id];
  const { directory } = catalog.engine;
  expect(errorOf(await runCommand([...line, ...where], { directory, input: '' }))).toMatchObject({
    code: 'SIGNATURE_MISSING',
  });
  expect(await runCommand([...line, '--key', 'ben.jwk', ...where], { directory, input: '' })).toMatchObject({
    exitCode: 0,
    err: '',
  });
});

test('what was signed before a rollover counts after it, and its keys go along', async () => {
  const message = await catalog.signedBy(ann, tighten(await catalog.version()));
  await catalog.world.client.workflow.getHandle(catalog.handle.workflowId).signal('nudge');
  const rolled = await until(
    async () => {
      const { signing } = await catalog.handle.snapshot();
      return signing !== undefined && signing.runId !== catalog.runId ? signing.runId : undefined;
    },
    { what: 'the next execution' },
  );
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
  const revived = await until(
    async () => {
      const { signing } = await catalog.handle.snapshot();
      return signing !== undefined && signing.runId !== catalog.runId ? signing.runId : undefined;
    },
    { what: 'the execution after the reset' },
  );
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
