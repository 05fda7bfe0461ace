/** A clone keeps the bundles that it makes, and takes one only for the very code that it was made of (INV-D1). */
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { bundleMark } from '../../../workers/bundle.ts';
import { keptBundle } from '../../../workers/kept-bundle.ts';

let root: string;
let folder: string;
let source: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'countersign-kept-'));
  folder = join(root, 'kept');
  source = join(root, 'run.ts');
  await writeFile(source, 'one');
});
afterEach(async () => rm(root, { recursive: true }));

let count = 0;
const make = async () => ({
  buildId: 'build',
  code: `${bundleMark()}code ${(count += 1)}`,
  files: [source],
  workflows: undefined,
});

test('a second start of the same code takes what the first one made', async () => {
  const first = await keptBundle('workers', make, folder);
  expect(first).toEqual({ buildId: 'build', code: `${bundleMark()}code ${count}`, origin: 'made at start' });
  expect(await keptBundle('workers', make, folder)).toEqual({ ...first, origin: 'built' });
  expect(await readdir(folder)).toEqual(['workers.json']);
});

test('other code gets its own, and so does another kind of bundle', async () => {
  const first = await keptBundle('workers', make, folder);
  const reading = await keptBundle('reading', make, folder);
  expect(await keptBundle('reading', make, folder)).toEqual({ ...reading, origin: 'built' });
  await writeFile(source, 'another');
  const other = await keptBundle('workers', make, folder);
  expect(new Set([first, reading, other].map(({ code }) => code)).size).toBe(3);
  expect(await keptBundle('workers', make, folder)).toEqual({ ...other, origin: 'built' });
});

test('one that begins with the mark of other code is made anew, whatever files it was made of', async () => {
  const foreign = async () => ({ ...(await make()), code: '/* workflow bundle of countersign, code 0 */' });
  await keptBundle('workers', foreign, folder);
  expect(await keptBundle('workers', make, folder)).toMatchObject({ origin: 'made at start' });
});

test('what was made while the code changed is not kept', async () => {
  const states = ['a', 'b'];
  const changing = () => states.shift() ?? 'b';
  const first = await keptBundle('workers', make, folder, changing);
  const second = await keptBundle('workers', make, folder, changing);
  expect(second).toMatchObject({ origin: 'made at start' });
  expect(second.code).not.toBe(first.code);
});

test('one that was cut off is made anew', async () => {
  await keptBundle('workers', make, folder);
  const place = join(folder, 'workers.json');
  await writeFile(place, (await readFile(place, 'utf8')).slice(0, -2));
  expect(await keptBundle('workers', make, folder)).toMatchObject({ origin: 'made at start' });
});

test('nothing is kept where nothing can be written, or no folder is for it', async () => {
  for (const place of [source, '', source, ''])
    expect(await keptBundle('workers', make, place)).toMatchObject({ origin: 'made at start' });
  expect(await readdir(root)).toEqual(['run.ts']);
});
