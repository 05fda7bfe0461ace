// TypeScript that people copy from the guide compiles against the library as it is: an example that does not is worse
// than none.
import { execFile } from 'node:child_process';
import { copyFile, mkdir, readdir, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { blocksOf, type GuideBlock } from '../support/guide.ts';
import { ROOT } from './source-tree.ts';

/** Where generated things lie, which no tool looks at; of this process, since two may run at once. */
const FOLDER = join(ROOT, '.build', `snippets-${process.pid}`);

/** What the compiler found out about the library the last time, so that it reads only what has changed. */
const KNOWN = join(ROOT, '.build/snippets.tsbuildinfo');
const OWN_KNOWN = `${FOLDER}.tsbuildinfo`;

/** As a user has it: our own strictness, with what only our build needs taken out. */
const TSCONFIG = {
  extends: '../../tsconfig.base.json',
  compilerOptions: {
    types: ['node'],
    composite: false,
    declarationMap: false,
    emitDeclarationOnly: false,
    noEmit: true,
    incremental: true,
    tsBuildInfoFile: OWN_KNOWN,
    rootDir: '../..',
    // What package.json exports, as sources: nothing needs to be built.
    paths: Object.fromEntries(
      Object.entries({
        '': 'client',
        '/worker': 'workers',
        '/schemas': 'contracts/schemas',
        '/testing': 'testing',
      }).map(([entry, folder]) => [`countersign${entry}`, [`../../${folder}/index.ts`]]),
    ),
  },
  include: ['*.ts'],
};

let blocks: readonly GuideBlock[];
beforeAll(async () => {
  const guide = (await readdir(join(ROOT, 'docs/guide'))).filter((name) => name.endsWith('.md'));
  const pages = ['README.md', ...guide.map((name) => `docs/guide/${name}`)];
  blocks = (await Promise.all(pages.map((page) => blocksOf(page, '(?:ts|typescript)')))).flat();
  await mkdir(FOLDER, { recursive: true });
  await writeFile(join(FOLDER, 'tsconfig.json'), JSON.stringify(TSCONFIG));
  // The first time there is none.
  await copyFile(KNOWN, OWN_KNOWN).catch(() => undefined);
});
afterAll(async () => {
  await rename(OWN_KNOWN, KNOWN).catch(() => undefined);
  await rm(FOLDER, { recursive: true, force: true });
});

/** @returns what the compiler says, nothing where all is well */
async function compile(files: Readonly<Record<string, string>>): Promise<string> {
  for (const [name, text] of Object.entries(files)) await writeFile(join(FOLDER, name), text);
  const tsc = join(ROOT, 'node_modules/typescript/bin/tsc');
  const run = promisify(execFile)(process.execPath, [tsc, '-p', FOLDER, '--pretty', 'false'], { cwd: ROOT });
  return await run.then(
    ({ stdout }) => stdout,
    // Sound: what `execFile` adds to the error of a command that fails.
    (error: { stdout: string }) => error.stdout,
  );
}

/** `docs-guide-library.md-5.ts`: page and line. */
function fileOf({ page, line }: GuideBlock): string {
  return `${page.replaceAll('/', '-')}-${line}.ts`;
}

test('every TypeScript block of README and guide compiles, and one that uses what is not there does not', async () => {
  const pages = new Set(blocks.map(({ page }) => page));
  expect([...pages].toSorted()).toEqual([
    'README.md',
    'docs/guide/library.md',
    'docs/guide/signing.md',
    'docs/guide/single-calls.md',
  ]);
  const [readme] = blocks;
  if (readme === undefined) throw new Error('no block');
  const wrong = readme.text.replace('run.watch()', 'run.events()');
  const files = Object.fromEntries(blocks.map((block) => [fileOf(block), block.text]));
  // Together: the compiler reads the library once.
  const said = (await compile({ ...files, 'wrong.ts': wrong })).split('\n').filter((line) => line !== '');
  const ofControl = said.filter((line) => /(?:^|[\\/])wrong\.ts\(/.test(line));
  expect(ofControl[0]).toMatch(/wrong\.ts\(\d+,\d+\): error TS\d+: .*'events'/);
  expect(said.filter((line) => !ofControl.includes(line) && !line.startsWith(' '))).toEqual([]);
  // The first time the whole library is compiled.
}, 240_000);

test('none asks for requests where nothing has waited for one', () => {
  const hasty = blocks.filter(({ text }) => text.includes('.requests()') && !/watch\([^]*\.requests\(\)/.test(text));
  expect(hasty.map(({ page, line }) => `${page}:${line}`)).toEqual([]);
});
