/** `countersign vault`: what is put, for whom; the secret comes from a file or standard input and is never shown (INV-S1). */
import { cp, readdir, readFile, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { stringify } from 'yaml';
import { createVaultDirectory, fileOf, folderOf } from '../../../../activities/vault/directory.ts';
import { entryOf, VAULT_KEYS } from '../../../support/builders/vault.ts';
import { type CommandOptions, documentOf, errorOf, runCommand } from '../../../support/cli.ts';
import { useConfigFolders } from '../../../support/config-folder.ts';
import { withCode } from '../../../support/refusal.ts';

const { folder } = useConfigFolders();
const KEYS = { KEY_A: VAULT_KEYS[0]?.key ?? '', KEY_B: VAULT_KEYS[1]?.key ?? '' };
const vaultOf = (...ids: readonly string[]) => ({
  kind: 'directory',
  directory: 'vault',
  keys: ids.map((id) => ({ id, key: `\${KEY_${id.toUpperCase()}}` })),
});
// Other secrets of the workers are not needed, nor looked at.
const servers = {
  notes: {
    url: 'https://Notes.example.com/mcp/',
    credentials: { kind: 'client-credentials', issuer: 'https://i.example', clientId: 'a', clientSecret: '${UNSET}' },
  },
};

async function configured(vault: unknown = vaultOf('a')): Promise<string> {
  const directory = await folder();
  await writeFile(join(directory, 'countersign.yaml'), stringify({ servers, vault }));
  return directory;
}

const PUT = ['vault', 'put', 'ann-notes', '--server', 'notes', '--initiator', 'ann'];
const REFRESH = [...PUT, '--kind', 'refresh-token', '--issuer', 'https://idp.example.com'];

async function run(directory: string, args: readonly string[], options: CommandOptions = {}) {
  const result = await runCommand(args, { directory, env: KEYS, ...options });
  expect(`${result.out}${result.err}`).not.toContain('canary');
  return result;
}

const opened = (directory: string) => createVaultDirectory(join(directory, 'vault'), VAULT_KEYS);

describe('countersign vault', () => {
  test('put takes the secret from standard input, and binds it to the server by its URL', async () => {
    const directory = await configured();
    const put = await run(directory, [...REFRESH, '--expires', '2027-01-01T00:00Z'], { input: 'canary-refresh\n' });
    expect(put.exitCode).toBe(0);
    expect((await opened(directory).read('ann-notes'))?.entry).toMatchObject({
      secret: { kind: 'refresh-token', token: 'canary-refresh', issuer: 'https://idp.example.com' },
      bound: { tenant: 'default', initiators: ['ann'], server: 'https://notes.example.com/mcp/' },
      expiresAt: '2027-01-01T00:00:00.000Z',
    });
    const text = await allText(join(directory, 'vault'));
    expect(text).not.toMatch(/canary|ann-notes|"ann"/);
  });

  test('put takes it from a file, for several people of a tenant and a server by URL', async () => {
    const directory = await configured();
    await writeFile(join(directory, 'token.txt'), 'canary-token\n');
    const args = ['vault', 'put', 'x', '--kind', 'token', '--server', 'https://a.example/mcp', '--initiator', 'ann'];
    const put = await run(directory, [
      ...args,
      '--initiator',
      'bob',
      '--tenant',
      'acme',
      '--from',
      'token.txt',
      '--json',
    ]);
    expect(documentOf(put)).toMatchObject({ ref: 'x', kind: 'token', bound: { initiators: ['ann', 'bob'] } });
    expect((await opened(directory).read('x'))?.entry).toMatchObject({
      secret: { token: 'canary-token' },
      bound: { tenant: 'acme', server: 'https://a.example/mcp' },
    });
  });

  test('what stands there is replaced by word only', async () => {
    const directory = await configured();
    await run(directory, REFRESH, { input: 'canary-1' });
    const again = await run(directory, [...REFRESH, '--json'], { input: 'canary-2' });
    expect(again.exitCode).toBe(5);
    expect(errorOf(again).code).toBe('VAULT_CONFLICT');
    expect((await opened(directory).read('ann-notes'))?.entry.secret.token).toBe('canary-1');
    expect((await run(directory, [...REFRESH, '--replace'], { input: 'canary-2' })).exitCode).toBe(0);
    expect((await opened(directory).read('ann-notes'))?.entry.secret.token).toBe('canary-2');
  });

  test.each([
    ['no secret', REFRESH, ' \n', 'USAGE'],
    ['a secret with spaces in it', REFRESH, 'canary one', 'USAGE'],
    ['a refresh token without an issuer', [...PUT, '--kind', 'refresh-token'], 'canary', 'USAGE'],
    ['a token with an issuer', [...PUT, '--kind', 'token', '--issuer', 'https://a.example'], 'canary', 'USAGE'],
    ['no kind', PUT, 'canary', 'USAGE'],
    ['an unknown server', [...REFRESH, '--server', 'nobody'], 'canary', 'SERVER_UNKNOWN'],
    [
      'a password in the URL of the server',
      [...REFRESH, '--server', 'https://a:canary@x.example/mcp'],
      'canary',
      'USAGE',
    ],
    ['a file that is not there', [...REFRESH, '--from', 'none.txt'], 'canary', 'USAGE'],
  ])('with %s nothing is put', async (_, args, input, code) => {
    const directory = await configured();
    const put = await run(directory, [...args, '--json'], { input });
    expect(errorOf(put).code).toBe(code);
    expect((await run(directory, ['vault', 'list'])).out).toBe('The vault is empty.\n');
  });

  test('list says whose each entry is and whether it is still good', async () => {
    const directory = await configured();
    await run(directory, ['vault', 'list']);
    const vault = opened(directory);
    const over = '2026-01-01T00:00:00.000Z';
    const states = {
      expired: { expiresAt: over },
      good: {},
      'in use': { renewal: { id: 'x', since: over, until: '2999-01-01T00:00:00.000Z' } },
      lost: { renewal: { id: 'x', since: over, until: over } },
      refused: { refusedAt: over },
    };
    for (const [state, fields] of Object.entries(states))
      await vault.write(state.replace(' ', '-'), entryOf(fields), undefined);
    const listed = documentOf<{ entries: { state: string }[] }>(await run(directory, ['vault', 'list', '--json']));
    expect(listed.entries.map(({ state }) => state)).toEqual(Object.keys(states));
    expect((await run(directory, ['vault', 'list'])).out).toMatch(
      /^lost +refresh-token +lost +https:\S+ +default +ann/m,
    );
  });

  test('remove takes one out, and says so where there is none', async () => {
    const directory = await configured();
    await run(directory, REFRESH, { input: 'canary-1' });
    expect((await run(directory, ['vault', 'remove', 'ann-notes'])).exitCode).toBe(0);
    const again = await run(directory, ['vault', 'remove', 'ann-notes', '--json']);
    expect(again.exitCode).toBe(4);
    expect(errorOf(again).code).toBe('VAULT_ENTRY_UNKNOWN');
  });

  test('rekey encrypts with the first key what another one still protects; then the other can go', async () => {
    const directory = await configured();
    await run(directory, REFRESH, { input: 'canary-1' });
    const configure = async (...ids: readonly string[]) =>
      writeFile(join(directory, 'countersign.yaml'), stringify({ servers, vault: vaultOf(...ids) }));
    await configure('b', 'a');
    expect(documentOf(await run(directory, ['vault', 'rekey', '--json']))).toEqual({
      keyId: 'b',
      rekeyed: ['ann-notes'],
    });
    expect(documentOf(await run(directory, ['vault', 'rekey', '--json']))).toEqual({ keyId: 'b', rekeyed: [] });
    await run(directory, [...REFRESH, '--replace'], { input: 'canary-2' });
    // What was removed needs no key.
    await configure('a', 'b');
    await run(directory, [...PUT.with(2, 'gone'), '--kind', 'token'], { input: 'canary-3' });
    await run(directory, ['vault', 'remove', 'gone']);
    await run(directory, ['vault', 'remove', 'ann-notes']);
    await configure('b');
    expect(documentOf(await run(directory, ['vault', 'list', '--json']))).toEqual({ entries: [] });
    await run(directory, REFRESH, { input: 'canary-4' });
    expect(documentOf(await run(directory, ['vault', 'list', '--json']))).toMatchObject({ entries: [{ keyId: 'b' }] });
  });

  test('list and rekey do the other entries where some cannot be read, name those, and end with an error', async () => {
    const directory = await configured();
    for (const ref of ['bad', 'good', 'moved'])
      await run(directory, [...PUT.with(2, ref), '--kind', 'token'], { input: 'canary' });
    const fileIn = (ref: string) => join(directory, 'vault', folderOf(ref), fileOf(1));
    await writeFile(fileIn('bad'), 'canary');
    const one = await run(directory, ['vault', 'list', '--json']);
    expect(one.exitCode).toBe(70);
    expect(documentOf(one)).toMatchObject({
      entries: [{ ref: 'good' }, { ref: 'moved' }],
      unread: [{ code: 'VAULT_CORRUPT', message: expect.stringContaining(folderOf('bad')) }],
    });
    expect(errorOf({ ...one, out: '' })).toMatchObject(withCode('VAULT_CORRUPT', 'vault put'));
    await cp(fileIn('bad'), fileIn('moved'));
    await writeFile(join(directory, 'countersign.yaml'), stringify({ servers, vault: vaultOf('b', 'a') }));
    const rekeyed = await run(directory, ['vault', 'rekey', '--json']);
    expect(rekeyed.exitCode).toBe(70);
    expect(documentOf(rekeyed)).toMatchObject({ keyId: 'b', rekeyed: ['good'] });
    const { message } = errorOf({ ...rekeyed, out: '' });
    expect(message).toMatch(/^2 entries of the vault cannot be read/);
    for (const ref of ['bad', 'moved']) expect(message).toContain(folderOf(ref));
    await writeFile(join(directory, 'countersign.yaml'), stringify({ servers, vault: vaultOf('a') }));
    const none = await run(directory, ['vault', 'list']);
    expect(none.out).toBe('No entry of the vault can be read.\n');
    expect(none.err).toMatch(/^error .*: 3 entries of the vault cannot be read\./);
    expect(none.err).toContain('encrypted with key b');
  });

  test('an entry whose file a crash has emptied is named, and the others are listed', async () => {
    const directory = await configured();
    for (const ref of ['bad', 'good'])
      await run(directory, [...PUT.with(2, ref), '--kind', 'token'], { input: 'canary' });
    const emptied = join(directory, 'vault', folderOf('bad'), fileOf(1));
    await writeFile(emptied, '');
    // It may have been replaced in this moment.
    expect(errorOf(await run(directory, ['vault', 'list', '--json'])).code).toBe('VAULT_UNAVAILABLE');
    await utimes(emptied, new Date(0), new Date(0));
    const listed = await run(directory, ['vault', 'list', '--json']);
    expect(documentOf(listed)).toMatchObject({
      entries: [{ ref: 'good' }],
      unread: [
        {
          code: 'VAULT_CORRUPT',
          message: expect.stringContaining(`${folderOf('bad')} does not open: its file is empty`),
        },
      ],
    });
  });

  test('with another key under the same id one is told to compare the keys, before one is told to remove anything', async () => {
    const directory = await configured();
    await run(directory, REFRESH, { input: 'canary' });
    const listed = await run(directory, ['vault', 'list', '--json'], { env: { KEY_A: KEYS.KEY_B } });
    expect(errorOf({ ...listed, out: '' }).message).toMatch(
      /Compare key a of vault\.keys .+ nothing is lost\. Else: Remove/,
    );
  });

  test('a configuration without a vault, and one that cannot be written, are named', async () => {
    const none = await configured(null);
    await writeFile(join(none, 'countersign.yaml'), stringify({ servers }));
    expect(errorOf(await run(none, ['vault', 'list', '--json'])).code).toBe('CONFIG_INVALID');
    const environment = await configured({ kind: 'environment', variables: { 'ann-notes': 'ANN' } });
    const env = { ANN: JSON.stringify(entryOf()) };
    expect(documentOf(await run(environment, ['vault', 'list', '--json'], { env }))).toMatchObject({
      entries: [{ ref: 'ann-notes', state: 'good' }],
    });
    for (const args of [
      [...REFRESH, '--replace'],
      ['vault', 'remove', 'ann-notes'],
      ['vault', 'rekey'],
    ]) {
      const refused = await run(environment, [...args, '--json'], { env, input: 'canary' });
      expect(errorOf(refused).code).toBe('VAULT_READ_ONLY');
    }
  });
});

async function allText(root: string): Promise<string> {
  const files = await readdir(root, { recursive: true, withFileTypes: true });
  const texts = files
    .filter((file) => file.isFile())
    .map(async (file) => readFile(join(file.parentPath, file.name), 'utf8'));
  return [...files.map(({ name }) => name), ...(await Promise.all(texts))].join('\n');
}
