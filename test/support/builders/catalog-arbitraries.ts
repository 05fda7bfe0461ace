/** Random catalogs, settings and changes over few names, so that they often speak of the same tool. */
import fc from 'fast-check';
import type { CatalogEntry, ToolChange, ToolSetting } from '../../../contracts/schemas/catalog.ts';
import type { CatalogView } from '../../../domain/catalog/layer.ts';
import { approverList } from './arbitraries.ts';
import { definition } from './catalog.ts';

/** Names with a special meaning in JavaScript, in paths, or as a model's tool name. */
export const ODD_NAMES = [
  'constructor',
  'toString',
  '__proto__',
  'issue.get',
  'issue_get',
  'a/b',
  'a__b',
  'write_file',
];
export const catalogTool = fc.constantFrom(...ODD_NAMES);

/** Words that tell definitions apart (`definition`). */
export const word = fc.constantFrom('first', 'second', 'third');
const seen = fc.record({ hash: word.map(definition), refresh: fc.integer({ min: 1, max: 9 }) });

/** Values around the default of 24 hours. */
const deadlineSeconds = fc.constantFrom(1, 60, 86_399, 86_400, 86_401, 604_800);
const sane = { noNullPrototype: true };

export const toolSetting: fc.Arbitrary<ToolSetting> = fc.record(
  {
    enabled: fc.boolean(),
    requiresApproval: fc.boolean(),
    denied: fc.boolean(),
    approvers: approverList,
    deadlineSeconds,
  },
  { requiredKeys: ['enabled', 'requiresApproval', 'denied'], ...sane },
);

/** Changes without an acknowledgement, which must name an existing definition. */
export const ruleChange: fc.Arbitrary<ToolChange> = fc.record(
  {
    tool: catalogTool,
    enabled: fc.boolean(),
    requiresApproval: fc.boolean(),
    denied: fc.boolean(),
    approvers: fc.option(approverList),
    deadlineSeconds: fc.option(deadlineSeconds),
  },
  { requiredKeys: ['tool'], ...sane },
);

const entry = (name: string): fc.Arbitrary<CatalogEntry> =>
  fc.record(
    {
      name: fc.constant(name),
      status: fc.constantFrom('available', 'missing'),
      definition: seen,
      acknowledged: seen,
      setting: toolSetting,
      firstSeen: fc.constant('2026-01-01T00:00:00.000Z'),
      lastSeen: fc.constant('2026-01-01T00:00:00.000Z'),
    },
    { requiredKeys: ['name', 'status', 'definition', 'setting', 'firstSeen', 'lastSeen'], ...sane },
  );

export const catalogEntries: fc.Arbitrary<readonly CatalogEntry[]> = fc
  .subarray(ODD_NAMES)
  .chain((names) => fc.tuple(...names.map(entry)));

export const catalogView: fc.Arbitrary<CatalogView> = fc.record({
  server: fc.constantFrom('files', 'constructor'),
  status: fc.constantFrom('new', 'connected', 'connected', 'connected', 'disconnected'),
  newTools: fc.constantFrom('ask', 'strategy'),
  entries: catalogEntries,
});

/** A server's listing at one time: tool → word of its definition. */
export const listed: fc.Arbitrary<Readonly<Record<string, string>>> = fc.dictionary(catalogTool, word, {
  noNullPrototype: false,
});
