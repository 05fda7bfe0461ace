/** What a server asks, as people read it (F26, F27). */
import { expect, test } from '@jest/globals';
import { plain } from '../../../../cli/session/terminal.ts';
import { inputRows, requestText } from '../../../../cli/views/request.ts';
import type { InputPause } from '../../../../contracts/schemas/request.ts';
import type { InputRequest } from '../../../../contracts/schemas/input.ts';
import { approvalRequest } from '../../../support/builders/approval-request.ts';

const hash = '1'.repeat(64);

test('F27: every field is shown, with what it must be', () => {
  const rows = inputRows({
    kind: 'input',
    round: 2,
    requests: {
      who: {
        kind: 'form',
        message: 'Who?',
        required: ['name'],
        fields: {
          name: { type: 'text', minLength: 1, maxLength: 9, title: 'Name', description: 'Yours', default: 'Ann' },
          mail: { type: 'text', format: 'email', maxLength: 9 },
          age: { type: 'integer', minimum: 1 },
          sure: { type: 'boolean' },
          one: { type: 'choice', options: [{ value: 'a', title: 'A' }, { value: 'b' }] },
          some: { type: 'choices', options: [{ value: 'a' }], minItems: 1 },
        },
        hash,
      },
    },
  });
  expect(rows).toEqual([
    ['asks', expect.stringContaining('round 2')],
    ['connection', undefined],
    ['question', '"who": Who?'],
    ['field', '"name": required, text, 1 to 9 characters, "Name", "Yours", proposed: "Ann"'],
    ['field', '"mail": optional, email, at most 9 characters'],
    ['field', '"age": optional, integer, at least 1'],
    ['field', '"sure": optional, true or false'],
    ['field', '"one": optional, one of "a" ("A") | "b"'],
    ['field', '"some": optional, some of "a", at least 1 of them'],
  ]);
});

test('F26: a page is shown with its whole host, and nothing of a server moves the cursor or hides', () => {
  const bad = 'x\u001b[2J\u202e\u200b';
  const rows = inputRows({
    kind: 'input',
    round: 1,
    requests: {
      [`k${bad}`]: { kind: 'url', message: bad, url: 'https://id.example:8443/in', host: 'id.example:8443', hash },
      form: {
        kind: 'form',
        message: bad,
        fields: {
          [bad]: { type: 'choice', title: bad, description: bad, default: bad, options: [{ value: bad, title: bad }] },
        },
        required: [],
        hash,
      },
    },
  });
  expect(rows).toContainEqual(['host', 'id.example:8443']);
  expect(JSON.stringify(rows)).not.toMatch(/\\u001b|\u202e|\u200b/);
  expect(rows.flat().join('')).toContain('\\u{1b}');
});

const NOW = Date.parse('2026-01-01T00:10:00.000Z');

/** The lines of a request that asks this. */
function linesOf(requests: InputPause['requests']): string[] {
  const request = { ...approvalRequest(), about: { kind: 'input', round: 1, requests } as const };
  return requestText(request, { full: true, now: NOW }, plain).split('\n');
}

test('no name of a server stands where a label of ours does, and the host is that of the page', () => {
  const names = ['host', 'may decide', 'digest', 'page', 'x'.repeat(100), '\u200b'.repeat(100)];
  const message = 'login.okta.com';
  const page: InputRequest = { kind: 'url', message, url: 'https://evil.example/in', host: 'evil.example', hash };
  const lines = linesOf({
    ...Object.fromEntries(names.map((name) => [name, page])),
    form: {
      kind: 'form',
      message,
      fields: Object.fromEntries(names.map((name) => [name, { type: 'boolean' as const }])),
      required: [],
      hash,
    },
  });
  const labels = lines.slice(1).map((line) => line.trim().split(/ {2,}/)[0]);
  expect([...new Set(labels)]).toEqual([
    'asks',
    'question',
    'host',
    'page',
    'field',
    'arguments',
    'server',
    'digest',
    'may decide',
    'deadline',
    'judged by',
  ]);
  // Ours stand once; a host for each page, and no other.
  expect(labels.filter((label) => label === 'digest' || label === 'may decide')).toHaveLength(2);
  const hosts = lines.filter((line) => /^ {2}host /.test(line));
  expect(hosts).toHaveLength(names.length);
  expect(hosts.filter((line) => !line.endsWith('  evil.example'))).toEqual([]);
  expect(lines.find((line) => line.includes('asks'))).toMatch(/^ {2}asks {2,10}the server/);
});

test('what a server says ends where it is seen to end, and no terminal makes other lines of it', () => {
  const lines = linesOf({
    sign: {
      kind: 'form',
      message: `Hello.${' '.repeat(200)}host  login.okta.com`,
      fields: {
        'a": required, text': { type: 'text', title: 'b", proposed: "c', description: 'd\\', default: ' e  ' },
      },
      required: [],
      hash,
    },
  });
  const asked = lines.filter((line) => /^ {2}(?:question|field) /.test(line));
  expect(asked).toHaveLength(2);
  for (const line of asked) expect(line.replace(/^ {2}\w+ +/, '')).not.toContain('  ');
  expect(asked[1]).toContain(
    String.raw`"a\": required, text": optional, text, "b\", proposed: \"c", "d\\", proposed: " e \u{20}"`,
  );
});

test('a server that waits on an open connection is said to', () => {
  const about = { kind: 'input', round: 1, requests: {} } as const;
  expect(Object.fromEntries(inputRows({ ...about, held: true }))['connection']).toContain('the server waits');
  expect(Object.fromEntries(inputRows(about))['connection']).toBeUndefined();
});
