// A test file in a folder that no suite covers would never run and never fail: every one belongs to exactly one suite.
import { execFileSync } from 'node:child_process';
import { relative } from 'node:path';
import { expect, test } from '@jest/globals';
import { JEST } from '../../scripts/jest.mjs';
import { SUITES } from '../../scripts/suites.mjs';
import { ROOT, sourceFiles } from './source-tree.ts';

function listed(suites: readonly string[]): string[] {
  const output = execFileSync(process.execPath, [...JEST, '--listTests', '--json', '--selectProjects', ...suites], {
    cwd: ROOT,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  return (JSON.parse(output) as string[]).map((path) => relative(ROOT, path).replaceAll('\\', '/'));
}

const [fast = [], slow = [], byHand = []] = (['fast', 'slow', 'by hand'] as const).map((pace) =>
  listed(SUITES.filter((suite) => suite.pace === pace).map(({ name }) => name)),
);

test('every test file is run by one suite', () => {
  const all = [...new Set([...fast, ...slow, ...byHand])];
  const expected = sourceFiles()
    .map(({ path }) => path)
    .filter((path) => /^test\/.*\.test\.(?:ts|mjs)$/.test(path));
  expect(all.sort()).toEqual(expected.sort());
});

test('`npm test`, the slow suites and what is played by hand share no file', () => {
  expect([...fast, ...slow, ...byHand]).toHaveLength(new Set([...fast, ...slow, ...byHand]).size);
});

test('the whole drill, and queries without their guard, alone are played by hand', () => {
  expect(byHand.toSorted()).toEqual(['test/drill/drill.test.ts', 'test/drill/unguarded-queries.test.ts']);
});

test('every test on workers that are killed replays what they left behind; other worlds do so by themselves (INV-D1)', () => {
  const fault = sourceFiles().filter(({ path }) => /^test\/fault\/.*\.test\.ts$/.test(path));
  expect(fault.length).toBeGreaterThan(0);
  expect(fault.filter(({ text }) => !text.includes('await replayOwn(')).map(({ path }) => path)).toEqual([]);
});
