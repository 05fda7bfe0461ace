/** `countersign vault rekey` while workers use the vault. */
import * as files from 'node:fs/promises';
import { join } from 'node:path';
import { expect, jest, test } from '@jest/globals';
import { stringify } from 'yaml';
import { entryOf, VAULT_KEYS } from '../../../support/builders/vault.ts';
import { useConfigFolders } from '../../../support/config-folder.ts';

/** Called before a version of an entry gets its name. */
let meanwhile: ((path: string) => Promise<void>) | undefined;
jest.unstable_mockModule('node:fs/promises', () => ({
  ...files,
  link: async (from: string, to: string) => {
    await meanwhile?.(to);
    await files.link(from, to);
  },
}));
const { createVaultDirectory, folderOf } = await import('../../../../activities/vault/directory.ts');
const { documentOf, errorOf, runCommand } = await import('../../../support/cli.ts');

const { folder } = useConfigFolders();

test('an entry that changes in that moment is passed over and named, and the others are encrypted anew', async () => {
  const directory = await folder();
  const env = { KEY_A: VAULT_KEYS[0]?.key ?? '', KEY_B: VAULT_KEYS[1]?.key ?? '' };
  const configure = async (...ids: readonly string[]) => {
    const keys = ids.map((id) => ({ id, key: `\${KEY_${id.toUpperCase()}}` }));
    const vault = { kind: 'directory', directory: 'vault', keys };
    await files.writeFile(join(directory, 'countersign.yaml'), stringify({ vault }));
  };
  await configure('a');
  await runCommand(['vault', 'list'], { directory, env });
  const worker = createVaultDirectory(join(directory, 'vault'), VAULT_KEYS);
  for (const ref of ['busy', 'calm']) await worker.write(ref, entryOf(), undefined);
  await configure('b', 'a');
  const renewed = entryOf({ refusedAt: '2026-01-01T00:00:00.000Z' });
  meanwhile = async (path) => {
    if (!path.includes(folderOf('busy'))) return;
    meanwhile = undefined;
    await worker.write('busy', renewed, '1');
  };
  const rekey = async () => await runCommand(['vault', 'rekey', '--json'], { directory, env });
  const first = await rekey();
  expect(documentOf(first)).toEqual({ keyId: 'b', rekeyed: ['calm'], changed: ['busy'] });
  expect(errorOf({ ...first, out: '' })).toMatchObject({
    code: 'VAULT_CONFLICT',
    message: expect.stringMatching(/^The entry busy was changed .+ rekey it again\.$/),
  });
  expect(first.exitCode).toBe(5);
  expect((await worker.read('busy'))?.entry).toEqual(renewed);
  expect(documentOf(await rekey())).toEqual({ keyId: 'b', rekeyed: ['busy'] });
  expect((await worker.read('busy'))?.entry).toEqual(renewed);
});
