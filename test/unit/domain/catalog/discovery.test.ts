/** What a refresh changes: all that the server says, and nothing that operators say (S3.1, S3.2). */
import { describe, expect, test } from '@jest/globals';
import type { JsonObject } from '../../../../contracts/schemas/json.ts';
import type { ToolDefinition } from '../../../../contracts/schemas/tool.ts';
import { definitionDiff, discovered, refreshFailed, settingOfNew } from '../../../../domain/catalog/discovery.ts';
import { hasDrifted } from '../../../../domain/catalog/state.ts';
import { canonicalJson } from '../../../../domain/text/canonical.ts';
import { jsonObject } from '../../../support/builders/arbitraries.ts';
import { listed } from '../../../support/builders/catalog-arbitraries.ts';
import {
  at,
  catalogEntry,
  catalogOf,
  definition,
  foundTools,
  listing,
  refreshed,
  toolSetting,
  withPolicies,
} from '../../../support/builders/catalog.ts';
import { forAll } from '../../../support/for-all.ts';

/** So many entries a catalog has room for; listings have at most half as many tools. */
const MOST_ENTRIES = 1_500;
const numbered = (from: number, count: number): Record<string, string> =>
  Object.fromEntries(
    Array.from({ length: count }, (_, index) => [`tool-${String(from + index).padStart(4, '0')}`, 'first']),
  );

describe('a tool that is new', () => {
  test('S3.1: stands under its own name, available, acknowledged as it was first seen', () => {
    const { catalog } = discovered(catalogOf(), foundTools(1, { 'issue.get': 'first' }), at(1));
    const seen = { hash: definition('first'), refresh: 1 };
    expect(catalog.entries).toEqual([
      {
        name: 'issue.get',
        status: 'available',
        definition: seen,
        acknowledged: seen,
        setting: toolSetting({ requiresApproval: true }),
        firstSeen: at(1),
        lastSeen: at(1),
      },
    ]);
    expect(catalog.listings).toEqual({ 1: listing(1) });
    expect(catalog.lastRefresh).toEqual({ refresh: 1, at: at(1), ok: true, refused: [] });
  });

  test('INV-G4: is asked for, unless the organisation leaves that to its strategy', () => {
    expect(settingOfNew('ask')).toEqual(toolSetting({ requiresApproval: true }));
    expect(settingOfNew('strategy')).toEqual(toolSetting());
    // What a stored catalog of another version may hold.
    expect(settingOfNew('later' as 'ask')).toEqual(toolSetting({ requiresApproval: true }));
  });
});

describe('a tool that was there', () => {
  test('S3.2: that vanishes is missing with its policy, and comes back with it', () => {
    const before = withPolicies(refreshed(catalogOf(), 1, { write_file: 'first', list: 'first' }), {
      tool: 'write_file',
      denied: true,
    });
    const without = discovered(before, foundTools(2, { list: 'first' }), at(2));
    expect(without.catalog.entries.find(({ name }) => name === 'write_file')).toEqual({
      ...before.entries.find(({ name }) => name === 'write_file'),
      status: 'missing',
    });
    expect(without.facts).toEqual([expect.objectContaining({ missing: ['write_file'], added: [], returned: [] })]);
    const again = discovered(without.catalog, foundTools(3, { write_file: 'first', list: 'first' }), at(3));
    expect(again.catalog.entries.find(({ name }) => name === 'write_file')).toMatchObject({
      status: 'available',
      setting: { denied: true },
      firstSeen: at(1),
      lastSeen: at(3),
    });
    expect(again.facts).toEqual([expect.objectContaining({ missing: [], added: [], returned: ['write_file'] })]);
    const stillGone = discovered(without.catalog, foundTools(3, { list: 'first' }), at(3));
    expect(stillGone.facts).toEqual([expect.objectContaining({ missing: [], returned: [] })]);
  });

  test('H-7: that changed is a drift, and is none any more when it is as it was acknowledged', () => {
    const before = refreshed(catalogOf(), 1, { write_file: 'first' });
    const { catalog, facts } = discovered(before, foundTools(2, { write_file: 'second' }), at(2));
    expect(catalog.entries[0]).toMatchObject({
      definition: { hash: definition('second'), refresh: 2 },
      acknowledged: { hash: definition('first'), refresh: 1 },
    });
    expect(catalog.entries.map(hasDrifted)).toEqual([true]);
    expect(Object.keys(catalog.listings)).toEqual(['1', '2']);
    expect(facts).toEqual([
      expect.objectContaining({
        changed: [{ tool: 'write_file', before: definition('first'), after: definition('second') }],
      }),
    ]);
    expect(refreshed(catalog, 3, { write_file: 'first' }).entries.map(hasDrifted)).toEqual([false]);
  });

  test('that is as it was keeps the listing that first held it', () => {
    const catalog = refreshed(refreshed(catalogOf(), 1, { write_file: 'first' }), 2, { write_file: 'first' });
    expect(catalog.entries[0]).toMatchObject({ definition: { refresh: 1 }, lastSeen: at(2) });
    expect(Object.keys(catalog.listings)).toEqual(['1']);
  });
});

