/** `countersign keys new | list | rotate | revoke`: who is believed, as a file that workers read (§3.3, F21). */
import { chmod, lstat, mkdir, readdir, readFile, rename, stat, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { createTrustedKeys, createTrustFile } from '../../../../activities/trust/keys.ts';
import { readSigner } from '../../../../client/index.ts';
import { signed } from '../../../../client/signing/signing.ts';
import { TrustConfig } from '../../../../contracts/schemas/trust.ts';
import { checkSignature, isSameVoice } from '../../../../domain/signing/message.ts';
import { hashOf } from '../../../../domain/text/canonical.ts';
import { errorOf, runCommand } from '../../../support/cli.ts';
import { useConfigFolders } from '../../../support/config-folder.ts';
import { withCode } from '../../../support/refusal.ts';

const { folder } = useConfigFolders();
const config = TrustConfig.parse({ mode: 'signed', jwks: 'trust.jwks' });
if (config.mode !== 'signed') throw new Error('it is');
const trustOf = async (directory: string) =>
  await createTrustedKeys(config, createTrustFile(join(directory, 'trust.jwks'), 'trust.jwks')).setFor(
    'default',
    'new',
  );

const about = {
  purpose: 'stop',
  namespace: 'n',
  tenant: 'default',
  workflowId: 'w',
  runId: 'r',
  person: 'acme|ann',
} as const;

async function made(directory: string, ...args: readonly string[]): Promise<void> {
  expect(await runCommand(['keys', ...args], { directory })).toMatchObject({ exitCode: 0 });
}

/** Is what this key signs believed now? */
async function verdict(directory: string, file: string): Promise<string> {
  const signer = await readSigner(join(directory, file));
  const { signature } = await signed(signer, { by: 'ann' }, { ...about, groups: signer.groups ?? [] });
  const checked = checkSignature(
    signature,
    { ...about, payload: hashOf({ by: 'ann' }) },
    await trustOf(directory),
    Date.now(),
  );
  return checked.kind === 'signed' ? 'signed' : checked.code;
}

test('a new key signs what workers believe; its private half is its owner’s alone', async () => {
  const directory = await folder();
  await made(directory, 'new', 'ann-1', '--person', 'acme|ann', '--group', 'ops', '--group', 'audit');
  expect((await stat(join(directory, 'ann-1.jwk'))).mode & 0o777).toBe(0o600);
  expect(await verdict(directory, 'ann-1.jwk')).toBe('signed');
  expect((await readSigner(join(directory, 'ann-1.jwk'))).groups).toEqual(['ops', 'audit']);
  expect(await readFile(join(directory, 'trust.jwks'), 'utf8')).not.toContain('"d"');
});

test('a service key claims the groups that are named, a personal key its own where none are', async () => {
  const directory = await folder();
  await made(directory, 'new', 'b-1', '--service', 'acme', '--group', 'ops');
  await made(directory, 'new', 'ann-1', '--person', 'acme|ann', '--group', 'ops', '--group', 'audit');
  const claimed = async (file: string, groups?: readonly string[]) =>
    (await readSigner(join(directory, file), file, groups)).groups;
  expect(await claimed('b-1.jwk')).toBeUndefined();
  expect(await claimed('b-1.jwk', ['ops'])).toEqual(['ops']);
  expect(await claimed('ann-1.jwk')).toEqual(['ops', 'audit']);
  expect(await claimed('ann-1.jwk', ['ops'])).toEqual(['ops']);
});

test('a rotated key signs nothing any more, and what replaced it is the same voice; a revoked one is gone', async () => {
  const directory = await folder();
  await made(directory, 'new', 'b-1', '--service', 'acme', '--group', 'ops');
  const old = await readSigner(join(directory, 'b-1.jwk'));
  const before = await signed(old, {}, { ...about, groups: [] });
  await made(directory, 'rotate', 'b-1', 'b-2');
  expect(await verdict(directory, 'b-2.jwk')).toBe('signed');
  expect(await verdict(directory, 'b-1.jwk')).toBe('SIGNER_NOT_ENTITLED');
  const next = await signed(await readSigner(join(directory, 'b-2.jwk')), {}, { ...about, groups: [] });
  expect(isSameVoice(await trustOf(directory), [before.signature], next.signature)).toBe(true);
  const list = await runCommand(['keys', 'list'], { directory });
  expect(list.out).toMatch(
    /^b-1 {2}anybody of acme {2}groups ops {2}tenants default {2}of b-1 {2}replaced 2.*Z\nb-2 {2}anybody of acme/,
  );
  const help = await runCommand(['keys', 'rotate', '--help'], { directory });
  expect(help.out.replaceAll(/\s+/g, ' ')).toContain('Revoke a key that somebody else may have');
  await made(directory, 'revoke', 'b-1');
  await made(directory, 'revoke', 'b-2');
  expect(await verdict(directory, 'b-2.jwk')).toBe('TRUST_KEY_UNKNOWN');
  expect((await runCommand(['keys', 'list'], { directory })).out).toBe('No key is trusted (trust.jwks).\n');
});

test('a key is revoked where workers read the file, and they can read it still: behind a link, for whom it was', async () => {
  const directory = await folder();
  await made(directory, 'new', 'ann-1', '--person', 'acme|ann');
  const [file, shared] = [join(directory, 'trust.jwks'), join(directory, 'shared', 'trust.jwks')];
  await mkdir(join(directory, 'shared'));
  await rename(file, shared);
  await symlink(shared, file);
  await chmod(shared, 0o664);
  await made(directory, 'revoke', 'ann-1');
  expect(JSON.parse(await readFile(shared, 'utf8'))).toEqual({ keys: [] });
  expect((await lstat(file)).isSymbolicLink()).toBe(true);
  expect((await stat(shared)).mode & 0o777).toBe(0o664);
  expect(await readdir(join(directory, 'shared'))).toEqual(['trust.jwks']);
});

test('trusted keys that cannot be looked at are not taken for none: a new key would replace them', async () => {
  const directory = await folder();
  const file = join(directory, 'trust.jwks');
  // Nobody can follow this link, the superuser neither.
  await symlink('trust.jwks', file);
  const refused = await runCommand(['keys', 'new', 'ann-1', '--person', 'acme|ann', '--json'], { directory });
  expect(refused.exitCode).toBe(2);
  expect(errorOf(refused).message).toContain('cannot be read (ELOOP)');
  expect((await lstat(file)).isSymbolicLink()).toBe(true);
  expect(await readdir(directory)).toEqual(['trust.jwks']);
});

test('commands at one time lose nothing of each other: each is done or refused, and a revoked key does not come back', async () => {
  const directory = await folder();
  await made(directory, 'new', 'lost', '--service', 'acme');
  const kids = ['a', 'b', 'c'];
  const done = await Promise.all(
    [['revoke', 'lost'], ...kids.map((kid) => ['new', kid, '--service', 'acme'])].map(async (args) => {
      const { exitCode, ...told } = await runCommand(['keys', ...args, '--json'], { directory });
      if (exitCode !== 0) expect(errorOf({ exitCode, ...told }).message).toContain('Another command changes');
      return exitCode === 0;
    }),
  );
  expect(done).toContain(true);
  const { out } = await runCommand(['keys', 'list', '--json'], { directory });
  // Sound: the command prints the keys.
  const { keys } = JSON.parse(out) as { keys: readonly { kid: string }[] };
  expect(keys.map(({ kid }) => kid)).toEqual(
    expect.arrayContaining(['lost', ...kids].filter((kid, index) => (kid === 'lost') !== done[index])),
  );
  expect(keys).toHaveLength(done.filter(Boolean).length + (done[0] === true ? -1 : 1));
  expect((await readdir(directory)).filter((name) => name.startsWith('trust'))).toEqual(['trust.jwks']);
});

test('where a command has died while it changed the keys, the next one says what to do, and changes nothing', async () => {
  const directory = await folder({ 'trust.jwks.next': '' });
  const refused = await runCommand(['keys', 'new', 'a', '--service', 'acme', '--json'], { directory });
  expect(refused.exitCode).toBe(2);
  expect(errorOf(refused).message).toMatch(/Another command changes trust\.jwks, .* remove .*trust\.jwks\.next/);
  expect(await readdir(directory)).toEqual(['trust.jwks.next']);
});

test('keys that cannot be written are said to be as they were', async () => {
  const directory = await folder();
  const args = ['keys', 'new', 'b', '--service', 'acme', '--trust', 'nowhere/trust.jwks', '--json'];
  const refused = await runCommand(args, { directory });
  expect([refused.exitCode, errorOf(refused).message]).toEqual([2, expect.stringContaining('ENOENT')]);
});

test.each([
  [['new', 'ann-1'], 'one of --person or of --service'],
  [['new', 'ann-1', '--person', 'acme|ann', '--service', 'acme'], 'one of --person or of --service'],
  [['new', 'ann-1', '--person', 'acme'], 'sub'],
  [['new', 'ann-1', '--person', 'acme|ann', '--speaks-for-many'], 'speaksForMany'],
  [['new', 'no spaces', '--person', 'acme|ann'], 'key id'],
  [['new', 'there', '--person', 'acme|ann'], 'already'],
  [['new', 'other', '--private', 'there.jwk', '--person', 'acme|ann'], 'never overwritten'],
  [['rotate', 'nobody', 'next'], 'There is no key nobody'],
  [['rotate', 'there', 'there'], 'already'],
  [['revoke', 'nobody'], 'There is no key nobody'],
  [['list', '--trust', 'away.jwks'], 'cannot be read'],
])('keys %j is refused, and nothing is changed', async (args, reason) => {
  const directory = await folder();
  await made(directory, 'new', 'there', '--service', 'acme');
  const before = await readFile(join(directory, 'trust.jwks'), 'utf8');
  const refused = await runCommand(['keys', ...args, '--json'], { directory });
  expect(refused.exitCode).toBe(2);
  expect(errorOf(refused).message).toContain(reason);
  expect(await readFile(join(directory, 'trust.jwks'), 'utf8')).toBe(before);
});

test('a key that was replaced is not replaced again, and a file that is no key signs nothing', async () => {
  const directory = await folder({
    'text.jwk': 'secret-canary',
    'public.jwk': '{"kty":"OKP","kid":"x"}',
    'broken.jwks': '{',
  });
  await made(directory, 'new', 'a', '--service', 'acme');
  await made(directory, 'rotate', 'a', 'b');
  expect(errorOf(await runCommand(['keys', 'rotate', 'a', 'c', '--json'], { directory })).message).toContain(
    'was replaced at',
  );
  expect(
    errorOf(await runCommand(['keys', 'list', '--trust', 'broken.jwks', '--json'], { directory })).message,
  ).toContain('no JSON');
  for (const file of ['text.jwk', 'public.jwk', 'away.jwk'])
    await expect(readSigner(join(directory, file))).rejects.toThrow(
      /^(?!.*canary)The signing key .*keys new|no private key/,
    );
});

test('a key file that is not there, or cannot be read, is not told to be no key', async () => {
  const directory = await folder();
  await mkdir(join(directory, 'dir.jwk'));
  for (const [file, why] of [
    ['away.jwk', 'ENOENT'],
    ['dir.jwk', 'EISDIR'],
  ] as const)
    await expect(readSigner(join(directory, file), file)).rejects.toMatchObject(
      withCode('USAGE', `The signing key ${file} cannot be read (${why})`),
    );
});
