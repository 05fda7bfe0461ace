/** Where a configuration lets ledgers go (F39, INV-S1). */
import { describe, expect, test } from '@jest/globals';
import { stringify } from 'yaml';
import { useConfigFolders } from '../../../support/config-folder.ts';
import { WEBHOOK_SECRET } from '../../../support/servers/ledger-receiver.ts';

const { load, refusedAt } = useConfigFolders();
const SIGN = { kid: 'worker-1', privateKeyFile: 'ledger.pem' };
const ledger = (more: object, sign: object = SIGN, rest: object = {}): object => ({
  ledger: { sign, ...more },
  ...rest,
});
const webhook = (url: string, secret = WEBHOOK_SECRET) => ({ webhook: { url, secret } });

describe('the ledger of a configuration', () => {
  test('none is the default', async () => {
    expect((await load('{}')).config.ledger).toBeUndefined();
  });

  test.each<readonly [string, object, object?]>([
    ['a directory', { directory: 'ledger' }],
    ['a webhook over TLS', webhook('https://siem.example.com/in')],
    ['a webhook on this machine', webhook('http://127.0.0.1:9/in'), { egress: { allowLoopback: true } }],
    ['both', { directory: 'ledger', ...webhook('https://siem.example.com/in') }],
  ])('%s is accepted', async (_, more, rest = {}) => {
    expect((await load(stringify(ledger(more, SIGN, rest)))).config.ledger).toMatchObject({ sign: SIGN });
  });

  const insecure = { egress: { allowInsecure: true } };
  test.each([
    { path: 'ledger', more: {}, sign: SIGN, rest: {} },
    { path: 'ledger.sign.kid', more: { directory: 'l' }, sign: { privateKeyFile: 'ledger.pem' }, rest: {} },
    { path: 'ledger.webhook.url', more: webhook('http://siem.example.com/canary'), sign: SIGN, rest: {} },
    { path: 'ledger.webhook.url', more: webhook('http://siem.example.com/canary'), sign: SIGN, rest: insecure },
    { path: 'ledger.webhook.url', more: webhook('https://user:canary@siem.example.com'), sign: SIGN, rest: {} },
    { path: 'ledger.webhook.url', more: webhook('https://siem.example.com/?token=canary'), sign: SIGN, rest: {} },
    { path: 'ledger.webhook.secret', more: webhook('https://siem.example.com', 'canary'), sign: SIGN, rest: {} },
    { path: 'ledger.webhook.secret', more: webhook('https://siem.example.com', 'whsec_canary'), sign: SIGN, rest: {} },
  ])('$path is refused where it is wrong, without showing it', async ({ path, more, sign, rest }) => {
    await refusedAt(path, ledger(more, sign, rest));
  });
});
