// What a file may be called, how long it may get and how it may export: the rules that keep "where is this decided?" answerable from the tree.
import { posix } from 'node:path';
import { expect, test } from '@jest/globals';
import { sourceFiles } from './source-tree.ts';

/** A file holds one subject that a reader wants whole. */
const MAX_LINES = 400;

/** Path → why it may be longer. An entry that is no longer needed fails too. */
const LONGER: Readonly<Record<string, string>> = {
  'domain/state/call.ts': 'the states of a call and the ways from one to another are read as one machine',
};

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
  // Jest reads its configuration from a default export.
  expect(
    files.filter(({ path, text }) => path !== 'jest.config.mjs' && exported.test(text)).map(({ path }) => path),
  ).toEqual([]);
});

test(`no file is longer than ${MAX_LINES} lines without a stated reason`, () => {
  const long = files.filter(({ text }) => text.split('\n').length - 1 > MAX_LINES).map(({ path }) => path);
  expect(long.sort()).toEqual(Object.keys(LONGER).sort());
});
