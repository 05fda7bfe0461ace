// `test/conformance/rows.json` says which test covers which row of the acceptance lists for tool calls: the failure
// matrix (2.1), its mapping (2.4), what users of other clients run into (6), and the fault suite (F). Each test that it
// cites is there.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { ROOT, textsIn } from './source-tree.ts';

interface Row {
  readonly row: string;
  readonly what: string;
  readonly tests?: readonly { readonly file: string; readonly says: string }[];
  /** What is not covered, and where it belongs. */
  readonly later?: string;
  /** Why a worker that is killed in the middle of it (SIGKILL) would show nothing of its own. */
  readonly kill?: string;
}

// Sound: our own file, whose fields the tests below read.
const rows = JSON.parse(readFileSync(join(ROOT, 'test/conformance/rows.json'), 'utf8')) as readonly Row[];

const range = (from: number, to: number): number[] => Array.from({ length: to - from + 1 }, (_, index) => from + index);
const WANTED = [
  ...['not sent', 'rejected', 'executed', 'unknown'].map((kind) => `2.4 ${kind}`),
  ...range(1, 19).map((item) => `6.${item}`),
  ...[1, 2, 3, ...range(5, 15), ...range(24, 29)].map((fault) => `F${fault}`),
];

test('every row is there once, with a test or with the reason why it has none', () => {
  const names = rows.map(({ row }) => row);
  expect(new Set(names).size).toBe(names.length);
  expect(names).toEqual(expect.arrayContaining(WANTED));
  expect(names.filter((name) => name.startsWith('2.1 '))).toHaveLength(13);
  expect(rows.filter(({ tests = [], later = '' }) => tests.length === 0 && later === '')).toEqual([]);
});

test('every fault is met by a worker that is killed in the middle of it, or says why that shows nothing of its own', () => {
  const kills = ({ file }: { readonly file: string }): boolean =>
    /\bkill\(\)/.test(readFileSync(join(ROOT, file), 'utf8'));
  const faults = rows.filter(({ row }) => row.startsWith('F'));
  const answers = faults.map(({ row, tests = [], kill = '' }) => ({
    row,
    isMet: tests.some(kills),
    says: kill !== '',
  }));
  // Not both: a reason beside a test would be out of date.
  expect(answers.filter(({ isMet, says }) => isMet === says)).toEqual([]);
});

test.each(rows)('$row, $what: the tests that it cites are there', ({ tests = [] }) => {
  for (const { file, says } of tests)
    expect({ file, says, stands: titlesIn(file).some((title) => title.includes(says)) }).toEqual({
      file,
      says,
      stands: true,
    });
});

test('what stands in a comment or in code is no title', () => {
  const titles = titlesIn('test/workflow/cli.test.ts').join('\n');
  expect(titles).toContain('--all shows what it would do, and does it with --yes');
  // In its first comment, and in its code.
  for (const other of ['what it does for operators', 'expect(']) expect(titles).not.toContain(other);
});

function titlesIn(file: string): readonly string[] {
  return textsIn(readFileSync(join(ROOT, file), 'utf8'));
}

test('every way to fail that the matrix names is cited, or is a further case of one that is', () => {
  const cited = JSON.stringify(rows);
  const table = readFileSync(join(ROOT, 'test/conformance/tools-failure.suite.ts'), 'utf8');
  const ids = [...table.matchAll(/'(M-[^']+)'/g)].map(([, id = '']) => id);
  expect(new Set(ids).size).toBe(ids.length);
  expect(ids.length).toBeGreaterThan(45);
  const gone = ['M-gone-spec', 'M-gone-v2', 'M-gone-v1'];
  const refused = ['M-413', 'M-429-bare', 'M-400-session', 'M-404-session', 'M-rpc-32022'];
  const further = [...gone, ...refused, 'M-503-bare', 'M-409', 'M-202'];
  expect(ids.filter((id) => !cited.includes(`"${id}"`)).toSorted()).toEqual(further.toSorted());
});
