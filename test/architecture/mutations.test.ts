/** The negative controls of replay change the code as it is: one whose place has gone would be found out only by the slow suites. */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, test } from '@jest/globals';
import { always, type Change, changed, never, removed, replaced } from '../replay/change.ts';
import type { Mutation } from '../replay/mutant.ts';
import { parsed, ROOT } from '../support/syntax.ts';

const FOLDER = join(ROOT, 'test/replay');

test('each finds its place once, and leaves code', async () => {
  const files = readdirSync(FOLDER).filter((name) => name.endsWith('mutations.ts'));
  expect(files.length).toBeGreaterThan(7);
  const lists = await Promise.all(
    files.map(
      // Sound: such a file has lists of mutations, and nothing else.
      async (file) => (await import(pathToFileURL(join(FOLDER, file)).href)) as Record<string, readonly Mutation[]>,
    ),
  );
  const mutations = new Set(lists.flatMap((each) => Object.values(each).flat()));
  expect(mutations.size).toBeGreaterThan(100);
  const faults = [...mutations].flatMap((mutation) => {
    try {
      parsed(changed(mutation.change)[1]);
      return [];
    } catch (error) {
      return [`${mutation.name}: ${String(error)}`];
    }
  });
  expect(faults).toEqual([]);
});

function outcomeOf(change: Change, ...bodies: readonly string[]): string {
  const sources = new Map(bodies.map((body, n) => [`${n}.ts`, `function f(live: Live) { ${body} }`]));
  const text = changed(change, sources)[1];
  return text
    .slice(text.indexOf('{') + 1, text.lastIndexOf('}'))
    .replaceAll(/\s+/g, ' ')
    .trim();
}

test.each<[string, string, Change, string]>([
  [
    'comments and layout',
    'if (a\n // why\n >= b) c( 1_000 );',
    replaced('f', 'a >= b', 'a > b'),
    'if ((a > b)) c(1000);',
  ],
  ['parentheses and types', 'return (g((a) as A));', always('f', 'g(a)'), 'return ((true));'],
  ['names in a hole', 'if (own !== undefined) throw b;', never('f', '$_ !== undefined'), 'if ((false)) throw b;'],
  ['two holes of one name', 'if (a < a || a < b) c();', never('f', '$x < $x'), 'if ((false) || a < b) c();'],
  ['other arguments', 'return g(1, a, ...b);', replaced('f', 'g($_, $$rest)', 'h($$rest)'), 'return (h(a, ...b));'],
  ['a statement', 'g(1); h(g(2));', removed('f', 'g($$);'), 'h(g(2));'],
  ['a property', 'return { a, b: 1, ...c };', removed('f', 'b: $_'), 'return { a, ...c };'],
])('what changes nothing about it: %s', (_, body, change, expected) => {
  expect(outcomeOf(change, body)).toBe(expected);
});

test('control: a place that is not found, or not the only one, is said with what was looked for', () => {
  const change = never('f', '$_ < 2');
  expect(() => outcomeOf(change, 'a > 2;')).toThrow(
    '"$_ < 2" stands 0 times in f, not once; files with that name: 0.ts',
  );
  expect(() => outcomeOf(change, 'a < 2;', 'b < 2;')).toThrow(
    '2 times in f, not once; files with that name: 0.ts, 1.ts',
  );
  expect(() => outcomeOf(change)).toThrow('0 times in f, not once; files with that name: none');
});
