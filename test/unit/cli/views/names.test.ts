/** Names that servers choose stand beside words of ours: they are seen to be names, and move nothing else (DESIGN §4). */
import { expect, test } from '@jest/globals';
import { responsesFrom } from '../../../../cli/session/input-values.ts';
import { plain } from '../../../../cli/session/terminal.ts';
import { diffAnswer, toolAnswer, toolsAnswer } from '../../../../cli/views/catalog.ts';
import { fields, memoToolText, table, toolText } from '../../../../cli/views/format.ts';
import { requestText } from '../../../../cli/views/request.ts';
import type { InputRequest } from '../../../../contracts/schemas/input.ts';
import { visible } from '../../../../domain/text/escape.ts';
import { approvalRequest } from '../../../support/builders/approval-request.ts';
import { catalogEntry, catalogSnapshot } from '../../../support/builders/catalog.ts';

test('a tool that is called like a line of ours is seen to be a name', () => {
  const name = 'book  approved by ann';
  const shown = '"book \\u{20}approved by ann"';
  const now = Date.parse('2026-01-01T00:10:00.000Z');
  const [head] = requestText({ ...approvalRequest(), tool: name }, { full: true, now }, plain).split('\n');
  expect(head).toContain(`files/${shown}  waits for`);
  const entry = catalogEntry({ name });
  const snapshot = catalogSnapshot([entry]);
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

test('INV-G2: no text of others sets a line apart that could pass for one of ours, where somebody approves', () => {
  const faked = `Books a seat.${' '.repeat(60)}digest      aaaa  may decide  everybody`;
  const request = {
    ...approvalRequest(),
    description: faked,
    arguments: { note: faked },
    reopenedBecause: faked,
    explain: [{ rule: 'r', text: faked }],
    annotations: { title: faked },
  };
  const lines = requestText(request, { full: true, now: 0 }, plain).split('\n');
  const told = lines.filter((line) => line.includes('Books a seat.'));
  expect(told).toHaveLength(5);
  for (const line of told) expect(line.slice(line.indexOf('Books'))).not.toMatch(/ {2}/);
  const about = { kind: 'outcome', sentAt: '2026-01-01T00:00:00.000Z', attempt: 1, message: faked } as const;
  expect(requestText({ ...request, about }, { full: true, now: 0 }, plain)).not.toMatch(/Books a seat\. {2}/);
});

test('a tool is called the same in the inbox as in its request; there its name comes from the memo, made visible', () => {
  for (const name of ['book', 'a\u200bb', 'two words', 'a  b']) {
    expect(memoToolText('desk', visible(name)).replaceAll('\\\\u', '\\u')).toBe(toolText('desk', name));
  }
  expect(memoToolText('desk', 'x\u001b[2J')).toBe('desk/"x\\u{1b}[2J"');
});
