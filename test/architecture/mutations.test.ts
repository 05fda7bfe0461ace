/** The negative controls of replay change the code as it is: one whose text has moved would be found out only by the slow suites. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, test } from '@jest/globals';
import type { Mutation } from '../replay/mutant.ts';

const ROOT = join(import.meta.dirname, '../..');
const FOLDER = join(ROOT, 'test/replay');

test('each finds its text in its file once', async () => {
  const files = readdirSync(FOLDER).filter((name) => name.endsWith('mutations.ts'));
  expect(files.length).toBeGreaterThan(7);
  const lists = await Promise.all(
    files.map(
      // Sound: such a file has lists of mutations, and nothing else.
      async (file) => (await import(pathToFileURL(join(FOLDER, file)).href)) as Record<string, readonly Mutation[]>,
    ),
  );
  const mutations = new Set(lists.flatMap((each) => Object.values(each).flat()));
  expect(mutations.size).toBeGreaterThan(100);
  const found = [...mutations].map(({ name, file, find }) => [
    name,
    readFileSync(join(ROOT, file), 'utf8').split(find).length - 1,
  ]);
  expect(found.filter(([, times]) => times !== 1)).toEqual([]);
});
