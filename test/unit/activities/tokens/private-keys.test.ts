/** Key files of a zone, as the configuration names them (INV-S1). */
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { exportPKCS8, generateKeyPair } from 'jose';
import { loadPrivateKeys } from '../../../../activities/tokens/sealed.ts';
import { useConfigFolders } from '../../../support/config-folder.ts';
import { refusalOf } from '../../../support/refusal.ts';
import { zoneKey } from '../../../support/signing/keys.ts';

const { folder } = useConfigFolders();

describe('private keys of a zone', () => {
  test('are read relative to the configuration file, several at once', async () => {
    const [one, two] = [await zoneKey('one'), await zoneKey('two')];
    const directory = await folder({ 'one.pem': one.pem, 'two.pem': `\n${two.pem}\n` });
    const keys = await loadPrivateKeys(
      [
        { kid: 'one', privateKeyFile: 'one.pem' },
        { kid: 'two', privateKeyFile: join(directory, 'two.pem') },
      ],
      directory,
    );
    expect([...keys.keys()]).toEqual(['one', 'two']);
  });

  test.each([
    ['is not there', undefined, 'ENOENT'],
    ['is no PEM', 'canary', 'no PKCS #8 private key'],
    [
      'is a PEM of another kind',
      '-----BEGIN EC PRIVATE KEY-----\ncanary\n-----END EC PRIVATE KEY-----',
      'openssl pkcs8 -topk8',
    ],
    [
      'is a broken PKCS #8',
      '-----BEGIN PRIVATE KEY-----\nY2FuYXJ5\n-----END PRIVATE KEY-----',
      'no PKCS #8 private key',
    ],
  ])('a key file that %s is named without its content', async (_what, text, reason) => {
    const directory = await folder(text === undefined ? {} : { 'zone.pem': text });
    const error = await refusalOf(loadPrivateKeys([{ kid: 'a', privateKeyFile: 'zone.pem' }], directory));
    expect(error).toMatchObject({ code: 'CONFIG_INVALID', facts: { path: 'grants.keys[0].privateKeyFile' } });
    expect(error.message).toContain('zone.pem');
    expect(error.message).toContain(reason);
    expect(`${error.message}${String(error.cause)}`).not.toMatch(/canary|Y2FuYXJ5/);
  });

  test('a key of another curve is refused', async () => {
    const { privateKey } = await generateKeyPair('ECDH-ES', { crv: 'P-384', extractable: true });
    const directory = await folder({ 'zone.pem': await exportPKCS8(privateKey) });
    const error = await refusalOf(loadPrivateKeys([{ kid: 'a', privateKeyFile: 'zone.pem' }], directory));
    expect(error.message).toContain('P-256');
  });
});
