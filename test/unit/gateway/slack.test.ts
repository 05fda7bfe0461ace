/** Requests of Slack: only what Slack has signed, and lately, is read. */
import { createHmac } from 'node:crypto';
import { expect, test } from '@jest/globals';
import { assertFromSlack } from '../../../gateway/slack/signature.ts';
import { refusalOf } from '../../support/refusal.ts';

// The example of Slack's own documentation (docs.slack.dev, "Verifying requests from Slack").
const SECRET = '8f742231b10e8888abcd99yyyzzz85a5';
const TIMESTAMP = '1531420618';
const BODY =
  'token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c';
const SIGNATURE = 'v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503';
const NOW = Number(TIMESTAMP) * 1_000;

const signed = { timestamp: TIMESTAMP, signature: SIGNATURE, body: BODY };

function signatureOf(timestamp: string, secret = SECRET, version = 'v0'): string {
  return `${version}=${createHmac('sha256', secret).update(`${version}:${timestamp}:${BODY}`).digest('hex')}`;
}

test('Slack’s own example holds, for five minutes before and after', () => {
  for (const away of [0, 300_000, -300_000]) assertFromSlack(signed, SECRET, NOW + away);
});

test.each([
  ['no signature', { signature: undefined }, 'SIGNATURE_MISSING'],
  ['no time', { timestamp: undefined }, 'SIGNATURE_MISSING'],
  ['a signature by another secret', { signature: signatureOf(TIMESTAMP, 'another') }, 'SIGNATURE_INVALID'],
  ['another body', { body: `${BODY}&more` }, 'SIGNATURE_INVALID'],
  ['another time', { timestamp: '1531420619' }, 'SIGNATURE_INVALID'],
  ['another version', { signature: signatureOf(TIMESTAMP, SECRET, 'v1') }, 'SIGNATURE_INVALID'],
  ['a part of the signature', { signature: SIGNATURE.slice(0, -1) }, 'SIGNATURE_INVALID'],
  ['an empty signature', { signature: '' }, 'SIGNATURE_INVALID'],
  ['a time that is no number', { timestamp: 'now', signature: signatureOf('now') }, 'SIGNATURE_EXPIRED'],
])('%s is refused', async (_, over, code) => {
  const refused = Promise.resolve().then(() => assertFromSlack({ ...signed, ...over }, SECRET, NOW));
  expect(await refusalOf(refused)).toMatchObject({ code });
});

test.each([301_000, -301_000])('a request that is %s ms away is refused, though its signature holds', async (away) => {
  const refused = Promise.resolve().then(() => assertFromSlack(signed, SECRET, NOW + away));
  expect(await refusalOf(refused)).toMatchObject({ code: 'SIGNATURE_EXPIRED' });
});
