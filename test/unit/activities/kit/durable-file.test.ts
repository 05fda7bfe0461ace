/** A file of a shared store is whole or not there, below a root that is never made, and readable by its owner alone. */
import { mkdir, readdir, readFile, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeEach, expect, test } from '@jest/globals';
import { replace, writeNew } from '../../../../activities/kit/durable-file.ts';
import { nodeCodeOf } from '../../../../contracts/errors.ts';
import { useConfigFolders } from '../../../support/config-folder.ts';

const { folder } = useConfigFolders();
let parent: string;
let root: string;
let path: string;
beforeEach(async () => {
  parent = await folder();
  root = join(parent, 'root');
  path = join(root, 'one', 'two', 'file');
  await mkdir(root);
});

test.each([['writeNew'], ['replace']])('%s makes the folders below the root, for the owner alone', async (name) => {
  expect(await (name === 'replace' ? replace : writeNew)(root, path, 'all of it')).not.toBe(false);
  expect(await readFile(path, 'utf8')).toBe('all of it');
  const modes = [join(root, 'one'), join(root, 'one', 'two'), path].map(
    async (each) => (await stat(each)).mode & 0o777,
  );
  expect(await Promise.all(modes)).toEqual([0o700, 0o700, 0o600]);
});

test('of writers of one new file one is first, and the file is theirs; nothing else stays', async () => {
  const first = await Promise.all(
    [...'abcdefgh'].map(async (text) => ((await writeNew(root, path, text)) ? text : '')),
  );
  expect(first.join('')).toHaveLength(1);
  expect(await readFile(path, 'utf8')).toBe(first.join(''));
  expect(await readdir(join(root, 'one', 'two'))).toEqual(['file']);
});

test('a file is replaced as a whole, and nothing else stays', async () => {
  await replace(root, path, 'long content');
  await replace(root, path, 'short');
  expect(await readFile(path, 'utf8')).toBe('short');
  expect(await readdir(join(root, 'one', 'two'))).toEqual(['file']);
});

test('the root is not made, however it is written', async () => {
  await rm(root, { recursive: true });
  for (const write of [replace, writeNew]) {
    const failed = await Promise.resolve(write(join(parent, 'other', '..', 'root'), path, 'x')).catch(nodeCodeOf);
    expect(failed).toBe('ENOENT');
  }
  expect(await readdir(parent)).toEqual([]);
  await mkdir(root);
  await replace(`${join(parent, 'other', '..')}/../${parent.split('/').at(-1)}/root/`, path, 'x');
  expect(await readFile(path, 'utf8')).toBe('x');
});
