/** Requests of Slack: only what Slack has signed, and lately, is read; and what the person who pressed gets to read. */
import { createHmac } from 'node:crypto';
import { expect, test } from '@jest/globals';
import { CountersignError } from '../../../contracts/errors.ts';
import { SlackConfig } from '../../../contracts/schemas/gateway.ts';
import { Presses, type PressParts } from '../../../gateway/slack/presses.ts';
import { assertFromSlack } from '../../../gateway/slack/routes.ts';
import type { Fields } from '../../../domain/shapes/inputs.ts';
import { refusalOf } from '../../support/refusal.ts';
import { until } from '../../support/until.ts';

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

const URL = 'https://hooks.slack.com/actions/T024BE7LD/1/canary';
const VALUE = JSON.stringify({ run: 'run-1', callId: 't1.c0', digest: 'd'.repeat(64), runId: 'temporal-1' });

/** Of the messages of one team, in which ben may press. */
function pressesOf(parts: Pick<PressParts, 'answering' | 'askSlack' | 'log'> & Partial<PressParts>): Presses {
  return new Presses({
    config: SlackConfig.parse({ signingSecret: SECRET, team: 'T024BE7LD', people: { U024BEN00: { id: 'ben' } } }),
    oidc: undefined,
    // Sound: a press uses nothing else of a person.
    people: { personOf: ({ id, groups }) => ({ id, groups }) as ReturnType<PressParts['people']['personOf']> },
    onRefusal: () => undefined,
    ...parts,
  });
}

/** Presses approve as ben, and returns what Slack and the log were told. */
async function pressed(answer: PressParts['answering']['answer'], askSlack?: PressParts['askSlack'], value = VALUE) {
  const said: string[] = [];
  const logged: unknown[] = [];
  const refused: unknown[] = [];
  const presses = pressesOf({
    answering: { answer },
    askSlack:
      askSlack ??
      (async (_url, init) => {
        said.push(typeof init?.body === 'string' ? init.body : '');
        return new Response();
      }),
    onRefusal: (kind, code) => refused.push([kind, code]),
    log: { warn: (message, fields) => logged.push([message, fields]) },
  });
  const action = { action_id: 'countersign_approve', action_ts: '1.0', value };
  const user = { id: 'U024BEN00', team_id: 'T024BE7LD' };
  presses.take(JSON.stringify({ type: 'block_actions', user, response_url: URL, actions: [action] }));
  await presses.settled();
  return {
    said: said.map((each) => (JSON.parse(each) as { text: string }).text),
    logged: JSON.stringify(logged),
    refused,
  };
}

const failing = (code: 'RESULT_UNCERTAIN' | 'REQUEST_NOT_OPEN') => async (): Promise<never> => {
  throw new CountersignError(code, 'Over <!channel> \u202E.');
};

test('a run that did not answer may have taken the decision, and nobody is told otherwise', async () => {
  expect((await pressed(failing('RESULT_UNCERTAIN'))).said).toEqual([expect.stringMatching(/^Nobody knows yet/)]);
  const fault = async (): Promise<never> => {
    throw new Error('canary');
  };
  expect((await pressed(fault)).said).toEqual([expect.stringMatching(/^Nobody knows yet.*INTERNAL/)]);
});

test('a refusal says its code and its words, in which nothing is a mention or hidden', async () => {
  const { said } = await pressed(failing('REQUEST_NOT_OPEN'));
  expect(said).toEqual([expect.stringMatching(/^Nothing was changed \(REQUEST_NOT_OPEN\): Over &lt;!channel&gt; /)]);
  expect(said[0]).not.toContain('\u202E');
});

test('what Slack does not take is logged without its address', async () => {
  const away = async (): Promise<never> => {
    throw new TypeError(`fetch failed: ${URL}`);
  };
  const { logged } = await pressed(failing('REQUEST_NOT_OPEN'), away);
  expect(logged).toContain('TypeError');
  expect(logged).not.toContain('canary');
});

interface Posted {
  readonly url: string;
  readonly body: Fields;
}

const blockOf = (value: string): Fields => ({ type: 'actions', elements: [{ type: 'button', value }] });
const textOf = (text: string): Fields => ({ type: 'context', elements: [{ type: 'mrkdwn', text }] });