describe('a refresh', () => {
  test('is one fact, with all that it found', () => {
    const refused = [{ name: 'bad tool', reason: 'has no input schema' }];
    const { catalog, facts } = discovered(catalogOf(), foundTools(1, { b: 'first', a: 'first' }, { refused }), at(1));
    expect(facts).toEqual([
      {
        kind: 'catalog.refreshed',
        refresh: 1,
        count: 2,
        listing: listing(1).sha256,
        added: ['a', 'b'],
        missing: [],
        returned: [],
        changed: [],
        refused: ['bad tool: has no input schema'],
      },
    ]);
    expect(catalog.lastRefresh?.refused).toEqual(refused);
  });

  test('S3.2: that fails changes nothing but the report', () => {
    const before = refreshed(catalogOf(), 1, { write_file: 'first' });
    const { catalog, facts } = refreshFailed(before, 2, { code: 'DISCOVERY_FAILED', message: 'away' }, at(2));
    expect(catalog).toEqual({
      ...before,
      lastRefresh: { refresh: 2, at: at(2), ok: false, code: 'DISCOVERY_FAILED', message: 'away', refused: [] },
    });
    expect(facts).toEqual([{ kind: 'catalog.refresh-failed', refresh: 2, code: 'DISCOVERY_FAILED', message: 'away' }]);
  });

  test('takes effect as a whole: available is what it listed, and nothing else', () => {
    forAll(listed, listed, (first, second) => {
      const { entries } = refreshed(refreshed(catalogOf(), 1, first), 2, second);
      const available = entries.filter(({ status }) => status === 'available');
      expect(new Map(available.map(({ name, definition: { hash } }) => [name, hash]))).toEqual(
        new Map(Object.entries(second).map(([name, word]) => [name, definition(word)])),
      );
      expect(available).toHaveLength(Object.keys(second).length);
      expect(entries.map(({ name }) => name)).toEqual(
        [...new Set([...Object.keys(first), ...Object.keys(second)])].toSorted(),
      );
    });
  });

  test('twice the same is the same: a refresh that finds nothing new adds nothing', () => {
    forAll(listed, (tools) => {
      const once = refreshed(catalogOf(), 1, tools);
      const { facts } = discovered(once, foundTools(2, tools), at(2));
      expect(facts).toEqual([expect.objectContaining({ added: [], missing: [], returned: [], changed: [] })]);
    });
  });
});

