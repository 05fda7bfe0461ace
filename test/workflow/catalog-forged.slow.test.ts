/**
 * Catalogs in trust mode `signed`, against somebody who may write to the namespace: messages by Temporal's own client, as its UI
 * sends them. Once a catalog knows of keys, none that is not proven enters history (INV-G2).
 */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { catalogStart, type ToolCatalog } from '../../client/catalog/start.ts';
import { codedFailureIn } from '../../contracts/failure.ts';
import type { CatalogAck } from '../../contracts/schemas/catalog.ts';
import { codeOf } from '../support/world/run-record.ts';
import {
  ANN,
  ann,
  mallory,
  type SignedCatalog,
  startSignedCatalog,
  theirs,
  tighten,
} from '../support/scenes/signed-catalog.ts';
import { person } from '../support/signing/people.ts';

let catalog: SignedCatalog;
beforeAll(async () => {
  catalog = await startSignedCatalog();
});
afterAll(async () => catalog.stop());

const now = (): number => Math.floor(Date.now() / 1_000);

describe('a change that is not proven never enters history', () => {
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
      'expired',
      async (at) => await catalog.signedBy(ann, tighten(at), { iat: now() - 400, exp: now() - 100 }),
      'SIGNATURE_EXPIRED',
    ],
    [
      'signed to refresh',
      async (at) => await catalog.signedBy(ann, tighten(at), { purpose: 'catalog.refresh' }),
      'SIGNATURE_INVALID',
    ],
    [
      'signed for another catalog',
      async (at) => await catalog.signedBy(ann, tighten(at), { workflowId: 'catalog/default/x' }),
      'SIGNATURE_INVALID',
    ],
    [
      'signed for another tenant',
      async (at) => await catalog.signedBy(ann, tighten(at), { tenant: 'theirs' }),
      'SIGNATURE_INVALID',
    ],
    [
      'signed in another namespace',
      async (at) => await catalog.signedBy(ann, tighten(at), { namespace: 'other' }),
      'SIGNATURE_INVALID',
    ],
    [
      'signed for another Temporal run',
      async (at) => await catalog.signedBy(ann, tighten(at), { runId: randomUUID() }),
      'SIGNATURE_INVALID',
    ],
    [
      'for another request',
      async (at) => await catalog.signedBy(ann, tighten(at), { jti: 'other' }),
      'SIGNATURE_INVALID',
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
