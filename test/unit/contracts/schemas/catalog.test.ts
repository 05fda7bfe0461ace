/** Catalogs by their ids, and what stands behind the hashes of a snapshot. */
import { createHash } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { CatalogHandle } from '../../../../client/catalog/catalog-handle.ts';
import { catalogOf, readDefinitions } from '../../../../client/catalog/list.ts';
import type { Engine } from '../../../../client/engine/engine.ts';
import type { CatalogEntry } from '../../../../contracts/schemas/catalog.ts';
import type { ServerTools, ToolDefinition } from '../../../../contracts/schemas/tool.ts';
import { catalogId } from '../../../../domain/catalog/state.ts';
import { hashOf } from '../../../../domain/text/canonical.ts';
import { catalogEntry } from '../../../support/builders/catalog.ts';
import { forAll } from '../../../support/for-all.ts';

test('a workflow id names its catalog, and nothing else does', () => {
  const identifier = fc.stringMatching(/^[\x21-\x7e]{1,20}$/);
  forAll(identifier, identifier, (tenant, server) => {
    expect(catalogOf(catalogId({ tenant, server }))).toEqual({ tenant, server });
  });
  for (const id of ['run-1', 'catalog', 'catalog/a', 'catalog/a/b/c', 'catalogs/a/b', 'catalog/%/b', 'catalog/%61/b'])
    expect(catalogOf(id)).toBeUndefined();
});

describe('before anything is sent', () => {
  // Sound: nothing of it may be used.
  const engine = {} as Engine;
  const options = { artifacts: undefined, taskQueue: 'q' };
  const by = { id: 'ann' };
  const invalid = expect.objectContaining({ code: 'CATALOG_INVALID' });

  test.each(['no:name', '', '../x', 'a'.repeat(65)])('a server cannot be called "%s"', (server) => {
    expect(() => new CatalogHandle(engine, { tenant: 'acme', server }, options)).toThrow(invalid);
  });

  test('a tenant neither has spaces', () => {
    expect(() => new CatalogHandle(engine, { tenant: 'a b', server: 'files' }, options)).toThrow(invalid);
  });

  const files = new CatalogHandle(engine, { tenant: 'acme', server: 'files' }, options);

  test.each([
    'ftp://files.example/mcp',
    'files',
    'https://ann:canary@files.example/mcp',
    'https://files.example/mcp?access_token=canary',
  ])('%s is refused as an address, and not repeated (INV-S1)', async (url) => {
    const error: unknown = await files.connect({ by, url }).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: 'CATALOG_INVALID', facts: { path: 'url' } });
    expect((error as Error).message).not.toContain('canary');
  });

  test('messages that are none are refused', async () => {
    await expect(files.setToolPolicies({ by, expectedVersion: 1, changes: [] })).rejects.toMatchObject({
      code: 'CATALOG_INVALID',
      facts: { path: 'changes' },
    });
    await expect(files.disconnect({ by, expectedVersion: -1 })).rejects.toMatchObject({ code: 'CATALOG_INVALID' });
    await expect(files.refresh({ by: { id: '' } })).rejects.toMatchObject({ facts: { path: 'by.id' } });
    await expect(files.decide({ by, changeId: 'change-1', digest: 'abc', verdict: 'approve' })).rejects.toMatchObject({
      facts: { path: 'digest' },
    });
  });

  test('definitions need access to the artifact store', async () => {
    const listings = { 1: { sha256: 'a'.repeat(64), bytes: 2, contentType: 'application/json' } };
    const entry = catalogEntry({ definition: { hash: 'b'.repeat(64), refresh: 1 } });
    await expect(files.definitions({ entries: [entry], listings })).rejects.toMatchObject({ code: 'ARTIFACT_MISSING' });
  });
});

describe('definitions', () => {
  const stored = new Map<string, Uint8Array>();
  const artifacts = { get: async ({ sha256 }: { sha256: string }) => stored.get(sha256) ?? new Uint8Array() };
  const store = (definitions: readonly ToolDefinition[]) => {
    const tools: ServerTools = {
      server: 'files',
      serverUrl: 'https://files.example',
      tools: definitions.map((definition) => ({ definition, hash: hashOf(definition) })),
    };
    const bytes = new TextEncoder().encode(JSON.stringify(tools));
    const sha256 = createHash('sha256').update(bytes).digest('hex');
    stored.set(sha256, bytes);
    return { sha256, bytes: bytes.length, contentType: 'application/json' };
  };
  const [first, second] = ['Writes.', 'Writes more.'].map((description) => ({
    name: 'write_file',
    description,
    inputSchema: {},
  }));
  if (first === undefined || second === undefined) throw new Error('two were made');
  const entry: CatalogEntry = catalogEntry({
    definition: { hash: hashOf(second), refresh: 2 },
    acknowledged: { hash: hashOf(first), refresh: 1 },
  });
  const listings = { 1: store([first]), 2: store([second]) };

  test('are those of the hashes, each from the refresh that found it', async () => {
    const { acknowledged: _, ...unread } = entry;
    const read = await readDefinitions(artifacts, { entries: [entry], listings });
    expect([...read]).toEqual([['write_file', { current: second, acknowledged: first }]]);
    expect([...(await readDefinitions(artifacts, { entries: [unread], listings }))]).toEqual([
      ['write_file', { current: second }],
    ]);
  });

  test('that are not there are an error, never a gap', async () => {
    for (const wrong of [
      { entries: [entry], listings: { 2: listings[2] } },
      { entries: [{ ...entry, name: 'read_file' }], listings },
      { entries: [entry], listings: { 1: listings[2], 2: listings[1] } },
    ])
      await expect(readDefinitions(artifacts, wrong)).rejects.toMatchObject({ code: 'ARTIFACT_CORRUPT' });
  });
});
