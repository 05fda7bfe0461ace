/**
 * The channels against the suite of their port, and what only one of them does.
 *
 * One file, because all channels stand before one suite, each with the server that its own tests ask, too.
 */
import { createPublicKey, generateKeyPairSync, verify } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { afterAll, describe, expect, test } from '@jest/globals';
import { createMailChannel } from '../../activities/notify/mail.ts';
import {
  headingOf,
  linesOf,
  type MessageChannel,
  refusedBy,
  toolOf,
  undelivered,
} from '../../activities/notify/port.ts';
import { createSlackChannel, createSlackWebhookChannel } from '../../activities/notify/slack.ts';
import { createWebhookChannel } from '../../activities/notify/webhook.ts';
import { Channel } from '../../contracts/schemas/channels.ts';
import { loopbackEgress } from '../support/egress.ts';
import { until } from '../support/until.ts';
import { bodyOf, listenOnLoopback } from '../support/servers/loopback-server.ts';
import { type MailServer, startMailServer } from '../support/servers/mail-server.ts';
import { MESSAGE_SECRET, startMessageReceiver } from '../support/servers/message-receiver.ts';
import { type SlackServer, startSlackServer } from '../support/servers/slack-server.ts';
import { channelSuite, type Delivered, digest, message, request } from './notify.suite.ts';

const closing: (() => Promise<void>)[] = [];
afterAll(async () => void (await Promise.all(closing.map(async (close) => close()))));

function channelOf<Kind extends Channel['kind']>(fields: { readonly kind: Kind } & Record<string, unknown>) {
  // Sound: the schema keeps the kind.
  return Channel.parse(fields) as Extract<Channel, { kind: Kind }>;
}

channelSuite({
  name: 'a fake',
  knowsIds: true,
  threads: true,
  create: async () => {
    const { channel, delivered, become } = fakeChannel();
    return { channel, delivered: async () => delivered, become: async (state) => become(state), hidden: [] };
  },
});

/** The least that a channel does. */
function fakeChannel() {
  const delivered: Delivered[] = [];
  let state = 'well';
  const channel: MessageChannel = {
    send: async (told) => {
      if (state === 'refusing') throw refusedBy('it', 'refused');
      if (state !== 'well') throw undelivered('it', 'is away');
      const text = told.requests.flatMap((each) => [
        toolOf(each),
        ...linesOf(told, each).map(([name, value]) => `${name}: ${value}`),
        each.url,
      ]);
      delivered.push({ id: told.id, text: [headingOf(told), ...text].join('\n'), thread: told.thread });
      return { thread: told.thread ?? told.id };
    },
  };
  return { channel, delivered, become: (next: string) => void (state = next) };
}

channelSuite({
  name: 'a webhook',
  knowsIds: true,
  threads: false,
  create: async () => {
    const receiver = await startMessageReceiver();
    closing.push(receiver.close);
    const fields = channelOf({ kind: 'webhook', url: receiver.url, secret: MESSAGE_SECRET });
    return {
      channel: createWebhookChannel('it', fields, loopbackEgress()),
      delivered: async () =>
        [...receiver.received, ...receiver.digests].map(({ id, body }) => ({
          id,
          text: readable(body),
          thread: undefined,
        })),
      become: async (state) => {
        if (state === 'gone') return await receiver.close();
        const status = { busy: 503, refusing: 410 }[state === 'well' ? 'busy' : state];
        receiver.answer(
          state === 'well' ? undefined : (_, response) => response.writeHead(status).end('told to nobody'),
        );
      },
      hidden: [receiver.url, 'told to nobody', MESSAGE_SECRET],
    };
  },
});

/** JSON with its strings as people would read them; JSON itself escapes what is hidden. */
function readable(body: string): string {
  return body.replaceAll('\\"', '"');
}

async function newMailServer(): Promise<MailServer> {
  const server = await startMailServer();
  closing.push(server.close);
  return server;
}

function mailTo(port: number, over: Record<string, unknown> = {}) {
  return channelOf({
    kind: 'mail',
    host: '127.0.0.1',
    port,
    tls: 'none',
    user: 'countersign',
    password: 'canary-mail-password',
    from: 'countersign@example.com',
    people: { ann: 'ann@example.com', ben: 'ben@example.com' },
    groups: { ops: ['ops@example.com', 'ann@example.com'] },
    timeoutSeconds: 5,
    ...over,
  });
}

