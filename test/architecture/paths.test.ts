// What the pages say of the tree is true of the tree: a path that is not there sends a reader nowhere.
// Decisions (docs/adr) are frozen: they name files as they were.
import { readdirSync, readFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import { expect, test } from '@jest/globals';
import { ROOT, topFolders } from './source-tree.ts';

const folders = [...topFolders(), 'docs'];
/** Every file and folder below the top folders, from the root. */
const tree = new Set(
  folders.flatMap((folder) => [
    folder,
    ...readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' }).map((name) =>
      posix.join(folder, name.replaceAll('\\', '/')),
    ),
  ]),
);
const names = new Set([...tree].map((path) => posix.basename(path)));

const pages = [
  'ARCHITECTURE.md',
  'CONTRIBUTING.md',
  'SECURITY.md',
  'README.md',
  'REVIEW.md',
  ...[...tree].filter((path) => path.endsWith('.md') && !path.startsWith('docs/adr/')),
];

/** From the root; what holds a placeholder, such as `<port>`, is none. */
const FULL = new RegExp(`^(?:${folders.join('|')})/[\\w./-]*$`);
/** A file of source whose folder the sentence has named. */
const BARE = /^[a-z0-9]+(?:[.-][a-z0-9]+)*\.ts$/;

function read(page: string): string {
  return readFileSync(join(ROOT, page), 'utf8');
}

/** The words in backticks: also those of a command. Blocks are left out, since what they quote may be the reader's own. */
function quotedIn(text: string): readonly string[] {
  const prose = text.replaceAll(/^ *```[^]*?^ *```/gm, '');
  return [...prose.matchAll(/`([^`\n]+)`/g)].flatMap(([, quoted = '']) => quoted.split(' '));
}

/** @returns what a page names that is not there */
function missingIn(text: string): readonly string[] {
  return quotedIn(text).filter((word) =>
    FULL.test(word) ? !tree.has(word.replace(/\/$/, '')) : BARE.test(word) && !names.has(word),
  );
}

test('a path that is there passes; one that is not is told, in full, by its name, or in a command', () => {
  const there =
    'See `test/architecture/paths.test.ts`, `paths.test.ts`, `docs/adr/`, `test/<port>.ts`, `npm test -- replay`.';
  expect(missingIn(there)).toEqual([]);
  const gone = 'See `domain/gone.ts`, `gone.ts`, `cli/gone/`, `npx tsx scripts/gone.ts --write`.';
  expect(missingIn(gone)).toEqual(['domain/gone.ts', 'gone.ts', 'cli/gone/', 'scripts/gone.ts']);
});

test('every path that a page names is there', () => {
  expect(pages.length).toBeGreaterThan(100);
  expect(pages.flatMap((page) => missingIn(read(page)).map((path) => `${page}: ${path}`))).toEqual([]);
});

test('ARCHITECTURE.md has a line for every room of the product', () => {
  const product = /^(?:contracts|domain|workflows|activities|workers|client|gateway|cli|testing)\b/;
  const rooms = [...tree].filter((path) => product.test(path) && path.endsWith('.ts')).map(posix.dirname);
  const lines = read('ARCHITECTURE.md').split('\n');
  const untold = [...new Set(rooms)].filter((room) => !lines.some((line) => line.startsWith(`| \`${room}/\` |`)));
  expect(untold).toEqual([]);
});

/** More would be more than one reader follows. */
const MOST_FILES_OF_THE_WALK = 60;

test('the walk of an approval says how many files it crosses, few enough, and how many run beside it', () => {
  const page = read('docs/architecture/approval.md');
  const [walk = [], beside = []] = page
    .split('## Beside the way\n')
    .map((part) => quotedIn(part).filter((word) => word.endsWith('.ts') && !word.startsWith('test/')));
  const [crossed, others] = [new Set(walk), new Set(beside)];
  expect(crossed.size).toBeLessThanOrEqual(MOST_FILES_OF_THE_WALK);
  expect(page).toContain(`**${crossed.size} files**`);
  expect(page).toContain(`**${others.size} more**`);
  expect([...others].filter((file) => crossed.has(file))).toEqual([]);
});
