/** What the catalog says of one tool, and whether it is offered (S3.3, INV-G4, H-7). */
import { describe, expect, test } from '@jest/globals';
import type { CatalogEntry, ToolSetting } from '../../../../contracts/schemas/catalog.ts';
import { catalogSays, type CatalogView, isOffered } from '../../../../domain/catalog/layer.ts';
import type { CatalogSay } from '../../../../domain/policy/judge.ts';
import { catalogTool, catalogView, ODD_NAMES, word } from '../../../support/builders/catalog-arbitraries.ts';
import { catalogEntry, definition, toolSetting } from '../../../support/builders/catalog.ts';
import { forMany } from '../../../support/for-all.ts';

const KNOWN = definition('first');
const ops = { ids: [], groups: ['ops'] };

function view(over: Partial<CatalogView> = {}): CatalogView {
  return { server: 'files', status: 'connected', newTools: 'ask', entries: [], ...over };
}

function says(setting: Partial<ToolSetting>, over: Partial<CatalogEntry> = {}, hash = KNOWN): CatalogSay {
  return catalogSays(view({ entries: [catalogEntry({ setting: toolSetting(setting), ...over })] }), 'write_file', hash);
}

describe('what the catalog says', () => {
  const RULE = 'catalog/files/tools/write_file';
  const [enabled, asked] = [{ enabled: false }, { requiresApproval: true }];
  const limits = { approvers: ops, deadlineSeconds: 60 };
  const drift = { kind: 'ask', rule: `${RULE}/drift` };
  const drifted = { definition: { hash: definition('second'), refresh: 2 } };
  const { acknowledged: _, ...unseen } = catalogEntry();
  const gone = 'files/write_file is missing: its server does not list it any more.';
  const byRule = `files/write_file is denied by ${RULE}.`;
  const off = 'files/write_file is disabled in the catalog.';
  const away = 'files was disconnected from the catalog.';
  const refusing = (suffix: string, code: string, message: string) => ({
    kind: 'deny',
    rule: RULE + suffix,
    code,
    message,
  });
  const disconnected = (entries: CatalogEntry[]) => view({ status: 'disconnected', entries, newTools: 'strategy' });
  const ofAny = (catalog: CatalogView, tool = 'write_file') => catalogSays(catalog, tool, KNOWN);
  const refusingAll = { kind: 'deny', rule: 'catalog/files/disconnected', code: 'TOOL_DISABLED', message: away };
  const later = view({ newTools: 'later' as 'ask' });

  test.each<[string, CatalogSay, object]>([
    ['S3.3: nothing of an enabled tool that nobody wants asked', says({}), { kind: 'nothing' }],
    ['S3.3: a disabled tool is refused', says(enabled), refusing('/disabled', 'TOOL_DISABLED', off)],
    ['S3.2: a missing tool is refused', says({}, { status: 'missing' }), refusing('/missing', 'TOOL_MISSING', gone)],
    ['a denied tool is refused by its rule', says({ denied: true }), refusing('', 'POLICY_DENIED', byRule)],
    ['every tool of a disconnected server is refused', ofAny(disconnected([catalogEntry()])), refusingAll],
    ['also one that nobody knows', ofAny(disconnected([])), refusingAll],
    ['a tool that requires it is asked for', says(asked), { kind: 'ask', rule: RULE }],
    ['by whom and until when it says', says({ ...asked, ...limits }), { kind: 'ask', rule: RULE, ...limits }],
    ['these are said also where it asks nothing', says(limits), { kind: 'nothing', ...limits }],
    ['INV-G4: a new tool is asked for', ofAny(view(), 'new'), { kind: 'ask', rule: 'catalog/files/new' }],
    ['unless it is left to the strategy', ofAny(view({ newTools: 'strategy' }), 'new'), { kind: 'nothing' }],
    // What a catalog of another version may hold.
    ['INV-G4: also where nobody knows to what', ofAny(later, 'new'), { kind: 'ask', rule: 'catalog/files/new' }],
    ['H-7: a definition that nobody has looked at is asked for', says({}, {}, definition('second')), drift],
    ['H-7: also the first', ofAny(view({ entries: [unseen], newTools: 'strategy' })), drift],
    ['H-7: with its limits', says(limits, {}, definition('second')), { ...drift, ...limits }],
    ['H-7: what would be called counts', says({}, drifted), { kind: 'nothing' }],
    ['H-7: not what the server lists by now', says({}, drifted, definition('second')), drift],
  ])('%s', (_what, said, expected) => {
    expect(said).toEqual(expected);
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
  const offered = (setting: Partial<ToolSetting>, over: Partial<CatalogEntry> = {}): boolean =>
    isOffered(view({ entries: [catalogEntry({ setting: toolSetting(setting), ...over })] }), 'write_file');

  test.each<[string, boolean, boolean]>([
    ['S3.3: a tool', offered({}), true],
    ['a denied tool, which says so when it is called', offered({ denied: true }), true],
    ['S3.3: no disabled tool', offered({ enabled: false }), false],
    ['S3.3: no missing tool', offered({}, { status: 'missing' }), false],
    ['a tool that nobody knows', isOffered(view(), 'write_file'), true],
    ['S3.3: no tool of a disconnected server', isOffered(view({ status: 'disconnected' }), 'write_file'), false],
  ])('%s', (_what, is, expected) => {
    expect(is).toBe(expected);
  });

  test('S3.3: what is not offered is refused where it is called all the same', () => {
    forMany({ numRuns: 500 }, catalogView, catalogTool, word, (catalog, tool, seen) => {
      if (!isOffered(catalog, tool)) expect(catalogSays(catalog, tool, definition(seen)).kind).toBe('deny');
    });
  });
});