channelSuite({
  name: 'mail',
  knowsIds: true,
  threads: true,
  create: async () => {
    const server = await newMailServer();
    return {
      channel: createMailChannel('it', mailTo(server.port), loopbackEgress()),
      delivered: async () =>
        server.mails.map(({ headers, text }) => ({
          id: headers['message-id'],
          text: `${headers['subject']}\n${text}`,
          thread: headers['references'],
        })),
      become: async (state) => (state === 'gone' ? await server.close() : server.become(state)),
      hidden: ['canary-mail-password', 'ann@example.com', 'ops@example.com', 'told to nobody'],
    };
  },
});

async function newSlack(): Promise<SlackServer> {
  const server = await startSlackServer();
  closing.push(server.close);
  return server;
}

const MENTIONS = { people: { ann: 'U024BE7LH' }, groups: { ops: 'S0614TZR7' } };

channelSuite({
  name: 'Slack with a token',
  knowsIds: true,
  threads: true,
  create: async () => {
    const server = await newSlack();
    const fields = channelOf({
      kind: 'slack',
      token: server.token,
      channel: 'C024BE91L',
      apiUrl: `${server.origin}/api`,
      ...MENTIONS,
    });
    return {
      channel: createSlackChannel('it', fields, loopbackEgress()),
      delivered: async () => server.posts.map(({ id, texts, thread }) => ({ id, text: texts.join('\n'), thread })),
      become: async (state) => (state === 'gone' ? await server.close() : server.become(state)),
      hidden: [server.token, 'told to nobody', 'C024BE91L'],
    };
  },
});

channelSuite({
  name: "Slack's incoming webhook",
  knowsIds: false,
  threads: false,
  create: async () => {
    const server = await newSlack();
    const webhookUrl = `${server.origin}/services/T0/B0/canary`;
    const fields = channelOf({ kind: 'slack-webhook', webhookUrl, ...MENTIONS });
    return {
      channel: createSlackWebhookChannel('it', fields, loopbackEgress()),
      delivered: async () =>
        server.posts.map(({ texts }) => ({ id: undefined, text: texts.join('\n'), thread: undefined })),
      become: async (state) => (state === 'gone' ? await server.close() : server.become(state)),
      hidden: [webhookUrl, 'canary', 'told to nobody'],
    };
  },
});

describe('the webhook', () => {
  test('signs with Ed25519 where the key is one (Standard Webhooks, v1a)', async () => {
    const { privateKey, publicKey } = generateKeyPairSync('ed25519');
    const seed = privateKey.export({ format: 'der', type: 'pkcs8' }).subarray(-32);
    let got: { readonly headers: IncomingHttpHeaders; readonly body: string } | undefined;
    const server = await listenOnLoopback((asked, response) => {
      void bodyOf(asked).then((body) => {
        got = { headers: asked.headers, body };
        response.writeHead(200).end();
      });
    });
    closing.push(server.close);
    const fields = channelOf({ kind: 'webhook', url: server.origin, secret: `whsk_${seed.toString('base64')}` });
    await createWebhookChannel('it', fields, loopbackEgress()).send(message());
    const { headers = {}, body = '' } = got ?? {};
    const signature = String(headers['webhook-signature']);
    expect(signature).toMatch(/^v1a,/);
    const signed = Buffer.from(`${String(headers['webhook-id'])}.${String(headers['webhook-timestamp'])}.${body}`);
    const key = createPublicKey(publicKey.export({ format: 'pem', type: 'spki' }).toString());
    expect(verify(null, signed, key, Buffer.from(signature.slice(4), 'base64'))).toBe(true);
  });

  test('Retry-After of a receiver is kept', async () => {
    const receiver = await startMessageReceiver();
    closing.push(receiver.close);
    receiver.answer((_, response) => response.writeHead(429, { 'retry-after': '7' }).end());
    const fields = channelOf({ kind: 'webhook', url: receiver.url, secret: MESSAGE_SECRET });
    const sent = createWebhookChannel('it', fields, loopbackEgress()).send(message());
    await expect(sent).rejects.toMatchObject({ code: 'MESSAGE_UNDELIVERED', facts: { retryAfterMs: 7_000 } });
  });
});

