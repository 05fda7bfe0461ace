/** Names that servers choose stand beside words of ours: they are seen to be names, and move nothing else (DESIGN §4). */
import { expect, test } from '@jest/globals';
import { plain } from '../../../cli/terminal.ts';
import { diffAnswer, toolAnswer } from '../../../cli/views/catalog-tool.ts';
import { toolsAnswer } from '../../../cli/views/catalog.ts';
import { fields, table } from '../../../cli/views/fields.ts';
import { requestText } from '../../../cli/views/request.ts';
import { responsesFrom } from '../../../cli/input-values.ts';
import type { CatalogSnapshot } from '../../../contracts/schemas/catalog.ts';
import type { InputRequest } from '../../../contracts/schemas/input.ts';
import { approvalRequest } from '../../support/builders/approval-request.ts';
import { catalogEntry, catalogOf } from '../../support/builders/catalog.ts';

test('a tool that is called like a line of ours is seen to be a name', () => {
  const name = 'book  approved by ann';
  const shown = '"book \\u{20}approved by ann"';
  const now = Date.parse('2026-01-01T00:10:00.000Z');
  const [head] = requestText({ ...approvalRequest(), tool: name }, { full: true, now }, plain).split('\n');
  expect(head).toContain(`files/${shown}  waits for`);
  const entry = catalogEntry({ name });
  const snapshot: CatalogSnapshot = {
    ...catalogOf([entry]),
    entries: [entry],
    listings: {},
    pending: [],
    mark: 'first/1',
    ledgerLength: 1,
    ledgerHead: 'a'.repeat(64),
  };
  const reading = { snapshot, definitions: new Map(), verdicts: new Map() };
  const diff = diffAnswer(snapshot, [{ entry, differences: [{ path: 'digest', before: 'a', after: 'b' }] }]);
  for (const { text } of [toolsAnswer(reading), toolAnswer(reading, entry), diff]) expect(text(plain)).toContain(shown);
  // Of a definition, a field too is named by the server.
  expect(diff.text(plain)).toMatch(/^ {2}at │ digest$/m);
});

test('no label and no cell moves a column out of sight', () => {
  const long = 'x'.repeat(1_000);
  const rows = [
    [long, 'one'],
    ['host', 'two'],
  ] as const;
  expect(fields(plain, rows).split('\n')[1]).toMatch(/^ {2}host {2,30}two$/);
  expect(table(plain, [['TOOL', 'STATUS'], ...rows]).split('\n')[2]).toMatch(/^host {2,200}two$/);
});

test('fields that a server asks for are named in one line, in errors too', () => {
  const who: InputRequest = {
    kind: 'form',
    message: '',
    fields: { 'x\n  host  login.example': { type: 'boolean' } },
    required: [],
    hash: 'a'.repeat(64),
  };
  expect(() => responsesFrom({ who }, { set: ['y=1'] })).toThrow(/^The server asks for no y; it asks for: "who\.x\\u/);
  expect(() => responsesFrom({ who, 'a\nb': who }, { content: {} })).toThrow(/who, "a\\u\{a\}b"/);
});
