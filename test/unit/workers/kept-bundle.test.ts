/** A clone keeps the bundles that it makes, and takes one only for the very code that it was made of (INV-D1). */
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { keptBundle } from '../../../workers/kept-bundle.ts';

let folder: string;
beforeEach(async () => void (folder = await mkdtemp(join(tmpdir(), 'countersign-kept-'))));
afterEach(async () => rm(folder, { recursive: true }));

let made = 0;
const make = async () => ({ buildId: 'build', code: `code ${(made += 1)}` });
const state = (key: string) => async () => key;

test('a second start of the same code takes what the first one made', async () => {
  const first = await keptBundle('workers', make, folder, state('a'));
  expect(first).toEqual({ buildId: 'build', code: `code ${made}`, origin: 'made at start' });
  expect(await keptBundle('workers', make, folder, state('a'))).toEqual({ ...first, origin: 'built' });
  expect(await readdir(folder)).toEqual(['workers.json']);
});

test('other code gets its own, and so does another kind of bundle', async () => {
  const first = await keptBundle('workers', make, folder, state('a'));
  const reading = await keptBundle('reading', make, folder, state('a'));
  const other = await keptBundle('workers', make, folder, state('b'));
  expect(new Set([first, reading, other].map(({ code }) => code)).size).toBe(3);
  expect(await keptBundle('reading', make, folder, state('a'))).toEqual({ ...reading, origin: 'built' });
  expect(await keptBundle('workers', make, folder, state('b'))).toEqual({ ...other, origin: 'built' });
});

test('what was made while the code changed is not kept', async () => {
  const states = ['a', 'b', 'a'];
  const changing = async () => states.shift() ?? 'a';
  const first = await keptBundle('workers', make, folder, changing);
  const second = await keptBundle('workers', make, folder, changing);
  expect(second).toMatchObject({ origin: 'made at start' });
  expect(second.code).not.toBe(first.code);
});

test('one that was cut off is made anew', async () => {
  await writeFile(join(folder, 'workers.json'), '{"key":"a","buildId":"build","co');
  expect(await keptBundle('workers', make, folder, state('a'))).toMatchObject({ origin: 'made at start' });
});

test('nothing is kept where nothing can be written, or no folder is for it', async () => {
  const file = join(folder, 'file');
  await writeFile(file, '');
  for (const place of [file, '', file, ''])
    expect(await keptBundle('workers', make, place, state('a'))).toMatchObject({ origin: 'made at start' });
  expect(await readdir(folder)).toEqual(['file']);
});
