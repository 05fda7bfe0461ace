// Each line of the two lists of requirements that came from elsewhere, on tokens (S1) and on hosted tools (S4), is
// named by a test.
import { expect, test } from '@jest/globals';
import { sourceFiles, textsIn } from './source-tree.ts';

const LINES = ['S1', 'S4'].flatMap((list) => Array.from({ length: 8 }, (_, index) => `${list}.${index + 1}`));

/** What a test says of itself: its titles, and the comment with which its file opens. */
const said = sourceFiles()
  .filter(({ path }) => /^test\/.*\.(?:test|suite)\.ts$/.test(path))
  .filter(({ path }) => !path.startsWith('test/architecture/'))
  .map(({ text }) => [/^\/\*\*[^]*?\*\//.exec(text)?.[0] ?? '', ...textsIn(text)].join('\n'));

test.each(LINES)('%s is named in a title, or at the head of a file', (line) => {
  const named = new RegExp(`\\b${line.replace('.', '\\.')}(?![0-9])`);
  expect(said.filter((text) => named.test(text))).not.toEqual([]);
});
