/** A release is kept as it was cut: under its version, with its sum, and never replaced. */
import { createHash } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { assertNew, checkRelease, keepRelease, newestRelease } from '../../../scripts/releases.mjs';
import { ROOT } from '../../support/syntax.ts';

const RELEASES = join(ROOT, 'releases');
/** Never changed: a release adds a line. */
const RELEASED = { 'countersign-1.0.0-rc.1.tgz': '6e3a04c22d4b66919ad27c2e539fbd57dac3a9b6f64b9c61327e5090ad75c91e' };

let root: string;
let folder: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'countersign-releases-'));
  folder = join(root, 'releases');
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

function kept(version: string, content = version): string {
  const packed = join(root, 'packed.tgz');
  writeFileSync(packed, content);
  return keepRelease(packed, version, folder);
}

test('it is copied, and its sum is written as sha256sum reads it', () => {
  const path = kept('1.0.0-rc.1');
  kept('1.0.0-rc.2');
  expect(path).toBe(join(folder, 'countersign-1.0.0-rc.1.tgz'));
  expect(readFileSync(path, 'utf8')).toBe('1.0.0-rc.1');
  const [first, second] = ['1.0.0-rc.1', '1.0.0-rc.2'].map((text) => createHash('sha256').update(text).digest('hex'));
  expect(readFileSync(join(folder, 'SHA256SUMS'), 'utf8')).toBe(
    `${first}  countersign-1.0.0-rc.1.tgz\n${second}  countersign-1.0.0-rc.2.tgz\n`,
  );
  expect(checkRelease(path)).toBe(first);
});

test('a version that is there is refused, also where its tarball was taken away, and nothing changes', () => {
  const path = kept('1.0.0');
  expect(() => kept('1.0.0', 'other')).toThrow(/is there already/);
  expect(readFileSync(path, 'utf8')).toBe('1.0.0');
  rmSync(path);
  expect(() => assertNew('1.0.0', folder)).toThrow(/is there already/);
});

test('a tarball that is not what was released is refused', () => {
  const path = kept('1.0.0');
  writeFileSync(path, 'other');
  expect(() => checkRelease(path)).toThrow(/not what was released/);
});

test('a tarball that the sums beside it do not name is no release; without sums it is taken as it is', () => {
  const tried = join(root, 'tried.tgz');
  writeFileSync(tried, 'tried');
  expect(checkRelease(tried)).toMatch(/^[0-9a-f]{64}$/);
  kept('1.0.0');
  const other = join(folder, 'countersign-1.0.1.tgz');
  writeFileSync(other, 'other');
  expect(() => checkRelease(other)).toThrow(/is no release/);
});

test('the releases of this project are those that were cut: none is missing, changed or new', () => {
  expect(readdirSync(RELEASES).sort()).toEqual([...Object.keys(RELEASED), 'SHA256SUMS'].sort());
  for (const [name, sum] of Object.entries(RELEASED)) expect(checkRelease(join(RELEASES, name))).toBe(sum);
});

test('the newest is the one with the highest version; a candidate is older than its release', () => {
  expect(newestRelease(folder)).toBeUndefined();
  for (const version of ['1.0.0-rc.2', '1.0.0-rc.10', '0.9.0']) kept(version);
  expect(newestRelease(folder)).toBe(join(folder, 'countersign-1.0.0-rc.10.tgz'));
  for (const version of ['1.0.0', '1.9.0', '1.10.0-rc.1']) kept(version);
  expect(newestRelease(folder)).toBe(join(folder, 'countersign-1.10.0-rc.1.tgz'));
  kept('1.10.0');
  expect(newestRelease(folder)).toBe(join(folder, 'countersign-1.10.0.tgz'));
});
