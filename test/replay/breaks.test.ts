// The page on what a replay sees says what `breaks.ts` says; `breaks.slow.test.ts` plays each row.
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { ROOT } from '../support/syntax.ts';
import { BREAKS, LAYERS, tableOfBreaks } from './breaks.ts';

test('the table of the page is that of the rows', async () => {
  const page = await readFile(join(ROOT, 'docs/operations/what-a-replay-sees.md'), 'utf8');
  expect(page).toContain(`\n\n${tableOfBreaks()}\n\n`);
});

test('each layer stops something, and each break has a name of its own', () => {
  expect(new Set(BREAKS.map(({ caughtBy }) => caughtBy))).toEqual(new Set(LAYERS));
  expect(new Set(BREAKS.map(({ name }) => name)).size).toBe(25);
});
