/** What the catalog says of one tool, and whether it is offered (S3.3, INV-G4, H-7). */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { CatalogEntry, ToolSetting } from '../../../../contracts/schemas/catalog.ts';
import { catalogSays, type CatalogView, isOffered, trustsServer } from '../../../../domain/catalog/layer.ts';
import type { CatalogSay } from '../../../../domain/policy/judge.ts';
import { catalogTool, catalogView, ODD_NAMES, word } from '../../../support/builders/catalog-arbitraries.ts';
import { catalogEntry, definition, toolSetting } from '../../../support/builders/catalog.ts';

const KNOWN = definition('first');
const ops = { ids: [], groups: ['ops'] };

function view(over: Partial<CatalogView> = {}): CatalogView {
  return { server: 'files', status: 'connected', newTools: 'ask', entries: [], ...over };
}

function says(setting: Partial<ToolSetting>, over: Partial<CatalogEntry> = {}, hash = KNOWN): CatalogSay {
  return catalogSays(view({ entries: [catalogEntry({ setting: toolSetting(setting), ...over })] }), 'write_file', hash);
}

describe('what the catalog says', () => {
  test('S3.3: nothing, where a tool is enabled and nobody wants it asked', () => {
    expect(says({})).toEqual({ kind: 'nothing' });
  });

  test('S3.3: a disabled tool is refused', () => {
    expect(says({ enabled: false })).toEqual({
      kind: 'deny',
      rule: 'catalog/files/tools/write_file/disabled',
      code: 'TOOL_DISABLED',
      message: 'files/write_file is disabled in the catalog.',
    });
  });

  test('S3.2: a missing tool is refused', () => {
    expect(says({}, { status: 'missing' })).toEqual({
      kind: 'deny',
      rule: 'catalog/files/tools/write_file/missing',
      code: 'TOOL_MISSING',
      message: 'files/write_file is missing: its server does not list it any more.',
    });
  });

  test('a denied tool is refused by its rule', () => {
    expect(says({ denied: true })).toEqual({
      kind: 'deny',
      rule: 'catalog/files/tools/write_file',
      code: 'POLICY_DENIED',
      message: 'files/write_file is denied by catalog/files/tools/write_file.',
    });
  });

  test('every tool of a disconnected server is refused, also one that nobody knows', () => {
    for (const entries of [[], [catalogEntry()]])
      expect(catalogSays(view({ status: 'disconnected', entries, newTools: 'strategy' }), 'write_file', KNOWN)).toEqual(
        {
          kind: 'deny',
          rule: 'catalog/files/disconnected',
          code: 'TOOL_DISABLED',
          message: 'files was disconnected from the catalog.',
        },
      );
  });

  test('a tool that requires it is asked for, by those and until when the catalog says', () => {
    expect(says({ requiresApproval: true })).toEqual({ kind: 'ask', rule: 'catalog/files/tools/write_file' });
    expect(says({ requiresApproval: true, approvers: ops, deadlineSeconds: 60 })).toEqual({
      kind: 'ask',
      rule: 'catalog/files/tools/write_file',
      approvers: ops,
      deadlineSeconds: 60,
    });
    expect(says({ approvers: ops, deadlineSeconds: 60 })).toEqual({
      kind: 'nothing',
      approvers: ops,
      deadlineSeconds: 60,
    });
  });

  test('INV-G4: a tool that nobody has said anything of is asked for, unless the organisation leaves it to its strategy', () => {
    expect(catalogSays(view(), 'new', KNOWN)).toEqual({ kind: 'ask', rule: 'catalog/files/new' });
    expect(catalogSays(view({ newTools: 'strategy' }), 'new', KNOWN)).toEqual({ kind: 'nothing' });
    // What a catalog of another version may hold.
    expect(catalogSays(view({ newTools: 'later' as 'ask' }), 'new', KNOWN).kind).toBe('ask');
  });

  test('H-7: a definition that nobody has looked at is asked for, whatever the tool has', () => {
    const drift = { kind: 'ask', rule: 'catalog/files/tools/write_file/drift' };
    expect(says({}, {}, definition('second'))).toEqual(drift);
    const { acknowledged: _, ...unseen } = catalogEntry();
    expect(catalogSays(view({ entries: [unseen], newTools: 'strategy' }), 'write_file', KNOWN)).toEqual(drift);
    expect(says({ approvers: ops, deadlineSeconds: 60 }, {}, definition('second'))).toEqual({
      ...drift,
      approvers: ops,
      deadlineSeconds: 60,
    });
  });

  test('H-7: what counts is the definition that would be called, not what the server lists by now', () => {
    const drifted = { definition: { hash: definition('second'), refresh: 2 } };
    expect(says({}, drifted, definition('first')).kind).toBe('nothing');
    expect(says({}, drifted, definition('second')).kind).toBe('ask');
  });

  test.each(ODD_NAMES)('S3.5: a tool named %s is known by that name and no other', (name) => {
    const denied = catalogEntry({ name, setting: toolSetting({ denied: true }) });
    const catalog = view({ entries: [denied], newTools: 'strategy' });
    for (const tool of ODD_NAMES)
      expect(catalogSays(catalog, tool, KNOWN).kind).toBe(tool === name ? 'deny' : 'nothing');
    expect(catalogSays(view({ newTools: 'strategy' }), name, KNOWN).kind).toBe('nothing');
  });
});

describe('what is offered', () => {
  test('S3.3: everything but what is disabled, missing or disconnected; a denied tool is, and says so when it is called', () => {
    const offered = (setting: Partial<ToolSetting>, over: Partial<CatalogEntry> = {}): boolean =>
      isOffered(view({ entries: [catalogEntry({ setting: toolSetting(setting), ...over })] }), 'write_file');
    expect(offered({})).toBe(true);
    expect(offered({ denied: true })).toBe(true);
    expect(offered({ enabled: false })).toBe(false);
    expect(offered({}, { status: 'missing' })).toBe(false);
    expect(isOffered(view(), 'write_file')).toBe(true);
    expect(isOffered(view({ status: 'disconnected' }), 'write_file')).toBe(false);
  });

  test('S3.3: what is not offered is refused where it is called all the same', () => {
    fc.assert(
      fc.property(catalogView, catalogTool, word, (catalog, tool, seen) => {
        if (!isOffered(catalog, tool)) expect(catalogSays(catalog, tool, definition(seen)).kind).toBe('deny');
      }),
      { numRuns: 500 },
    );
  });
});

test.each<[string, boolean | undefined, boolean | undefined, boolean]>([
  ['no catalog, and nobody has configured the server', undefined, undefined, false],
  ['no catalog, and the operator trusts it', undefined, true, true],
  ['no catalog, and the operator does not', undefined, false, false],
  ['the catalog alone, which trusts it', true, undefined, true],
  ['the catalog alone, which does not', false, undefined, false],
  ['both, and both trust it', true, true, true],
  ['both, and only the catalog does', true, false, false],
  ['both, and only the operator does', false, true, false],
])('INV-G4: whoever has a say must trust a server: %s', (_, trusted, configured, expected) => {
  expect(trustsServer(trusted === undefined ? undefined : { connection: { trusted } }, configured)).toBe(expected);
});

test('INV-G4: a catalog without a connection trusts nothing', () => {
  expect(trustsServer({}, true)).toBe(false);
});
