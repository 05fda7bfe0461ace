/** Every example runs as its page says, ends with the words that its page promises, and is as short as it claims. */
import { execFile } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, test } from '@jest/globals';
import { blocksOf } from '../support/guide.ts';

const ROOT = join(import.meta.dirname, '../..');
const FOLDER = join(ROOT, 'examples');
const NAMES = readdirSync(FOLDER).filter((name) => /^\d\d-/.test(name));
/** With it come a server and a bundler, on a busy machine. */
const LIMIT_MS = 180_000;
const MOST_LINES = 80;

function read(...path: readonly string[]): string {
  return readFileSync(join(FOLDER, ...path), 'utf8');
}

test('they are these, and pages lead to each of them', () => {
  expect(NAMES).toEqual([
    '01-one-approval',
    '02-two-people-and-escalation',
    '03-token-per-user',
    '04-server-that-asks',
    '05-policy-as-code',
    '06-fastify-backend',
    '07-python',
  ]);
  for (const name of NAMES) {
    expect(read('README.md')).toContain(`(${name}/README.md)`);
    expect(readFileSync(join(ROOT, 'README.md'), 'utf8')).toContain(`(examples/${name}/README.md)`);
  }
});

describe.each(NAMES)('%s', (name) => {
  test('has fewer than 80 lines of code in each file, imports the package by its name alone, and a page of a screen', () => {
    for (const file of readdirSync(join(FOLDER, name)).filter((each) => /\.(?:ts|py)$/.test(each))) {
      const text = read(name, file);
      const code = text.split('\n').filter((line) => line.trim() !== '' && !/^\s*(?:\/\/|\/\*\*|#|""")/.test(line));
      expect({ file, isShort: code.length < MOST_LINES }).toEqual({ file, isShort: true });
      expect(text).not.toMatch(/from '\.\.\//);
    }
    expect(read(name, 'README.md').split('\n').length).toBeLessThan(60);
  });

  test(
    'runs, and ends with what its page says',
    async () => {
      const page = `examples/${name}/README.md`;
      const command = (await blocksOf(page, 'sh')).flatMap(({ text }) => text.split('\n'));
      const start = `node scripts/run.mjs --engine examples/${name}/main.ts`;
      expect(command).toContain(start);
      const [, ...words] = start.split(' ');
      const { stdout, stderr } = await promisify(execFile)(process.execPath, words, { cwd: ROOT, timeout: LIMIT_MS });
      const [promised] = await blocksOf(page, 'text');
      expect({ stdout, stderr: withoutNpm(stderr) }).toEqual({ stdout: promised?.text, stderr: '' });
    },
    LIMIT_MS,
  );
});

/** npm may warn of its own configuration. */
function withoutNpm(stderr: string): string {
  return stderr
    .split('\n')
    .filter((line) => !line.startsWith('npm '))
    .join('\n');
}
