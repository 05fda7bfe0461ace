/** A file of tool policies against the catalog that it is brought into: what it changes, and what it may not (INV-G4, H-7). */
import fc from 'fast-check';
import { describe, expect, test } from '@jest/globals';
import type { CatalogEntry } from '../../../../contracts/schemas/catalog.ts';
import { catalogFile, filedTool, importPlan, type WantedTool, wantedTool } from '../../../../domain/catalog/file.ts';
import { directionsOf, planned, policiesSet } from '../../../../domain/catalog/settings.ts';
import { entryOf } from '../../../../domain/catalog/state.ts';
import {
  catalogEntries,
  catalogTool,
  toolSetting as anySetting,
  word,
} from '../../../support/builders/catalog-arbitraries.ts';
import {
  ann,
  catalogEntry,
  catalogOf,
  catalogSnapshot,
  connection,
  definition,
  taken,
  toolSetting,
} from '../../../support/builders/catalog.ts';
import { forAll } from '../../../support/for-all.ts';

const ops = { ids: [], groups: ['ops'] };
const drifted = { definition: { hash: definition('second'), refresh: 2 } };

function fileOf(entries: readonly CatalogEntry[]): ReadonlyMap<string, WantedTool> {
  return new Map(entries.map((entry) => [entry.name, wantedTool(filedTool(entry))]));
}

function planFor(entry: CatalogEntry, wanted: WantedTool) {
  return importPlan([entry], new Map([[entry.name, wanted]]));
}

const anyWanted: fc.Arbitrary<ReadonlyMap<string, WantedTool>> = fc
  .uniqueArray(
    fc.tuple(
      catalogTool,
      anySetting.chain((setting) => word.map((said) => wantedTool({ ...setting, definition: definition(said) }))),
    ),
    { selector: ([name]) => name },
  )
  .map((list) => new Map(list));

test('the same settings give the same file, in whatever order the catalog has them', () => {
  forAll(catalogEntries, (entries) => {
    const file = catalogFile(catalogSnapshot(entries));
    expect(JSON.stringify(catalogFile(catalogSnapshot(entries.toReversed())))).toBe(JSON.stringify(file));
    expect(file).toMatchObject({ tenant: 'acme', server: 'files', version: 3 });
    expect(Object.keys(file.tools)).toHaveLength(entries.length);
  });
});

test('a catalog that is connected says how in its file, another one does not', () => {
  expect(catalogFile(catalogSnapshot([]))).not.toHaveProperty('connection');
  const connected = connection({ credentials: 'reader' });
  expect(catalogFile(catalogSnapshot([], { connection: connected })).connection).toEqual(connected);
});

test('what was written out and is brought back changes nothing, whatever the server has changed since', () => {
  forAll(catalogEntries, (entries) => {
    expect(importPlan(entries, fileOf(entries))).toMatchObject({ tools: [], refused: [], unknown: [], unnamed: [] });
  });
});

test('what a plan says is what the catalog takes, and then nothing is left to do', () => {
  forAll(catalogEntries, anyWanted, (entries, wanted) => {
    const plan = importPlan(entries, wanted);
    const catalog = catalogOf(entries);
    const changes = plan.tools.map(({ change }) => change);
    const { catalog: after } = policiesSet(catalog, taken(planned(catalog, changes)), ann);
    for (const { change, after: setting } of plan.tools) expect(entryOf(after, change.tool)?.setting).toEqual(setting);
    expect(importPlan(after.entries, wanted)).toEqual({ ...plan, tools: [] });
  });
});

test('nothing is loosened for another definition than the file was written for (H-7)', () => {
  forAll(catalogEntries, anyWanted, (entries, wanted) => {
    const { tools } = importPlan(entries, wanted);
    for (const { change, before, after } of tools) {
      const hash = entryOf({ entries }, change.tool)?.definition.hash;
      if (directionsOf(before, after).has('loosens')) expect(change.acknowledge).toBe(hash);
      if (change.acknowledge !== undefined) expect(wanted.get(change.tool)?.definition).toBe(hash);
    }
  });
});

describe('of one tool', () => {
  test('only what differs is changed', () => {
    const entry = catalogEntry({ setting: toolSetting({ approvers: ops, deadlineSeconds: 60 }) });
    const filed = filedTool(entry);
    expect(planFor(entry, wantedTool({ ...filed, denied: true })).tools).toEqual([
      {
        change: { tool: 'write_file', denied: true },
        before: entry.setting,
        after: { ...entry.setting, denied: true },
      },
    ]);
    expect(planFor(entry, wantedTool(toolSetting())).tools).toMatchObject([
      { change: { tool: 'write_file', approvers: null, deadlineSeconds: null } },
    ]);
  });

  test('what the file does not say stays', () => {
    const entry = catalogEntry({ setting: toolSetting({ denied: true, approvers: ops, deadlineSeconds: 60 }) });
    expect(planFor(entry, { enabled: true, requiresApproval: false }).tools).toEqual([]);
    expect(planFor(entry, { enabled: false, requiresApproval: true }).tools.map(({ change }) => change)).toEqual([
      { tool: 'write_file', enabled: false, requiresApproval: true },
    ]);
  });

  test('a loosening is bound to the definition that the file names, and to none where it names none', () => {
    const entry = catalogEntry({ setting: toolSetting({ requiresApproval: true }) });
    const hash = entry.definition.hash;
    const open = toolSetting();
    expect(planFor(entry, wantedTool({ ...open, definition: hash })).tools.map(({ change }) => change)).toEqual([
      { tool: 'write_file', requiresApproval: false, acknowledge: hash },
    ]);
    expect(planFor(entry, wantedTool(open)).tools.map(({ change }) => change)).toEqual([
      { tool: 'write_file', requiresApproval: false },
    ]);
  });

  test('that has changed: the file that names what it is now takes notice of it, another one may only tighten', () => {
    const entry = catalogEntry(drifted);
    const filed = filedTool(entry);
    expect(filed.definition).toBe(definition('first'));
    expect(planFor(entry, wantedTool({ ...filed, definition: definition('second') })).tools).toMatchObject([
      { change: { tool: 'write_file', acknowledge: definition('second') } },
    ]);
    expect(planFor(entry, wantedTool({ ...filed, denied: true }))).toMatchObject({
      tools: [{ change: { tool: 'write_file', denied: true } }],
      outdated: ['write_file'],
      refused: [],
    });
    const denied = catalogEntry({ ...drifted, setting: toolSetting({ denied: true }) });
    expect(planFor(denied, wantedTool(filed))).toMatchObject({ tools: [], outdated: [], refused: ['write_file'] });
  });

  test('that nobody has acknowledged is written without a definition', () => {
    const { acknowledged: _, ...entry } = catalogEntry();
    expect(filedTool(entry)).toEqual(toolSetting());
    expect(planFor(entry, wantedTool({ ...toolSetting(), definition: entry.definition.hash })).tools).toMatchObject([
      { change: { acknowledge: entry.definition.hash } },
    ]);
  });
});

test('of tools that are not there the first is told with names that may have been meant, and one that is not named stays', () => {
  const wanted = ['write_fil', 'write_fle'].map((name) => [name, wantedTool(toolSetting())] as const);
  const plan = importPlan([catalogEntry()], new Map(wanted));
  expect(plan).toEqual({
    tools: [],
    refused: [],
    outdated: [],
    unknown: ['write_fil', 'write_fle'],
    near: ['write_file'],
    unnamed: ['write_file'],
  });
});
