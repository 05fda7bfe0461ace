/** What a worker needs before it signs ledgers, and where it makes their directory. */
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { generateKeyPairSync } from 'node:crypto';
import { Config } from '../../../contracts/schemas/config.ts';
import { openLedger } from '../../../workers/composition.ts';
import { chainOf, STREAM } from '../../support/builders/ledger-record.ts';
import { headKey } from '../../support/signing/keys.ts';

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'countersign-ledger-'));
  await writeFile(join(folder, 'good.pem'), headKey().pem);
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  await writeFile(join(folder, 'curve.pem'), privateKey.export({ format: 'pem', type: 'pkcs8' }));
  await writeFile(join(folder, 'canary.pem'), 'canary');
});
afterAll(async () => rm(folder, { recursive: true, force: true }));

const opened = (directory: string, privateKeyFile = 'good.pem') => {
  const config = Config.parse({ ledger: { sign: { kid: 'worker-1', privateKeyFile }, directory } });
  return openLedger({ config, path: undefined, baseDirectory: folder });
};

test('without a configuration nothing is delivered anywhere', async () => {
  expect(await openLedger({ config: Config.parse({}), path: undefined, baseDirectory: folder })).toBeUndefined();
});

test('a directory beside the configuration is made, and what is delivered stands there', async () => {
  const deliver = await opened('ledger');
  await deliver?.(STREAM, chainOf(3));
  const files = await readdir(join(folder, 'ledger'), { recursive: true });
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