describe('mail', () => {
  /** A server of mail, and a channel to it. */
  async function mailing(
    over: Record<string, unknown> = {},
    options: Parameters<typeof createMailChannel>[3] = {},
    ms?: number,
  ) {
    const server = await newMailServer();
    return { server, channel: createMailChannel('it', mailTo(server.port, over), loopbackEgress(), options, ms) };
  }
  const UNDELIVERED = { code: 'MESSAGE_UNDELIVERED' };
  const REFUSED = { code: 'MESSAGE_REFUSED' };

  test('goes to each address once, and its headers say that nobody wrote it', async () => {
    const { server, channel } = await mailing({ to: ['log@example.com'] });
    await channel.send(message());
    const [mail] = server.mails;
    expect(mail?.to).toEqual(['log@example.com', 'ann@example.com', 'ops@example.com']);
    expect(mail?.from).toBe('countersign@example.com');
    expect(mail?.headers).toMatchObject({
      'auto-submitted': 'auto-generated',
      'message-id': `<msg_${'a'.repeat(64)}@example.com>`,
    });
    expect(server.users).toEqual(['countersign']);
  });

  test('who closed a request is not told so, and nobody else is no failure', async () => {
    const { server, channel } = await mailing();
    const requests = [request({ closed: { status: 'approved', by: 'ann' } })];
    await channel.send(message({ event: 'closed', requests }));
    expect(server.mails.map(({ to }) => to)).toEqual([['ops@example.com']]);
    expect(await channel.send(message({ event: 'closed', requests, to: { ids: ['ann'], groups: [] } }))).toEqual({});
    expect(server.mails).toHaveLength(1);
  });

  test('a message for people without an address is a failure that is not tried again', async () => {
    const { channel } = await mailing();
    const sent = channel.send(message({ to: { ids: ['zoe'], groups: ['none'] } }));
    await expect(sent).rejects.toMatchObject(REFUSED);
  });

  test.each([
    ['expired', undefined, ['zoe'], ['none']],
    ['approved', 'ann', ['ann', 'zoe'], []],
  ] as const)('that a request is closed (%s by %s) is no exception', async (status, by, ids, groups) => {
    const { server, channel } = await mailing();
    const requests = [request({ closed: { status, ...(by && { by }) } })];
    const sent = channel.send(message({ event: 'closed', requests, to: { ids, groups } }));
    await expect(sent).rejects.toMatchObject(REFUSED);
    // Who closed it needs no address.
    const closed = [request({ closed: { status: 'approved', by: 'zoe' } })];
    const own = message({ event: 'closed', requests: closed, to: { ids: ['zoe'], groups: [] } });
    expect(await channel.send(own)).toEqual({});
    expect(server.mails).toEqual([]);
  });

  test('people are known as policy compares ids', async () => {
    const { server, channel } = await mailing({}, { idCase: 'ignored' });
    await channel.send(message({ to: { ids: ['ANN'], groups: [] } }));
    await channel.send(
      message({
        event: 'closed',
        to: { ids: ['Ann', 'Ben'], groups: [] },
        requests: [request({ closed: { status: 'approved', by: 'BEN' } })],
      }),
    );
    expect(server.mails.map(({ to }) => to)).toEqual([['ann@example.com'], ['ann@example.com']]);
  });

  test('an address that the server refuses is told of, and nobody gets the mail twice because of it', async () => {
    const { server, channel } = await mailing();
    server.refuse('ops@example.com', 451);
    const first: unknown = await channel.send(message()).catch((error: unknown) => error);
    expect(first).toMatchObject(UNDELIVERED);
    expect(String(first)).toContain('1 of 2 addresses');
    expect(String(first)).not.toContain('ops@example.com');
    server.refuse('ops@example.com', undefined);
    await channel.send(message({ repeated: true }));
    expect(server.mails.map(({ to }) => to)).toEqual([['ann@example.com'], ['ops@example.com']]);
    server.refuse('ann@example.com', 550);
    const other = message({ id: `msg_${'c'.repeat(64)}` });
    await expect(channel.send(other)).rejects.toMatchObject(REFUSED);
    expect(server.mails).toHaveLength(3);
  });

  test('a mail that was sent whole and got no answer is sent once more, and no third time', async () => {
    const { server, channel } = await mailing();
    server.loseAnswers(true);
    await expect(channel.send(message())).rejects.toMatchObject(UNDELIVERED);
    await expect(channel.send(message({ repeated: true }))).rejects.toMatchObject(REFUSED);
    expect(server.mails).toHaveLength(2);
  });

  test('what other workers tried before is none of the two', async () => {
    const { server, channel } = await mailing();
    server.loseAnswers(true);
    const again = async () => await channel.send(message({ repeated: true }));
    await expect(again()).rejects.toMatchObject(UNDELIVERED);
    await expect(again()).rejects.toMatchObject(REFUSED);
    expect(server.mails).toHaveLength(2);
  });

  test('a server that is slow has not more than two tries, and none that goes on beside another', async () => {
    const { server, channel } = await mailing({}, {}, 3_000);
    server.loseAnswers('silent');
    const first: unknown = await channel.send(message()).catch((error: unknown) => error);
    expect(first).toMatchObject(UNDELIVERED);
    expect(String(first)).toContain('timed out');
    await until(() => server.open() === 0, { what: 'the end of the connection' });
    await expect(channel.send(message({ repeated: true }))).rejects.toMatchObject(REFUSED);
    expect(server.mails).toHaveLength(2);
  });

  test('a server to which nothing listens is told by the code of the system', async () => {
    const { server, channel } = await mailing();
    await server.close();
    await expect(channel.send(message())).rejects.toMatchObject({
      code: 'MESSAGE_UNDELIVERED',
      message: expect.stringContaining('notify.channels.it could not be reached (ECONNREFUSED)'),
    });
  });

  test('a try that did not send the whole mail is none of the two', async () => {
    const { server, channel } = await mailing();
    const again = async () => await channel.send(message({ repeated: true }));
    server.become('busy');
    await expect(channel.send(message())).rejects.toMatchObject(UNDELIVERED);
    server.become('well');
    server.loseAnswers('early');
    for (const _ of [1, 2]) await expect(again()).rejects.toMatchObject(UNDELIVERED);
    server.loseAnswers(true);
    await expect(again()).rejects.toMatchObject(UNDELIVERED);
    await expect(again()).rejects.toMatchObject(REFUSED);
    expect(server.mails).toHaveLength(2);
  });

  test('no address in foreign text is one that mail programs make a link of', async () => {
    const { server, channel } = await mailing();
    const evil = 'https://evil.example';
    await channel.send(
      message({ requests: [request({ tool: evil, arguments: evil, because: evil, explain: [evil] })] }),
    );
    const [mail] = server.mails;
    expect(mail?.headers['subject']).not.toContain(evil);
    expect(mail?.text).not.toContain(evil);
    expect(mail?.text).toContain('https://approvals.example.com/runs/run-1');
  });

  test('a server without TLS gets nothing where TLS is asked for', async () => {
    const { server, channel } = await mailing({ tls: 'starttls' });
    await expect(channel.send(message())).rejects.toMatchObject(REFUSED);
    expect([server.mails, server.users]).toEqual([[], []]);
  });

  test('a host that egress forbids is not contacted', async () => {
    const server = await newMailServer();
    const rules = { allowLoopback: false, allowInsecure: false, allowPrivate: [] };
    const channel = createMailChannel('it', mailTo(server.port), loopbackEgress({ rules }));
    await expect(channel.send(message())).rejects.toMatchObject(UNDELIVERED);
    expect(server.connections()).toBe(0);
  });
});

