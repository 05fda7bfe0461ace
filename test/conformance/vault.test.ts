/** What every `Vault` does (`activities/vault/port.ts`): INV-S1, F15. */
import { chmod, mkdir, mkdtemp, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { setUpRoot } from '../../activities/artifacts/root.ts';
import { createVaultDirectory, fileOf, folderOf, VAULT_ROOT } from '../../activities/vault/directory.ts';
import { createVaultEnvironment, type Vault } from '../../activities/vault/port.ts';
import type { VaultEntry } from '../../contracts/schemas/stores.ts';
import { createMemoryVault, entryOf, VAULT_KEYS } from '../support/builders/vault.ts';
import { refusalOf } from '../support/refusal.ts';

export interface VaultHarness {
  readonly name: string;
  /** Absent: writes are refused. */
  readonly writable?: true;
  /** A vault with these entries, and a second one on the same store, as of another worker. */
  create(entries: Readonly<Record<string, VaultEntry>>): Promise<{ readonly vault: Vault; readonly other: Vault }>;
}

function vaultSuite({ name, writable, create }: VaultHarness): void {
  describe(`the vault port: ${name}`, () => {
    test('what was put is read, whole, and by every worker with the same version', async () => {
      const entry = entryOf({ expiresAt: '2027-01-01T00:00:00.000Z' });
      const { vault, other } = await create({ 'ann/notes@1': entry });
      const held = await vault.read('ann/notes@1');
      expect(held?.entry).toEqual(entry);
      expect(await other.read('ann/notes@1')).toEqual(held);
    });

    test.each(['constructor', '__proto__', '../../etc/passwd', '.', 'x'.repeat(200)])(
      'nothing stands under %s',
      async (ref) => {
        const { vault } = await create({ known: entryOf() });
        expect(await vault.read(ref)).toBeUndefined();
      },
    );

    test('INV-S1: a list shows whose each entry is, and no secret', async () => {
      const { vault } = await create({
        b: entryOf(),
        a: entryOf({ secret: { kind: 'token', token: 'canary-token' } }),
      });
      const listed = await vault.list();
      expect(listed).toMatchObject([
        { ref: 'a', kind: 'token', bound: { tenant: 'default', initiators: ['ann'] } },
        { ref: 'b', kind: 'refresh-token' },
      ]);
      expect(JSON.stringify(listed)).not.toContain('canary');
    });

    if (writable === undefined) {
      test('INV-S1: a write is refused by name, and changes nothing', async () => {
        const { vault } = await create({ a: entryOf() });
        const held = await vault.read('a');
        const refused = { code: 'VAULT_READ_ONLY', message: expect.not.stringContaining('canary') };
        await expect(vault.write('a', entryOf(), held?.version)).rejects.toMatchObject(refused);
        await expect(vault.remove('a', held?.version ?? '')).rejects.toMatchObject(refused);
        expect(await vault.read('a')).toEqual(held);
      });
      return;
    }

    test('a write replaces what it has read, and nothing else', async () => {
      const { vault, other } = await create({ a: entryOf() });
      const held = await vault.read('a');
      const [mine, theirs] = [tokenOf('mine'), tokenOf('theirs')];
      const version = await vault.write('a', mine, held?.version);
      expect(version).not.toBe(held?.version);
      expect(await other.write('a', theirs, held?.version)).toBeUndefined();
      expect(await other.write('a', theirs, undefined)).toBeUndefined();
      expect(await other.read('a')).toEqual({ entry: mine, version });
    });

    test('what was removed is gone, its version is not used again, and another can be put in its place', async () => {
      const { vault, other } = await create({ a: entryOf() });
      const first = await vault.read('a');
      expect(await other.remove('a', 'another')).toBe(false);
      expect(await other.remove('a', first?.version ?? '')).toBe(true);
      expect(await vault.read('a')).toBeUndefined();
      expect(await vault.list()).toEqual([]);
      expect(await vault.remove('a', first?.version ?? '')).toBe(false);
      const again = await vault.write('a', entryOf(), undefined);
      expect(again).toBeDefined();
      expect(again).not.toBe(first?.version);
      expect(await vault.write('a', tokenOf('late'), first?.version)).toBeUndefined();
    });

    test('entries are independent of each other', async () => {
      const { vault } = await create({ a: entryOf(), b: tokenOf('b') });
      const [a, b] = [await vault.read('a'), await vault.read('b')];
      await vault.write('a', tokenOf('a'), a?.version);
      expect(await vault.read('b')).toEqual(b);
    });

    test('INV-D3: of writers that race, as many succeed as versions come about: no write is lost, none told wrongly', async () => {
      const { vault, other } = await create({ a: tokenOf('0') });
      let won = 0;
      const writer = async (one: Vault): Promise<void> => {
        for (let tries = 0; tries < 25; tries += 1) {
          const held = await one.read('a');
          const count = Number(held?.entry.secret.token);
          if ((await one.write('a', tokenOf(String(count + 1)), held?.version)) !== undefined) won += 1;
        }
      };
      await Promise.all([vault, other, vault, other].map(writer));
      expect((await vault.read('a'))?.entry.secret.token).toBe(String(won));
      expect(won).toBeGreaterThanOrEqual(25);
    });

    test('whatever is written and removed in whatever order: what is read is what was written last', async () => {
      const step = fc.record({ ref: fc.constantFrom('a', 'b'), token: fc.constantFrom('x', 'y', undefined) });
      await fc.assert(
        fc.asyncProperty(fc.array(step, { maxLength: 12 }), async (steps) => {
          const { vault, other } = await create({});
          const model = new Map<string, string>();
          for (const [index, { ref, token }] of steps.entries()) {
            const one = index % 2 === 0 ? vault : other;
            const held = await one.read(ref);
            if (token !== undefined) {
              expect(await one.write(ref, tokenOf(token), held?.version)).toBeDefined();
              model.set(ref, token);
            } else if (held !== undefined) {
              expect(await one.remove(ref, held.version)).toBe(true);
              model.delete(ref);
            }
          }
          for (const ref of ['a', 'b']) expect((await vault.read(ref))?.entry.secret.token).toBe(model.get(ref));
        }),
        { numRuns: 15 },
      );
    });
  });
}

function tokenOf(token: string): VaultEntry {
  return entryOf({ secret: { kind: 'token', token } });
}

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

  test('an entry that does not open is put anew as its refusal says, and no older file is asked for', async () => {
    const root = newRoot();
    const vault = await filled(createVaultDirectory(root, VAULT_KEYS), { [REF]: entryOf() });
    await writeFile(join(root, FOLDER, fileOf(1)), '{');
    // While the folder is there, nothing can be put.
    const { message } = await refusalOf(vault.write(REF, entryOf(), undefined));
    expect(message).toMatch(/Remove that folder .*vault put/);
    expect(message).not.toMatch(/restore|backup/);
    const [folder = ''] = /[0-9a-f]{64}/.exec(message) ?? [];
    await rm(join(root, folder), { recursive: true });
    expect(await vault.write(REF, entryOf(), undefined)).toBe('1');
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
