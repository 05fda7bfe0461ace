/** The vaults against the suite of their port, and what only one of them can do. */
import { chmod, mkdir, mkdtemp, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { setUpRoot } from '../../activities/artifacts/root.ts';
import { createVaultDirectory, fileOf, folderOf, VAULT_ROOT } from '../../activities/vault/directory.ts';
import { createVaultEnvironment, type Vault } from '../../activities/vault/port.ts';
import type { VaultEntry } from '../../contracts/schemas/stores.ts';
import { createMemoryVault, entryOf, VAULT_KEYS } from '../support/builders/vault.ts';
import { vaultSuite } from './vault.suite.ts';

let parent: string;
beforeAll(async () => {
  parent = await mkdtemp(join(tmpdir(), 'countersign-vault-'));
});
afterAll(async () => rm(parent, { recursive: true, force: true }));

let made = 0;
function newRoot(): string {
  made += 1;
  const root = join(parent, `vault-${made}`);
  setUpRoot(root, true, VAULT_ROOT);
  return root;
}

async function filled<V extends Vault>(vault: V, entries: Readonly<Record<string, VaultEntry>>): Promise<V> {
  for (const [ref, entry] of Object.entries(entries)) await vault.write(ref, entry, undefined);
  return vault;
}

vaultSuite({
  name: 'a directory',
  writable: true,
  create: async (entries) => {
    const root = newRoot();
    const other = createVaultDirectory(root, VAULT_KEYS.toReversed());
    return { vault: await filled(createVaultDirectory(root, VAULT_KEYS), entries), other };
  },
});

vaultSuite({
  name: 'an environment',
  create: async (entries) => {
    const refs = Object.keys(entries);
    const variables = Object.fromEntries(refs.map((ref, index) => [ref, `GRANT_${index}`]));
    const values = Object.values(entries).map((entry, index) => [`GRANT_${index}`, JSON.stringify(entry)]);
    const environment: Record<string, string> = Object.fromEntries(values);
    return {
      vault: createVaultEnvironment(variables, environment),
      other: createVaultEnvironment(variables, environment),
    };
  },
});

// What tests of renewals stand on.
vaultSuite({
  name: 'the memory of a test',
  writable: true,
  create: async (entries) => {
    const vault = await filled(createMemoryVault(), entries);
    return { vault, other: vault };
  },
});

describe('the vault directory', () => {
  const REF = 'ann-notes';
  const FOLDER = folderOf(REF);

  async function contents(root: string): Promise<string[]> {
    const files = await readdir(join(root, FOLDER));
    return await Promise.all(files.toSorted().map(async (file) => await readFile(join(root, FOLDER, file), 'utf8')));
  }

  test('INV-S1: what is on disk is encrypted, for its owner alone, and of replaced versions only the name stays', async () => {
    const root = newRoot();
    const vault = await filled(createVaultDirectory(root, VAULT_KEYS), { [REF]: entryOf() });
    await vault.write(REF, entryOf({ secret: { kind: 'token', token: 'canary-second' } }), '1');
    const [old, current = ''] = await contents(root);
    expect(old).toBe('');
    expect(current).not.toMatch(/canary|ann|notes/);
    expect((await stat(join(root, FOLDER))).mode & 0o777).toBe(0o700);
    expect((await stat(join(root, FOLDER, fileOf(2)))).mode & 0o777).toBe(0o600);
    expect(await contents(root)).toHaveLength(2);
  });

  test('keys rotate: the first encrypts, all decrypt, and one that is gone is named', async () => {
    const root = newRoot();
    const [a, b] = VAULT_KEYS.map((key) => [key]);
    await filled(createVaultDirectory(root, a ?? []), { [REF]: entryOf() });
    const both = createVaultDirectory(root, VAULT_KEYS.toReversed());
    expect(await both.list()).toMatchObject([{ keyId: 'a' }]);
    const held = await both.read(REF);
    await both.write(REF, held?.entry ?? entryOf(), held?.version);
    expect(await createVaultDirectory(root, b ?? []).list()).toMatchObject([{ keyId: 'b' }]);
    await expect(createVaultDirectory(root, a ?? []).read(REF)).rejects.toMatchObject({
      code: 'CONFIG_INVALID',
      message: expect.stringMatching(/key b.*vault\.keys/),
    });
  });

  test('INV-S1: an envelope of another reference, of another version or of another key does not open', async () => {
    const root = newRoot();
    const vault = await filled(createVaultDirectory(root, VAULT_KEYS), { [REF]: entryOf(), other: entryOf() });
    const good = await readFile(join(root, FOLDER, fileOf(1)), 'utf8');
    const corrupt = { code: 'VAULT_CORRUPT', message: expect.not.stringContaining('canary') };
    await writeFile(join(root, folderOf('other'), fileOf(1)), good);
    await expect(vault.read('other')).rejects.toMatchObject(corrupt);
    await writeFile(join(root, FOLDER, fileOf(2)), good);
    await expect(vault.read(REF)).rejects.toMatchObject(corrupt);
    await writeFile(join(root, FOLDER, fileOf(2)), good.replace('"keyId":"a"', '"keyId":"b"'));
    await expect(vault.read(REF)).rejects.toMatchObject(corrupt);
    for (const damaged of ['{', '[]', good.slice(0, -20)]) {
      await writeFile(join(root, FOLDER, fileOf(2)), damaged);
      await expect(vault.read(REF)).rejects.toMatchObject(corrupt);
    }
  });

  test('F16: names of replaced versions are cleaned away after a hundred, and who is later than that changes nothing', async () => {
    const root = newRoot();
    const vault = await filled(createVaultDirectory(root, VAULT_KEYS), { [REF]: entryOf() });
    let version = '1';
    for (let writes = 0; writes < 110; writes += 1) version = (await vault.write(REF, entryOf(), version)) ?? 'lost';
    expect(version).toBe('111');
    expect((await readdir(join(root, FOLDER))).length).toBeLessThanOrEqual(102);
    expect(await vault.write(REF, entryOf(), '2')).toBeUndefined();
    expect((await vault.read(REF))?.version).toBe('111');
  });

  test('what a writer left that died before or after its file had a name is no entry, and in nobody’s way', async () => {
    const root = newRoot();
    const vault = await filled(createVaultDirectory(root, VAULT_KEYS), { [REF]: entryOf() });
    await writeFile(join(root, FOLDER, '.dead.tmp'), 'half');
    expect((await vault.read(REF))?.version).toBe('1');
    expect(await vault.write(REF, entryOf(), '1')).toBe('2');
  });

  test('F10: a version that stands there is told so, also where what is older cannot be cleaned away', async () => {
    const root = newRoot();
    const vault = await filled(createVaultDirectory(root, VAULT_KEYS), { [REF]: entryOf() });
    await vault.write(REF, entryOf(), '1');
    // No file can take the place of a folder.
    await rm(join(root, FOLDER, fileOf(1)));
    await mkdir(join(root, FOLDER, fileOf(1)));
    expect(await vault.write(REF, entryOf(), '2')).toBe('3');
    expect((await vault.read(REF))?.version).toBe('3');
    expect((await readdir(join(root, FOLDER))).filter((name) => name.endsWith('.tmp'))).toEqual([]);
  });

  test('a directory that is away, or may not be read, may pass: never an empty vault', async () => {
    const root = newRoot();
    const vault = await filled(createVaultDirectory(root, VAULT_KEYS), { [REF]: entryOf() });
    const away = { code: 'VAULT_UNAVAILABLE', traits: { retryable: true } };
    await rename(root, `${root}-away`);
    for (const use of [vault.read(REF), vault.read('x'), vault.write('x', entryOf(), undefined), vault.list()])
      await expect(use).rejects.toMatchObject(away);
    await rename(`${root}-away`, root);
    // The superuser may read anything.
    if (process.getuid?.() !== 0) {
      await chmod(join(root, FOLDER), 0o000);
      await expect(vault.read(REF)).rejects.toMatchObject(away);
      await chmod(join(root, FOLDER), 0o700);
    }
    expect((await vault.read(REF))?.version).toBe('1');
  });
});

describe('the vault of an environment', () => {
  test('INV-S1: a variable that holds no entry is named, and its value is not', async () => {
    const values = ['canary-plain-token', '{"secret":{"kind":"token","token":"canary"}}', '[]'];
    for (const value of values) {
      const vault = createVaultEnvironment({ a: 'ANN' }, { ANN: value });
      const corrupt = { code: 'VAULT_CORRUPT', message: expect.stringMatching(/ANN(?!.*canary)/) };
      await expect(vault.read('a')).rejects.toMatchObject(corrupt);
      await expect(vault.list()).rejects.toMatchObject(corrupt);
    }
  });

  test.each([{}, { ANN: '' }])('a variable that is not set is no entry', async (environment) => {
    const vault = createVaultEnvironment({ a: 'ANN' }, environment);
    expect(await vault.read('a')).toBeUndefined();
    expect(await vault.list()).toEqual([]);
  });
});
