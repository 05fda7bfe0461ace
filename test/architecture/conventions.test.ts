// What a file may be called, how long it may get and how it may export: the rules that keep "where is this decided?"
// answerable from the tree.
import { posix } from 'node:path';
import { expect, test } from '@jest/globals';
import { sourceFiles } from './source-tree.ts';

/** A file holds one subject that a reader wants whole. */
const MAX_LINES = 400;

/** A longer file says in its header why it is one. */
const REASON = /^\/\*\*[^]*?\bOne file, because [^]*?\*\//;

/** Names under which anything can hide. */
const VAGUE = /^(?:utils?|helpers?|common|shared|misc|types|interfaces|constants|.*-?manager)$/;

const files = sourceFiles();

function baseName(path: string): string {
  return posix.basename(path).replace(/(?:\.slow)?(?:\.test|\.suite|\.config)?\.(?:d\.)?[a-z]+$/, '');
}

test('no file or folder has a name that says nothing', () => {
  const parts = files.flatMap(({ path }) =>
    [...posix.dirname(path).split('/'), baseName(path)].map((part) => ({ path, part })),
  );
  expect(parts.filter(({ part }) => VAGUE.test(part)).map(({ path }) => path)).toEqual([]);
});

test('file names are kebab-case', () => {
  expect(files.map(({ path }) => path).filter((path) => !/^[a-z0-9]+(?:-[a-z0-9]+)*$/.test(baseName(path)))).toEqual(
    [],
  );
});

test('nothing is exported as default, and no file re-exports another whole', () => {
  const exported = /^export (?:default\b|\*|\{[^}]*\bas default\b)/m;
  // Jest reads its configuration, and its environment, from default exports.
  expect(
    files.filter(({ path, text }) => !path.endsWith('.config.mjs') && exported.test(text)).map(({ path }) => path),
  ).toEqual([]);
});

test(`a file of more than ${MAX_LINES} lines says in its header why it is one`, () => {
  const long = files.filter(({ text }) => text.split('\n').length - 1 > MAX_LINES);
  expect(long.filter(({ text }) => !REASON.test(text)).map(({ path }) => path)).toEqual([]);
  expect(long.length).toBeGreaterThan(0);
});

/** Longer ones are cut off in a diff, where comments are read. */
const MAX_COLUMNS = 120;

test(`no comment of the product is wider than ${MAX_COLUMNS} columns`, () => {
  const product = /^(?:contracts|domain|workflows|activities|workers|client|gateway|cli|testing)\//;
  const isWide = (line: string): boolean => line.length > MAX_COLUMNS && /^\s*(?:\*|\/\/|\/\*\*)/.test(line);
  const wide = files
    .filter(({ path }) => product.test(path))
    .flatMap(({ path, text }) => text.split('\n').flatMap((line, at) => (isWide(line) ? [`${path}:${at + 1}`] : [])));
  expect(wide).toEqual([]);
});