/** Presses that ben makes on one message with two requests; Slack answers a change of it when the test lets it. */
function messageOfTwo(answer: () => Promise<{ readonly status: string }> = async () => ({ status: 'approved' })) {
  const posts: Posted[] = [];
  const open: (() => void)[] = [];
  const logged: unknown[] = [];
  const presses = pressesOf({
    // Sound: nothing else of what a run answers is read.
    answering: { answer: async () => (await answer()) as never },
    askSlack: async (url, init) => {
      const body = JSON.parse(typeof init?.body === 'string' ? init.body : '') as Fields;
      if (body['replace_original'] === true) {
        posts.push({ url: String(url), body });
        await new Promise<void>((resolve) => open.push(resolve));
      }
      return new Response();
    },
    log: { warn: (message, fields) => logged.push([message, fields]) },
  });
  const values = ['t1.c0', 't1.c1'].map((callId) => VALUE.replace('t1.c0', callId));
  const press = (index: number, blocks: readonly Fields[] = values.map(blockOf)): void => {
    const action = { action_id: 'countersign_approve', action_ts: `${index}.0`, value: values[index] };
    const user = { id: 'U024BEN00', team_id: 'T024BE7LD' };
    const message = { ts: '1700000000.000100', text: 'Two calls wait', blocks };
    const channel = { id: 'C024BE91L' };
    const at = { response_url: `${URL}-${index}`, message, channel };
    presses.take(JSON.stringify({ type: 'block_actions', user, ...at, actions: [action] }));
  };
  return { presses, posts, open, logged, press, values };
}

test('the last decision takes the buttons of its request out of the message, and of no other', async () => {
  const { presses, posts, open, press, values } = messageOfTwo();
  press(0);
  await until(() => posts.length === 1, { what: 'the change' });
  open.shift()?.();
  await presses.settled();
  const blocks = [textOf('Approved by <@U024BEN00>.'), blockOf(values[1] ?? '')];
  expect(posts).toEqual([{ url: `${URL}-0`, body: { replace_original: true, text: 'Two calls wait', blocks } }]);
});

test('beyond 200 presses under way one is refused before Slack hears that it was taken', async () => {
  const held: (() => void)[] = [];
  const { presses, press } = messageOfTwo(
    async () => await new Promise((resolve) => held.push(() => resolve({ status: 'counted' }))),
  );
  for (let index = 0; index < 200; index += 1) press(0);
  expect(() => press(1)).toThrow(expect.objectContaining({ code: 'RATE_LIMITED' }));
  await until(() => held.length === 200, { what: 'all of them to ask their run' });
  for (const each of held.splice(0)) each();
  await presses.settled();
  press(1);
  await until(() => held.length === 1, { what: 'one more' });
  held[0]?.();
  await presses.settled();
});

test('what Slack has signed and cannot be read is logged by its reason, without its content', () => {
  const { presses, press, logged } = messageOfTwo();
  presses.take('{canary');
  presses.take(JSON.stringify({ type: 'canary' }));
  press(
    0,
    Array.from({ length: 51 }, () => ({ type: 'canary' })),
  );
  expect(logged.map((each) => JSON.stringify(each))).toEqual([
    expect.stringContaining('"reason":"no JSON"'),
    expect.stringContaining('"reason":"type '),
    expect.stringContaining('"reason":"message.blocks '),
  ]);
  expect(JSON.stringify(logged)).not.toContain('canary');
});

test('buttons of other releases, of other apps, and payloads that are none do no harm', async () => {
  const never = async (): Promise<never> => {
    throw new Error('asked');
  };
  const { said, refused } = await pressed(never, undefined, '{}');
  expect(said).toEqual([expect.stringMatching(/USAGE/)]);
  expect(refused).toEqual([['approve', 'USAGE']]);
  // What the run or `Answering` refuses is counted there.
  expect((await pressed(failing('REQUEST_NOT_OPEN'))).refused).toEqual([]);
  const presses = new Presses({} as PressParts);
  for (const payload of ['', '{', '[]', '{"type":"view_submission"}']) presses.take(payload);
  await presses.settled();
});