describe('Slack', () => {
  async function slack(over: Record<string, unknown> = {}, asideMs?: number) {
    const server = await newSlack();
    const at = { token: server.token, channel: 'C024BE91L', apiUrl: `${server.origin}/api` };
    const fields = channelOf({ kind: 'slack', ...at, ...MENTIONS, ...over });
    return { server, channel: createSlackChannel('it', fields, loopbackEgress(), {}, asideMs) };
  }

  test('the wire format: plain text for foreign words, mentions and links of ours alone', async () => {
    const { server, channel } = await slack();
    await channel.send(message({ requests: [request({ tool: '<!channel>' })] }));
    const [post] = server.posts;
    expect(post?.body).toMatchObject({
      channel: 'C024BE91L',
      text: 'A call waits for a decision: bank/&lt;!channel&gt;',
      unfurl_links: false,
      metadata: { event_type: 'countersign_message', event_payload: { id: `msg_${'a'.repeat(64)}` } },
      blocks: [
        { type: 'header', text: { type: 'plain_text', emoji: false } },
        { type: 'section', text: { type: 'plain_text', emoji: false } },
        {
          type: 'context',
          elements: [{ type: 'mrkdwn', text: '<https://approvals.example.com/runs/run-1|Open the request>' }],
        },
        { type: 'context', elements: [{ type: 'mrkdwn', text: '<!subteam^S0614TZR7> <@U024BE7LH>' }] },
      ],
    });
    expect(server.problems).toEqual([]);
  });

  test('a message whose answer was lost is found by its id, and not posted again, in a thread too', async () => {
    const { server, channel } = await slack();
    server.loseNextAnswer();
    await expect(channel.send(message())).rejects.toMatchObject({ code: 'MESSAGE_UNDELIVERED' });
    const { thread = '' } = await channel.send(message({ repeated: true }));
    expect(server.posts).toHaveLength(1);
    const next = message({ id: `msg_${'f'.repeat(64)}`, thread, event: 'closed' });
    await channel.send(next);
    expect(await channel.send({ ...next, repeated: true })).toEqual({ thread });
    expect(server.posts).toHaveLength(2);
  });

  test('a message is found among others that are as large as they may be', async () => {
    const { server, channel } = await slack();
    const large = Array.from({ length: 12 }, (_, index) =>
      request({ callId: `t1.c${index}`, explain: Array.from({ length: 9 }, () => '"'.repeat(300)) }),
    );
    const sent = Array.from({ length: 49 }, (_, index) => message({ id: `msg_${index}`, requests: large }));
    for (const each of sent) await channel.send(each);
    server.loseNextAnswer();
    await expect(channel.send(message({ requests: large }))).rejects.toMatchObject({ code: 'MESSAGE_UNDELIVERED' });
    await channel.send(message({ requests: large, repeated: true }));
    expect(server.posts).toHaveLength(50);
  });

  test('a page that something before Slack sends in its place is no refusal', async () => {
    const { server, channel } = await slack();
    server.become('replaced');
    await expect(channel.send(message())).rejects.toMatchObject({ code: 'MESSAGE_UNDELIVERED' });
    server.become('well');
    await channel.send(message({ repeated: true }));
    expect(server.posts).toHaveLength(1);
  });

  test.each([undefined, 'limited'] as const)('who cannot look posts a repeated message (%s)', async (how) => {
    const { server, channel } = await slack();
    server.forbidReading(how);
    await channel.send(message({ repeated: true }));
    expect(server.posts).toHaveLength(1);
  });

  test('F16: where reading hangs, a try comes to its end before the next, which would post once more', async () => {
    const { server, channel } = await slack({ buttons: true, timeoutSeconds: 30 }, 100);
    server.forbidReading('silent');
    const closed = request({ closed: { status: 'approved', by: 'ben' } });
    const last = message({ event: 'closed', thread: '1700000000.000100', requests: [closed], repeated: true });
    expect(await channel.send(last)).toEqual({ thread: '1700000000.000100' });
    expect(server.posts).toHaveLength(1);
  });

  test('a digest with news of many kinds stays within Slack’s limits', async () => {
    const { server, channel } = await slack();
    const events = ['opened', 'reminder', 'escalation', 'expiring', 'unknown'] as const;
    await channel.send(digest(events.map((event, index) => request({ event, callId: `t1.c${index}` }))));
    const many = events.flatMap((event) => Array.from({ length: 10 }, () => request({ event })));
    await channel.send(digest(many, { id: `msg_${'f'.repeat(64)}`, more: 950 }));
    expect(server.posts).toHaveLength(2);
    expect(server.posts[0]?.texts[1]).toMatch(/^A call waits for a decision; Reminder: .*… \(\d+ more characters\)$/);
    expect(server.problems).toEqual([]);
  });

  test.each([
    ['<html>back soon', 'MESSAGE_UNDELIVERED'],
    ['\n<!doctype html><p>ok', 'MESSAGE_UNDELIVERED'],
    ['{"ok":false,"error":"service_unavailable"}', 'MESSAGE_UNDELIVERED'],
    ['{"ok":false,"error":"team_added_to_org"}', 'MESSAGE_UNDELIVERED'],
    ['{"ok":false,"error":"no_text"}', 'MESSAGE_REFUSED'],
  ])('an incoming webhook that answers 200 with %j has not taken the message', async (body, code) => {
    const hook = await listenOnLoopback((_, response) => response.end(body));
    closing.push(hook.close);
    const fields = channelOf({ kind: 'slack-webhook', webhookUrl: hook.origin });
    const channel = createSlackWebhookChannel('it', fields, loopbackEgress());
    await expect(channel.send(message())).rejects.toMatchObject({ code });
  });

  test.each(['ok', 'ok\n', '{"ok":true}', '{"success":true}', 'Accepted', ''])(
    'one that answers %j has taken it',
    async (body) => {
      const hook = await listenOnLoopback((_, response) => response.end(body));
      closing.push(hook.close);
      const fields = channelOf({ kind: 'slack-webhook', webhookUrl: hook.origin });
      expect(await createSlackWebhookChannel('it', fields, loopbackEgress()).send(message())).toEqual({});
    },
  );

  test('requests that are long are as many as Slack takes, and the others are counted', async () => {
    const { server, channel } = await slack({ people: { ann: 'U024BE7LH' } });
    const long = (index: number) =>
      request({ callId: `t1.c${index}`, explain: ['&'.repeat(300)], arguments: `"${'x'.repeat(498)}"` });
    await channel.send(message({ requests: Array.from({ length: 20 }, (_, index) => long(index)) }));
    await channel.send(
      message({ requests: [request({ explain: Array.from({ length: 40 }, () => '&'.repeat(300)) })] }),
    );
    expect(server.problems).toEqual([]);
    expect(server.posts[0]?.texts.filter((text) => text.includes('t1.c')).length).toBeGreaterThan(2);
    expect(server.posts[0]?.texts).toContainEqual(expect.stringMatching(/^and \d+ more$/));
    expect(server.posts[1]?.texts.join()).toContain('t1.c0');
  });

  test.each([400, 500])('so it is with buttons below arguments of %d characters', async (size) => {
    const { server, channel } = await slack({ buttons: true });
    const tool = { server: 'payments-production', tool: 'transfer_money_between_accounts' };
    const answerable = { digest: 'd'.repeat(64), runId: 'r'.repeat(36), isWhole: true };
    const requests = Array.from({ length: 12 }, (_, index) =>
      request({ ...tool, callId: `t1.c${index}`, arguments: `"${'x'.repeat(size - 2)}"`, answerable }),
    );
    await channel.send(message({ requests }));
    expect(server.problems).toEqual([]);
    expect(server.posts[0]?.texts.join()).toContain('Approve');
  });

  test('people are mentioned as policy compares ids, and so many as a block holds', async () => {
    const server = await newSlack();
    const people = Object.fromEntries(
      Array.from({ length: 300 }, (_, index) => [`p${index}`, `U${1_000_000 + index}`]),
    );
    const fields = channelOf({ kind: 'slack-webhook', webhookUrl: server.origin, people });
    const channel = createSlackWebhookChannel('it', fields, loopbackEgress(), { idCase: 'ignored' });
    await channel.send(message({ to: { ids: ['P7'], groups: [] } }));
    await channel.send(message({ to: { ids: Object.keys(people), groups: [] } }));
    expect(server.posts[0]?.texts).toContain('<@U1000007>');
    expect(server.posts[1]?.texts.at(-1)).toMatch(/> and 220 more$/);
    expect(server.problems).toEqual([]);
  });
});
