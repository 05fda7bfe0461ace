/** A catalog as a file: the same text for the same catalog, and read back as it was written. */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { parse } from 'yaml';
import type { Session } from '../../../../cli/session/session.ts';
import { catalogYaml, importFile, importTarget, parseCatalogFile } from '../../../../cli/verbs/catalog-file.ts';
import type { CatalogEntry, CatalogSnapshot, SetToolPoliciesInput } from '../../../../contracts/schemas/catalog.ts';
import { catalogFile, importPlan } from '../../../../domain/catalog/file.ts';
import { toolName } from '../../../support/builders/arbitraries.ts';
import { catalogEntries, toolSetting as anySetting } from '../../../support/builders/catalog-arbitraries.ts';
import {
  catalogEntry,
  catalogSnapshot,
  connection,
  definition,
  toolSetting,
} from '../../../support/builders/catalog.ts';
import { forAll } from '../../../support/for-all.ts';

const snapshotOf = (entries: readonly CatalogEntry[]): CatalogSnapshot =>
  catalogSnapshot(entries, { connection: connection({ credentials: 'reader' }) });

const written = (entries: readonly CatalogEntry[]): string => catalogYaml(catalogFile(snapshotOf(entries)));

/** Whatever a server may call its tools, also what is something else in YAML or in JavaScript. */
const oddEntries = fc.uniqueArray(
  fc
    .tuple(
      fc.oneof(toolName, fc.constantFrom('true', 'null', '~', '1', '1e3', '- a', 'a: b', '# a', '', '"', "'", '? a')),
      anySetting,
    )
    .filter(([name]) => name !== '')
    .map(([name, setting]) => catalogEntry({ name, setting })),
  { selector: ({ name }) => name, maxLength: 8 },
);

test('what was written is read back as it was, whatever the tools are called', () => {
  forAll(fc.oneof(catalogEntries, oddEntries), (entries) => {
    const file = parseCatalogFile(parse(written(entries)), 'x.yaml');
    expect(file).toMatchObject({
      tenant: 'acme',
      server: 'files',
      version: 3,
      connection: { credentials: 'reader' },
    });
    expect([...file.tools.keys()].toSorted()).toEqual(entries.map(({ name }) => name).toSorted());
    expect(importPlan(entries, file.tools)).toMatchObject({ tools: [], refused: [], unknown: [], unnamed: [] });
  });
});

test('the same catalog is the same text, in whichever order its tools come, and a reviewer sees all of it', () => {
  forAll(oddEntries, (entries) => {
    const text = written(entries);
    expect(written(entries.toReversed())).toBe(text);
    expect(text).not.toMatch(/[^\P{C}\n]|[\p{Zl}\p{Zp}]/u);
  });
});

test('it reads like this', () => {
  const setting = toolSetting({
    requiresApproval: true,
    approvers: { ids: [], groups: ['ops'] },
    deadlineSeconds: 600,
  });
  expect(written([catalogEntry({ name: 'write_file', setting }), catalogEntry({ name: 'a b\u202e' })])).toBe(
    `# Bring it back: countersign catalog import FILE --as ID

tenant: acme
server: files
version: 3
connection:
  url: https://files.example/mcp
  trusted: false
  credentials: reader
tools:
  "a b\\u202e":
    enabled: true
    requiresApproval: false
    denied: false
    definition: ${definition('first')}
  write_file:
    enabled: true
    requiresApproval: true
    denied: false
    approvers:
      ids: []
      groups:
        - ops
    deadlineSeconds: 600
    definition: ${definition('first')}`,
  );
});

