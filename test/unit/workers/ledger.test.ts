/** What a worker needs before it signs ledgers, and where it makes their directory. */
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, expect, test } from '@jest/globals';
import { generateKeyPairSync } from 'node:crypto';
import { Config } from '../../../contracts/schemas/config.ts';
import { openLedger } from '../../../workers/composition.ts';
import { chainOf, STREAM } from '../../support/builders/ledger-record.ts';
import { useConfigFolders } from '../../support/config-folder.ts';
import { headKey } from '../../support/signing/keys.ts';

const { folder } = useConfigFolders();
let directory: string;
beforeAll(async () => {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const curve = String(privateKey.export({ format: 'pem', type: 'pkcs8' }));
  directory = await folder({ 'good.pem': headKey().pem, 'curve.pem': curve, 'canary.pem': 'canary' });
});

const opened = (at: string, privateKeyFile = 'good.pem') => {
  const config = Config.parse({ ledger: { sign: { kid: 'worker-1', privateKeyFile }, directory: at } });
  return openLedger({ config, path: undefined, baseDirectory: directory });
};

test('without a configuration nothing is delivered anywhere', async () => {
  expect(await openLedger({ config: Config.parse({}), path: undefined, baseDirectory: directory })).toBeUndefined();
});

test('a directory beside the configuration is made, and what is delivered stands there', async () => {
  const deliver = await opened('ledger');
  await deliver?.(STREAM, chainOf(3));
  const files = await readdir(join(directory, 'ledger'), { recursive: true });
  expect(files.filter((file) => file.endsWith('.jsonl'))).toHaveLength(1);
});

test('INV-D3: a directory in another place is not made: a volume may be missing', async () => {
  await expect(opened('../elsewhere')).rejects.toMatchObject({
    code: 'SETUP_INCOMPLETE',
    facts: { path: 'ledger.directory' },
  });
});

test.each(['curve.pem', 'canary.pem', 'absent.pem'])(
  'a worker does not start without an Ed25519 key (%s), and does not quote the file',
  async (file) => {
    await expect(opened('ledger', file)).rejects.toMatchObject({
      code: 'CONFIG_INVALID',
      facts: { path: 'ledger.sign.privateKeyFile' },
      message: expect.not.stringMatching(/canary(?!\.pem)/),
    });
  },
);
