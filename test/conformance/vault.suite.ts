/** What every `Vault` does (`activities/vault/port.ts`): INV-S1, F15. */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { Vault } from '../../activities/vault/port.ts';
import type { VaultEntry } from '../../contracts/schemas/stores.ts';
import { entryOf } from '../support/builders/vault.ts';

export interface VaultHarness {
  readonly name: string;
  /** Absent: writes are refused. */
  readonly writable?: true;
  /** A vault with these entries, and a second one on the same store, as of another worker. */
  create(entries: Readonly<Record<string, VaultEntry>>): Promise<{ readonly vault: Vault; readonly other: Vault }>;
}

export function vaultSuite({ name, writable, create }: VaultHarness): void {
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
