// The command has one spelling where people read of it: `countersign …`. How to call it where it is not on PATH is said
// at the beginning.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { ROOT } from './source-tree.ts';

const FOLDERS = ['docs', 'cli', 'workers', 'client', 'activities', 'contracts', 'domain', 'examples', 'testing'];
const PAGES = ['README.md', 'SECURITY.md', 'countersign.example.yaml'];
/** They say what stands before the command in a clone. */
const SAYS = [
  'README.md',
  'cli/verbs/dev.ts',
  'docs/guide/first-approval.md',
  'docs/guide/getting-started.md',
  // A job of CI.
  'examples/05-policy-as-code/README.md',
  'examples/demo/main.ts',
];

const paths = [
  ...PAGES,
  ...FOLDERS.flatMap((folder) =>
    readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' }).map((name) => join(folder, name)),
  ),
].filter((path) => /\.(md|ts|yaml)$/.test(path) && !path.startsWith('docs/adr/'));

function naming(pattern: RegExp): readonly string[] {
  return paths.filter((path) => pattern.test(readFileSync(join(ROOT, path), 'utf8'))).toSorted();
}

test('pages and hints say `countersign …`, and these say how to call it in a clone or a project', () => {
  expect(naming(/\bcountersign requests\b/).length).toBeGreaterThan(5);
  expect(naming(/npm run (?:-s )?countersign/)).toEqual([]);
  expect(naming(/\bnpx countersign\b/)).toEqual(SAYS);
});
