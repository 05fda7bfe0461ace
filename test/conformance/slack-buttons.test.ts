/** What stands under a request in a message of Slack, and what it binds; `gateway-slack.slow.test.ts` presses it. */
import { afterAll, describe, expect, test } from '@jest/globals';
import { createSlackChannel } from '../../activities/notify/slack.ts';
import { SlackChannel } from '../../contracts/schemas/channels.ts';
import { type Fields, isFields } from '../../domain/shapes/inputs.ts';
import { loopbackEgress } from '../support/egress.ts';
import { startSlackServer } from '../support/servers/slack-server.ts';
import { message, request } from './notify.suite.ts';

const closing: (() => Promise<void>)[] = [];
afterAll(async () => void (await Promise.all(closing.map(async (close) => close()))));

async function slack(over: object = {}) {
  const server = await startSlackServer();
  closing.push(server.close);
  const at = { token: server.token, channel: 'C024BE91L', apiUrl: `${server.origin}/api` };
  const fields = SlackChannel.parse({ kind: 'slack', ...at, ...over });
  return { server, channel: createSlackChannel('it', fields, loopbackEgress()) };
}

describe('buttons in messages of Slack', () => {
  const answerable = { digest: 'd'.repeat(64), runId: 'temporal-run-1', isWhole: true };
  const actionsIn = ({ body }: { readonly body: Fields }): readonly Fields[] =>
    (Array.isArray(body['blocks']) ? body['blocks'].filter(isFields) : []).filter(({ type }) => type === 'actions');

  test('stand under a request, bind what it shows, and ask once more', async () => {
    const { server, channel } = await slack({ buttons: true });
    expect(channel.hasButtons).toBe(true);
    await channel.send(message({ requests: [request({ answerable })] }));
    const [post] = server.posts;
    const value = JSON.stringify({ run: 'run-1', callId: 't1.c0', digest: 'd'.repeat(64), runId: 'temporal-run-1' });
    const confirm = { text: { type: 'plain_text', text: 'bank/pay, call t1.c0' } };
    expect(actionsIn(post ?? { body: {} })).toMatchObject([
      {
        elements: [
          { type: 'button', action_id: 'countersign_approve', style: 'primary', value, confirm },
          { type: 'button', action_id: 'countersign_reject', style: 'danger', value, confirm },
        ],
      },
    ]);
    expect(server.problems).toEqual([]);
  });

  test('approve nothing that is not shown whole', async () => {
    const { server, channel } = await slack({ buttons: true });
    await channel.send(message({ requests: [request({ answerable: { ...answerable, isWhole: false } })] }));
    await channel.send(
      message({ requests: [request({ answerable, explain: Array.from({ length: 12 }, () => 'x'.repeat(290)) })] }),
    );
    for (const post of server.posts) {
      expect(actionsIn(post)).toMatchObject([{ elements: [{ action_id: 'countersign_reject' }] }]);
      expect(post.texts).toContain('Not all arguments are shown here. To approve, open the request.');
    }
    expect(server.posts).toHaveLength(2);
  });

  test('are left out where nothing can be bound, and where it is too long for one', async () => {
    const { server, channel } = await slack({ buttons: true });
    await channel.send(message());
    const run = { ...request().run, workflowId: 'r'.repeat(2_000) };
    await channel.send(message({ run, requests: [request({ answerable })] }));
    expect(server.posts.flatMap(actionsIn)).toEqual([]);
    expect(server.posts).toHaveLength(2);
    expect((await slack()).channel.hasButtons).toBe(false);
  });

  test('many requests with buttons stay within Slack’s limits', async () => {
    const { server, channel } = await slack({ buttons: true });
    const part = { ...answerable, isWhole: false };
    await channel.send(message({ requests: Array.from({ length: 20 }, () => request({ answerable: part })) }));
    // A name whose characters are written out is long.
    await channel.send(message({ requests: [request({ answerable, tool: '\u0645'.repeat(100) })] }));
    expect(server.posts).toHaveLength(2);
    expect(server.problems).toEqual([]);
  });

  const HEX = { first: '1'.repeat(64), second: '2'.repeat(64) };
  const asks = (callId: string, digest: string) => request({ callId, answerable: { ...answerable, digest } });
  const closes = message({
    id: `msg_${'c'.repeat(64)}`,
    event: 'closed',
    requests: [request({ callId: 't1.c0', closed: { status: 'approved', by: 'ben <@U1>' } })],
  });

  test('leave the thread when their request is decided elsewhere, and those of other requests stay', async () => {
    const { server, channel } = await slack({ buttons: true });
    const requests = [asks('t1.c0', HEX.first), asks('t1.c1', HEX.second)];
    const { thread = '' } = await channel.send(message({ requests }));
    await channel.send(message({ id: `msg_${'b'.repeat(64)}`, event: 'reminder', thread, requests }));
    // The same call of another run, told in the same channel.
    const other = { ...request().run, workflowId: 'run-2' };
    await channel.send(
      message({ id: `msg_${'d'.repeat(64)}`, thread, run: other, requests: [requests[0] ?? request()] }),
    );
    await channel.send({ ...closes, thread });
    expect(server.posts).toHaveLength(4);
    for (const post of server.posts.slice(0, 2)) {
      expect(JSON.stringify(actionsIn(post))).not.toContain(HEX.first);
      expect(JSON.stringify(actionsIn(post))).toContain(HEX.second);
      // Words of others are no mention.
      expect(post.texts).toContain('approved by ben &lt;@U1&gt;');
      expect(post.texts.join()).toContain('{"amount"');
    }
    expect(JSON.stringify(actionsIn(server.posts[2] ?? { body: {} }))).toContain(HEX.first);
    expect(server.problems).toEqual([]);
  });

  test('leave the thread, too, if the try that posted the news has ended before it could take them out', async () => {
    const { server, channel } = await slack({ buttons: true });
    const { thread = '' } = await channel.send(message({ requests: [asks('t1.c0', HEX.first)] }));
    server.loseNextAnswer();
    await expect(channel.send({ ...closes, thread })).rejects.toThrow();
    expect(JSON.stringify(server.posts[0]?.body)).toContain(HEX.first);
    expect(await channel.send({ ...closes, thread, repeated: true })).toEqual({ thread });
    expect(server.posts).toHaveLength(2);
    expect(JSON.stringify(server.posts[0]?.body)).not.toContain(HEX.first);
  });

  test.each([undefined, 'limited'] as const)(
    'stay where the bot may not read, and the news still comes (%s)',
    async (how) => {
      const { server, channel } = await slack({ buttons: true });
      const { thread = '' } = await channel.send(message({ requests: [asks('t1.c0', HEX.first)] }));
      server.forbidReading(how);
      expect(await channel.send({ ...closes, thread })).toEqual({ thread });
      expect(server.posts).toHaveLength(2);
      expect(JSON.stringify(actionsIn(server.posts[0] ?? { body: {} }))).toContain(HEX.first);
    },
  );
});
