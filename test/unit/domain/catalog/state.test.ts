/** The state of a catalog: connection, version, and who owns what (S3.2). */
import fc from 'fast-check';
import { describe, expect, test } from '@jest/globals';
import {
  answered,
  catalogId,
  connected,
  disconnected,
  entryOf,
  hasDrifted,
  refreshAsked,
  startCatalog,
  withListings,
} from '../../../../domain/catalog/state.ts';
import { ODD_NAMES } from '../../../support/builders/catalog-arbitraries.ts';
import {
  ann,
  catalogEntry,
  catalogOf,
  connection,
  definition,
  listing,
  refreshed,
  toolSetting,
  withPolicies,
} from '../../../support/builders/catalog.ts';
import { forAll } from '../../../support/for-all.ts';

describe('the id of a catalog', () => {
  test('names tenant and server, each of which may hold a separator', () => {
    expect(catalogId({ tenant: 'acme', server: 'files' })).toBe('catalog/acme/files');
    expect(catalogId({ tenant: 'a/b', server: 'c' })).toBe('catalog/a%2Fb/c');
  });

  test('no two catalogs have one', () => {
    const part = fc.stringMatching(/^[\x21-\x7e]{1,6}$/);
    forAll(part, part, part, part, (tenant, server, otherTenant, otherServer) => {
      const isSame = tenant === otherTenant && server === otherServer;
      expect(catalogId({ tenant, server }) === catalogId({ tenant: otherTenant, server: otherServer })).toBe(isSame);
    });
  });
});

describe('connecting', () => {
  test('a new catalog knows nothing, and asks for what it does not know (INV-G4)', () => {
    expect(startCatalog({ tenant: 'acme', server: 'files' })).toEqual({
      tenant: 'acme',
      server: 'files',
      status: 'new',
      revision: 0,
      policyVersion: 0,
      refreshes: 0,
      newTools: 'ask',
      entries: [],
      listings: {},
      pending: [],
      changesOpened: 0,
      answered: [],
    });
  });

  test('is a version of its own, and a fact with who did it', () => {
    const { catalog, facts } = connected(startCatalog({ tenant: 'acme', server: 'files' }), connection(), ann);
    expect(catalog).toMatchObject({ status: 'connected', connection: connection(), policyVersion: 1 });
    expect(facts).toEqual([
      {
        kind: 'catalog.connected',
        tenant: 'acme',
        server: 'files',
        by: ann,
        connection: connection(),
        policyVersion: 1,
      },
    ]);
  });

  test('S3.2: disconnecting keeps tools and their policy, and connecting again brings them back', () => {
    const before = withPolicies(refreshed(catalogOf(), 1, { write_file: 'first' }), {
      tool: 'write_file',
      denied: true,
    });
    const gone = disconnected(before, ann);
    expect(gone.catalog).toEqual({ ...before, status: 'disconnected', policyVersion: 3 });
    expect(gone.facts).toEqual([{ kind: 'catalog.disconnected', by: ann, policyVersion: 3 }]);
    const back = connected(gone.catalog, connection({ trusted: true }), ann).catalog;
    expect(back.entries).toEqual(before.entries);
    expect(back).toMatchObject({ status: 'connected', policyVersion: 4 });
  });

  test('H-7: at another address nothing is acknowledged, and policy is kept', () => {
    const before = catalogOf([catalogEntry({ setting: toolSetting({ denied: true }) })]);
    const { catalog } = connected(before, connection({ url: 'https://other.example/mcp' }), ann);
    expect(catalog.entries).toEqual([
      expect.objectContaining({ name: 'write_file', setting: toolSetting({ denied: true }) }),
    ]);
    expect(catalog.entries[0]).not.toHaveProperty('acknowledged');
    expect(catalog.entries.every(hasDrifted)).toBe(true);
  });
});

describe('what is remembered', () => {
  test('refreshes are counted, which is no change of policy', () => {
    expect(refreshAsked(catalogOf())).toEqual({ ...catalogOf(), refreshes: 1 });
  });

  test('answers are kept for a message that comes again, the newest 200 of them', () => {
    let catalog = catalogOf();
    for (let index = 0; index < 201; index += 1)
      catalog = answered(catalog, { requestId: `r-${index}`, status: 'applied', policyVersion: 1 }, definition('m'));
    expect(catalog.answered).toHaveLength(200);
    expect(catalog.answered[0]?.ack.requestId).toBe('r-1');
    expect(catalog.answered.at(-1)).toEqual({
      ack: { requestId: 'r-200', status: 'applied', policyVersion: 1 },
      digest: definition('m'),
    });
  });

  test.each(ODD_NAMES)('S3.5: a tool named %s is a name like any other', (name) => {
    const others = ODD_NAMES.filter((other) => other !== name).map((other) => catalogEntry({ name: other }));
    expect(entryOf(catalogOf(others), name)).toBeUndefined();
    const entry = catalogEntry({ name });
    expect(entryOf(catalogOf([...others, entry]), name)).toBe(entry);
  });

  test('listings that hold a definition or what was acknowledged are kept, others are forgotten', () => {
    const drifted = catalogEntry({ definition: { hash: definition('second'), refresh: 3 } });
    const { acknowledged: _, ...unseen } = catalogEntry({ definition: { hash: definition('third'), refresh: 4 } });
    const listings = Object.fromEntries([1, 2, 3, 4, 10].map((number) => [number, listing(number)]));
    expect(Object.keys(withListings(catalogOf([drifted, unseen], { listings })).listings)).toEqual(['1', '3', '4']);
  });
});