describe('a server whose tools have ever other names', () => {
  test('fills no catalog: the oldest missing tools of which nobody has said anything are forgotten', () => {
    let catalog = refreshed(catalogOf(), 1, numbered(0, 1_000));
    catalog = refreshed(catalog, 2, numbered(1_000, 500));
    expect(catalog.entries).toHaveLength(MOST_ENTRIES);
    catalog = refreshed(catalog, 3, numbered(2_000, 10));
    expect(catalog.entries).toHaveLength(MOST_ENTRIES);
    catalog = refreshed(catalog, 4, numbered(3_000, 1_000));
    expect(catalog.entries).toHaveLength(MOST_ENTRIES);
    const names = new Set(catalog.entries.map(({ name }) => name));
    expect(names.has('tool-0000')).toBe(false);
    expect(names.has('tool-2000')).toBe(true);
    expect(names.has('tool-3999')).toBe(true);
    // The ten of the third refresh and most of the second found room, and none of the first.
    expect([...names].filter((name) => name < 'tool-1000')).toEqual([]);
  });

  test('H-7: nor a drift that nobody has looked at', () => {
    let catalog = refreshed({ ...catalogOf(), newTools: 'strategy' }, 1, { wipe: 'first', ...numbered(0, 999) });
    catalog = refreshed(catalog, 2, { wipe: 'second' });
    for (const refresh of [3, 4, 5]) catalog = refreshed(catalog, refresh, numbered(refresh * 1_000, 1_000));
    const back = refreshed(catalog, 6, { wipe: 'second' }).entries.find(({ name }) => name === 'wipe');
    expect(back).toMatchObject({
      acknowledged: { hash: definition('first') },
      definition: { hash: definition('second') },
    });
  });

  test('INV-G4: washes off no policy: a denied tool comes back denied, however many came in between', () => {
    let catalog = withPolicies(refreshed(catalogOf(), 1, { wipe: 'first', ...numbered(0, 999) }), {
      tool: 'wipe',
      denied: true,
    });
    for (const refresh of [2, 3, 4]) catalog = refreshed(catalog, refresh, numbered(refresh * 1_000, 1_000));
    expect(catalog.entries).toHaveLength(MOST_ENTRIES);
    const back = refreshed(catalog, 5, { wipe: 'second' }).entries.find(({ name }) => name === 'wipe');
    expect(back).toMatchObject({ setting: { denied: true }, acknowledged: { hash: definition('first') } });
  });

  test('what operators have said takes the room of what nobody has spoken of', () => {
    const said = Array.from({ length: MOST_ENTRIES }, (_, index) =>
      catalogEntry({ name: `said-${index}`, status: 'missing', spokenOf: true }),
    );
    const unsaid = catalogEntry({ name: 'unsaid', setting: toolSetting({ requiresApproval: true }) });
    const { entries } = refreshed(catalogOf([...said, unsaid]), 2, { list: 'first' });
    expect(entries).toHaveLength(MOST_ENTRIES + 1);
    expect(entries.some(({ name }) => name === 'unsaid')).toBe(false);
  });
});

/** What changed in a definition is told field by field, and nothing of it is left out (H-7). */
describe('how definitions differ', () => {
  const pay: ToolDefinition = {
    name: 'pay',
    description: 'Pays.',
    inputSchema: { type: 'object', properties: { amount: { type: 'number' }, to: { type: 'string' } } },
  };

  test('a field that is new, gone, or another, by its path', () => {
    const { description: _, ...rest } = pay;
    const now: ToolDefinition = {
      ...rest,
      title: 'Pay',
      inputSchema: { type: 'object', properties: { amount: { type: 'integer' }, to: { type: 'string' } } },
    };
    expect(definitionDiff(pay, now)).toEqual([
      { path: 'description', before: 'Pays.' },
      { path: 'inputSchema.properties.amount.type', before: 'number', after: 'integer' },
      { path: 'title', after: 'Pay' },
    ]);
  });

  test('where nothing was acknowledged, all is new', () => {
    expect(definitionDiff(undefined, pay).map(({ path }) => path)).toEqual(['description', 'inputSchema', 'name']);
  });

  test('a path shows odd names as they are', () => {
    const odd = (value: number): ToolDefinition => {
      // Sound: it is JSON that is an object.
      const properties = JSON.parse(`{"a.b":${value},"constructor":${value},"__proto__":${value}}`) as JsonObject;
      return { ...pay, inputSchema: { properties } };
    };
    expect(definitionDiff(odd(1), odd(2)).map(({ path }) => path)).toEqual([
      'inputSchema.properties.__proto__',
      'inputSchema.properties."a.b"',
      'inputSchema.properties.constructor',
    ]);
  });

  test('there is no difference exactly where the definitions are the same', () => {
    forAll(jsonObject, jsonObject, (one, other) => {
      const [before, after] = [one, other].map((inputSchema) => ({ name: 'pay', inputSchema }));
      if (before === undefined || after === undefined) throw new Error('two were made');
      expect(definitionDiff(before, after).length === 0).toBe(canonicalJson(one) === canonicalJson(other));
      expect(definitionDiff(before, before)).toEqual([]);
    });
  });
});
