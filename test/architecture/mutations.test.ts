/** The negative controls of replay change the code as it is: one whose text has moved would be found out only by the slow suites. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import * as decisions from '../replay/decision-mutations.ts';
import * as held from '../replay/held-mutations.ts';
import * as others from '../replay/mutations.ts';
import * as pauses from '../replay/pause-mutations.ts';
import * as signed from '../replay/signed-mutations.ts';

const ROOT = join(import.meta.dirname, '../..');
const MUTATIONS = [decisions, held, others, pauses, signed].flatMap((lists) => Object.values(lists).flat());

test('each finds its text in its file once', () => {
  expect(MUTATIONS.length).toBeGreaterThan(80);
  const found = MUTATIONS.map(({ name, file, find }) => [
    name,
    readFileSync(join(ROOT, file), 'utf8').split(find).length - 1,
  ]);
  expect(found.filter(([, times]) => times !== 1)).toEqual([]);
});
