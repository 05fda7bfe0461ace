/** What becomes of a grant where the vault says wrongly, or not at all, what it has written (F10, INV-D3). */
import { beforeEach, describe, expect, test } from '@jest/globals';
import type { HeldEntry, Vault } from '../../../../activities/vault/port.ts';
import { renew, type Renewing } from '../../../../activities/vault/renewal.ts';
import { CountersignError } from '../../../../contracts/errors.ts';
import { createMemoryVault, entryOf, type MemoryVault } from '../../../support/builders/vault.ts';

const REF = 'ann-notes';
const FIRST = 'canary-refresh-1';

type Write = Vault['write'];
/** What is done in a write's place. */
type Fault = (write: () => ReturnType<Write>) => ReturnType<Write>;

const away = (): never => {
  throw new CountersignError('VAULT_UNAVAILABLE', 'away');
};
const LANDS: Readonly<Record<string, Fault>> = {
  'then fails': async (write) => {
    await write();
    return away();
  },
  'is then told as of another writer': async (write) => {
    await write();
    return undefined;
  },
};

let memory: MemoryVault;
let used: string[];
beforeEach(async () => {
  memory = createMemoryVault();
  await memory.write(
    REF,
    entryOf({ secret: { kind: 'refresh-token', token: FIRST, issuer: 'https://a.example' } }),
    undefined,
  );
  used = [];
});

/** Faults of the writes that come next, one each. */
function faulty(...faults: readonly Fault[]): Vault {
  const left = [...faults];
  return {
    ...memory,
    write: async (...given) => {
      const write = async () => await memory.write(...given);
      return await (left.shift()?.(write) ?? write());
    },
  };
}

const renewing = (vault: Vault, over: Partial<Renewing<string>> = {}): Renewing<string> => ({
  vault,
  ref: REF,
  check: (held) => {
    if (held === undefined) throw new Error('nothing there');
    return held;
  },
  use: async (token) => {
    used.push(token);
    return { kind: 'exchanged', value: 'at', token: `${token}+` };
  },
  reusable: false,
  leaseMs: 60_000,
  waitMs: 5_000,
  now: Date.now,
  ...over,
});
const held = async (): Promise<HeldEntry['entry'] | undefined> => (await memory.read(REF))?.entry;

describe('an intent that is written', () => {
  test.each(Object.entries(LANDS))(
    'and %s: whoever wrote it knows it again, and the token is used once',
    async (_, fault) => {
      expect(await renew(renewing(faulty(fault)))).toMatchObject({ kind: 'renewed' });
      expect(await renew(renewing(memory))).toMatchObject({ kind: 'renewed' });
      expect(used).toEqual([FIRST, `${FIRST}+`]);
      expect((await held())?.renewal).toBeUndefined();
    },
  );

  test('and cannot be read for a while: the same', async () => {
    let reads = 0;
    const vault = faulty(LANDS['then fails'] ?? away);
    const dim: Vault = { ...vault, read: async (ref) => ((reads += 1) === 2 ? away() : await vault.read(ref)) };
    expect(await renew(renewing(dim))).toMatchObject({ kind: 'renewed' });
    expect(reads).toBeGreaterThan(2);
    expect(used).toEqual([FIRST]);
  });

  test('and never acknowledged is taken back: the grant is as good as before, and nothing was sent', async () => {
    const { 'then fails': fault = away } = LANDS;
    const failing = faulty(fault, fault);
    await expect(renew(renewing(failing, { waitMs: 0 }))).rejects.toMatchObject({ code: 'VAULT_UNAVAILABLE' });
    expect(used).toEqual([]);
    // The second write, too, has landed: it took the intent away.
    expect((await held())?.renewal).toBeUndefined();
    expect(await renew(renewing(memory))).toMatchObject({ kind: 'renewed' });
    expect(used).toEqual([FIRST]);
  });

  test('by another worker, while this one is told nothing, is that one’s', async () => {
    const other = {
      id: 'other',
      since: '2026-01-01T00:00:00.000Z',
      until: new Date(Date.now() + 60_000).toISOString(),
    };
    const vault = faulty(async () => {
      const now = await memory.read(REF);
      if (now !== undefined) await memory.write(REF, { ...now.entry, renewal: other }, now.version);
      return away();
    });
    await expect(renew(renewing(vault))).rejects.toMatchObject({ code: 'VAULT_UNAVAILABLE' });
    expect(used).toEqual([]);
    expect((await held())?.renewal).toEqual(other);
  });
});

test('an intent that was not written: what the vault said, and nothing was sent', async () => {
  await expect(renew(renewing(faulty(async () => away())))).rejects.toMatchObject({ code: 'VAULT_UNAVAILABLE' });
  const readOnly = new CountersignError('VAULT_READ_ONLY', 'no');
  await expect(renew(renewing(faulty(async () => await Promise.reject(readOnly))))).rejects.toBe(readOnly);
  expect(used).toEqual([]);
  expect((await held())?.renewal).toBeUndefined();
});
