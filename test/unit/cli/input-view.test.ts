/** What a server asks, as people read it (F26, F27). */
import { expect, test } from '@jest/globals';
import { inputRows } from '../../../cli/views/input.ts';

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
  expect(Object.fromEntries(rows)).toMatchObject({
    asks: expect.stringContaining('round 2'),
    who: 'Who?',
    name: 'required, text, 1 to 9 characters, “Name”, Yours, proposed: Ann',
    mail: 'optional, email, at most 9 characters',
    age: 'optional, integer, at least 1',
    sure: 'optional, true or false',
    one: 'optional, one of a (A) | b',
    some: 'optional, some of a, at least 1 of them',
  });
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

test('a server that waits on an open connection is said to', () => {
  const about = { kind: 'input', round: 1, requests: {} } as const;
  expect(Object.fromEntries(inputRows({ ...about, held: true }))['waits']).toContain('open connection');
  expect(Object.fromEntries(inputRows(about))['waits']).toBeUndefined();
});
