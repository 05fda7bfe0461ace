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
    const run = { ...message().run, workflowId: 'r'.repeat(2_000) };
    await channel.send(message({ run, requests: [request({ answerable })] }));
    expect(server.posts.flatMap(actionsIn)).toEqual([]);
    expect(server.posts).toHaveLength(2);
    expect((await slack()).channel.hasButtons).toBe(false);
  });

  test('many requests with buttons stay within Slack’s limits', async () => {
    const { server, channel } = await slack({ buttons: true });
    const part = { ...answerable, isWhole: false };
    await channel.send(message({ requests: Array.from({ length: 20 }, () => request({ answerable: part })) }));
    expect(server.posts).toHaveLength(1);
    expect(server.problems).toEqual([]);
  });
});
