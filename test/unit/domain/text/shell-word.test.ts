/** A foreign name in a command that people copy is one word of it, and nothing that a shell runs. */
import { execFileSync } from 'node:child_process';
import { expect, test } from '@jest/globals';
import { lastWord, shellWord } from '../../../../domain/text/shell-word.ts';

const HOSTILE = ['a b', "it's", '$(id)', '`id`', 'a;id', 'a&&id', '~', '*', '"', '', 'nightly-42', 'a/b:c=d,e@f%g+h'];

test.each(HOSTILE)('%p is one word', (name) => {
  expect(execFileSync('sh', ['-c', `printf %s ${shellWord(name)}`], { encoding: 'utf8' })).toBe(name);
});

test('as the last word it is no option either', () => {
  expect(lastWord('--yes')).toBe('-- --yes');
  expect(lastWord('run-1')).toBe('run-1');
});