describe('what is not valid is refused with file and path', () => {
  const head = { tenant: 'acme', server: 'files', version: 1 };
  test.each([
    ['an unknown field', { ...head, tools: { a: { ...toolSetting(), note: 'x' } } }, 'tools.a.note'],
    ['a tool that is not said whole', { ...head, tools: { a: { enabled: true } } }, 'tools.a.requiresApproval'],
    ['no server', { tenant: 'acme', version: 1, tools: {} }, 'server'],
    [
      'an approver that is none',
      { ...head, tools: { a: { ...toolSetting(), approvers: { ids: ['a b'] } } } },
      'tools.a.approvers.ids[0]',
    ],
    ['a hash that is none', { ...head, tools: { a: { ...toolSetting(), definition: 'abc' } } }, 'tools.a.definition'],
    ['an unknown status', [{ name: 'a', status: 'retired' }], '[0].status'],
    ['an unknown field of a list', [{ name: 'a', denied: true }], '[0].denied'],
    ['a tool of a list without a name', [{ enabled: true }], '[0].name'],
  ])('%s', (_what, value, path) => {
    const act = (): unknown => parseCatalogFile(value, 'x.yaml');
    expect(act).toThrow(expect.objectContaining({ code: 'CATALOG_INVALID', facts: { path } }));
    expect(act).toThrow(/x\.yaml/);
  });

  test('a tool that stands twice in a list', () => {
    expect(() => parseCatalogFile([{ name: 'a' }, { name: 'a' }], 'x.yaml')).toThrow(
      expect.objectContaining({ code: 'CATALOG_INVALID', facts: { path: '[1].name' } }),
    );
  });

  test('a tool called __proto__ too', () => {
    const value: unknown = JSON.parse(
      `{"tenant":"acme","server":"files","version":1,"tools":{"__proto__":{"enabled":1}}}`,
    );
    expect(() => parseCatalogFile(value, 'x.yaml')).toThrow(/__proto__ of catalog file x\.yaml.*enabled/);
  });
});

test('a list says of a tool what it says, with its own defaults, and nothing of the rest', () => {
  const { tools, server } = parseCatalogFile(
    [
      { name: 'a', description: 'Does.', status: 'missing' },
      { name: 'b', description: null, enabled: false, requires_approval: true },
    ],
    'x.json',
  );
  expect(server).toBeUndefined();
  expect([...tools]).toEqual([
    ['a', { enabled: true, requiresApproval: false }],
    ['b', { enabled: false, requiresApproval: true }],
  ]);
});

test('the command line may say whose tools they are where the file does not, and must not say another', () => {
  expect(importTarget({ tenant: 'acme', server: 'files' }, {}, 'x')).toEqual({ tenant: 'acme', server: 'files' });
  expect(importTarget({}, { server: 'files' }, 'x')).toEqual({ tenant: 'default', server: 'files' });
  expect(importTarget({ tenant: 'acme', server: 'files' }, { tenant: 'acme' }, 'x')).toEqual({
    tenant: 'acme',
    server: 'files',
  });
  for (const [file, options] of [
    [{}, {}],
    [{ tenant: 'acme', server: 'files' }, { tenant: 'other' }],
    [{ tenant: 'acme', server: 'files' }, { server: 'other' }],
  ])
    expect(() => importTarget(file ?? {}, options ?? {}, 'x')).toThrow(expect.objectContaining({ code: 'USAGE' }));
});

test('a file that changes more tools than one message takes is imported in several', async () => {
  const named = (over: Partial<CatalogEntry>) =>
    Array.from({ length: 1_200 }, (_, index) => catalogEntry({ name: `tool-${index}`, ...over }));
  const snapshot = snapshotOf(named({}));
  const sent: SetToolPoliciesInput[] = [];
  const handle = {
    server: 'files',
    snapshot: async () => snapshot,
    setToolPolicies: async (message: SetToolPoliciesInput) => {
      sent.push(message);
      return { requestId: message.requestId, status: 'applied', policyVersion: message.expectedVersion + 1 };
    },
    definitions: async () => new Map(),
  };
  const session = { countersign: { catalog: () => handle }, settings: { policy: {}, trusted: {} } };
  const file = catalogFile(snapshotOf(named({ setting: toolSetting({ enabled: false }) })));
  // Sound: it has all that an import uses.
  const answer = await importFile(session as unknown as Session, file, 'x.yaml', { tenant: 'acme', as: 'ann' });
  expect(sent.map(({ changes, expectedVersion }) => [changes.length, expectedVersion])).toEqual([
    [1_000, 3],
    [200, 4],
  ]);
  expect(answer.json).toMatchObject({ status: 'applied' });
});
