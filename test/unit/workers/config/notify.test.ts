/** Channels and routes of a configuration (I-1, INV-S1). */
import { describe, expect, test } from '@jest/globals';
import { stringify } from 'yaml';
import { useConfigFolders } from '../../../support/config-folder.ts';
import { MESSAGE_SECRET } from '../../../support/servers/message-receiver.ts';

const { load, refusedAt } = useConfigFolders();
const hook = { kind: 'webhook', url: 'https://desk.example.com/in', secret: MESSAGE_SECRET };
const mail = { kind: 'mail', host: 'smtp.example.com', from: 'countersign@example.com' };
const slack = { kind: 'slack', token: 'xoxb-canary', channel: 'C024BE91L' };
const slackHook = { kind: 'slack-webhook', webhookUrl: 'https://hooks.slack.com/services/canary' };
const channel = (it: object, rest: object = {}): object => ({ notify: { channels: { it } }, ...rest });

describe('the channels of a configuration', () => {
  test('none is the default', async () => {
    expect((await load('{}')).config.notify).toEqual({ channels: {} });
  });

  test.each<readonly [string, object, object?]>([
    ['a webhook', hook],
    ['mail over STARTTLS', { ...mail, user: 'c', password: 'canary' }],
    ['mail in clear to this machine', { ...mail, host: '127.0.0.1', tls: 'none' }],
    ['mail in clear, by IPv6, to this machine', { ...mail, host: '::1', tls: 'none' }],
    ['mail in clear where the operator says so', { ...mail, tls: 'none' }, { egress: { allowInsecure: true } }],
    ['Slack', slack],
    ["Slack's incoming webhook", slackHook],
  ])('%s is accepted', async (_, it, rest = {}) => {
    expect((await load(stringify(channel(it, rest)))).config.notify.channels['it']).toMatchObject(it);
  });

  const at = 'notify.channels.it';
  test.each([
    { path: `${at}.url`, it: { ...hook, url: 'http://desk.example.com/canary' } },
    { path: `${at}.secret`, it: { ...hook, secret: 'whsec_canary' } },
    { path: `${at}.tls`, it: { ...mail, tls: 'none' } },
    { path: `${at}.password`, it: { ...mail, user: 'canary' } },
    { path: `${at}.apiUrl`, it: { ...slack, apiUrl: 'http://slack.example.com/canary' } },
    { path: `${at}.webhookUrl`, it: { ...slackHook, webhookUrl: 'http://hooks.example.com/canary' } },
    { path: `${at}.people.ann`, it: { ...slack, people: { ann: '<!canary>' } } },
    { path: 'notify.page', it: hook, rest: { notify: { page: 'https://canary.example.com/{canary}' } } },
  ])('$path is refused where it is wrong, without showing it', async ({ path, it, rest = {} }) => {
    await refusedAt(path, channel(it, rest));
  });

  test.each([
    ['policy.notify[0].channel', { notify: [{ channel: 'gone' }] }],
    [
      'policy.rules[0].notify[1].channel',
      { rules: [{ id: 'a', then: 'ask', notify: [{ channel: 'it' }, { channel: 'gone' }] }] },
    ],
  ])('%s names a channel that there is', async (path, policy) => {
    await refusedAt(path, channel(hook, { policy }));
  });
});
