/** A vault on a file system whose answers are lost: it sends again, and meets the name that it has made itself (link(2), BUGS). */
import * as files from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, jest, test } from '@jest/globals';
import { entryOf, VAULT_KEYS } from '../../../support/builders/vault.ts';

let loseAnswers = false;
jest.unstable_mockModule('node:fs/promises', () => ({
  ...files,
  link: async (...given: Parameters<typeof files.link>) => {
    await files.link(...given);
    if (loseAnswers) await files.link(...given);
  },
}));
const { createVaultDirectory, VAULT_ROOT } = await import('../../../../activities/vault/directory.ts');
const { setUpRoot } = await import('../../../../activities/artifacts/root.ts');

let parent: string;
beforeEach(async () => {
  parent = await files.mkdtemp(join(tmpdir(), 'countersign-nfs-'));
});
afterEach(async () => files.rm(parent, { recursive: true, force: true }));

test('F10: a version that was written is told so; one of another writer is not', async () => {
  const root = join(parent, 'vault');
  setUpRoot(root, true, VAULT_ROOT);
  const vault = createVaultDirectory(root, VAULT_KEYS);
  loseAnswers = true;
  expect(await vault.write('a', entryOf(), undefined)).toBe('1');
  expect(await vault.write('a', entryOf(), '1')).toBe('2');
  const told = await Promise.all([1, 2, 3].map(async () => await vault.write('a', entryOf(), '2')));
  expect(told.filter((version) => version !== undefined)).toEqual(['3']);
  expect((await vault.read('a'))?.version).toBe('3');
});
