/** What is shown of a tool is what the judge says of its calls (S3.3). */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { effectiveVerdicts, needsAnnotations } from '../../../../client/catalog/list.ts';
import type { CatalogEntry, CatalogSnapshot } from '../../../../contracts/schemas/catalog.ts';
import { catalogSays } from '../../../../domain/catalog/layer.ts';
import { judge } from '../../../../domain/policy/judge.ts';
import { policy } from '../../../support/builders/arbitraries.ts';
import { catalogEntries } from '../../../support/builders/catalog-arbitraries.ts';
import { catalogEntry, catalogOf, connection, definition, toolSetting } from '../../../support/builders/catalog.ts';

function snapshotOf(entries: readonly CatalogEntry[], over: Partial<CatalogSnapshot> = {}): CatalogSnapshot {
  const { answered: _, changesOpened: __, ...rest } = catalogOf(entries);
  // Sound: a catalog is what a snapshot shows, but for the ledger.
  return { ...rest, ledgerLength: 0, ledgerHead: 'a'.repeat(64), ...over } as CatalogSnapshot;
}

const readOnly = new Map([
  ['write_file', { current: { name: 'write_file', inputSchema: {}, annotations: { readOnlyHint: true } } }],
]);
const trusted = { connection: connection({ trusted: true }) };

test('it is the verdict of a run without a policy of its own', () => {
  fc.assert(
    fc.property(catalogEntries, policy, fc.boolean(), (entries, organisation, trusts) => {
      const snapshot = snapshotOf(entries, { connection: connection({ trusted: trusts }) });
      const verdicts = effectiveVerdicts(snapshot, new Map(), { policy: organisation, configuredTrust: undefined });
      for (const {
        name,
        definition: { hash },
      } of entries) {
        const layers = { organisation, run: undefined, catalog: catalogSays(snapshot, name, hash) };
        const tool = { server: 'files', tool: name, annotations: undefined, serverTrusted: trusts };
        const { kind, rules } = judge(layers, tool, 'ann');
        expect(verdicts.get(name)).toMatchObject({ kind, rules });
      }
    }),
  );
});

describe('who decides', () => {
  test('whoever starts the run, where nobody is named', () => {
    const verdict = effectiveVerdicts(snapshotOf([catalogEntry()]), new Map(), {
      policy: {},
      configuredTrust: undefined,
    }).get('write_file');
    expect(verdict).toEqual({ kind: 'ask', rules: ['organisation/default'], deadlineSeconds: 86_400 });
  });

  test('those whom the layers name', () => {
    const setting = toolSetting({ requiresApproval: true, approvers: { ids: ['eve'], groups: [] } });
    const surroundings = { policy: { approvers: { ids: [], groups: ['ops'] } }, configuredTrust: undefined };
    expect(
      effectiveVerdicts(snapshotOf([catalogEntry({ setting })]), new Map(), surroundings).get('write_file'),
    ).toMatchObject({
      kind: 'ask',
      approvers: {
        allOf: [
          { layer: 'organisation', groups: ['ops'] },
          { layer: 'catalog', ids: ['eve'] },
        ],
      },
    });
  });
});

describe("a server's annotations", () => {
  const annotations = { policy: { strategy: 'annotations' as const }, configuredTrust: undefined };

  test('count where catalog and configuration both trust it', () => {
    const trusting = snapshotOf([catalogEntry()], trusted);
    expect(effectiveVerdicts(trusting, readOnly, annotations).get('write_file')?.kind).toBe('allow');
    expect(
      effectiveVerdicts(trusting, readOnly, { ...annotations, configuredTrust: true }).get('write_file')?.kind,
    ).toBe('allow');
    expect(
      effectiveVerdicts(trusting, readOnly, { ...annotations, configuredTrust: false }).get('write_file')?.kind,
    ).toBe('ask');
    expect(
      effectiveVerdicts(snapshotOf([catalogEntry()]), readOnly, { ...annotations, configuredTrust: true }).get(
        'write_file',
      )?.kind,
    ).toBe('ask');
  });

  test('need be read only where they could count', () => {
    expect(needsAnnotations(snapshotOf([], trusted), annotations)).toBe(true);
    expect(needsAnnotations(snapshotOf([]), annotations)).toBe(false);
    expect(needsAnnotations(snapshotOf([], trusted), { ...annotations, policy: {} })).toBe(false);
  });
});

test('a tool that has changed asks, and one of a disconnected server is denied', () => {
  const changed = catalogEntry({ definition: { hash: definition('second'), refresh: 2 } });
  const never = { policy: { strategy: 'never' as const }, configuredTrust: undefined };
  expect(effectiveVerdicts(snapshotOf([changed]), new Map(), never).get('write_file')).toMatchObject({
    kind: 'ask',
    rules: ['catalog/files/tools/write_file/drift'],
  });
  const gone = snapshotOf([catalogEntry()], { status: 'disconnected' });
  expect(effectiveVerdicts(gone, new Map(), never).get('write_file')).toMatchObject({
    kind: 'deny',
    code: 'TOOL_DISABLED',
  });
});
