/**
 * A digest to which much comes continues as new, within its time, and tells what the executions before it had gathered
 * (docs/adr/0086), on a real server that suggests it early (INV-D3).
 */
import type { ServerResponse } from 'node:http';
import { afterEach, expect, jest, test } from '@jest/globals';
import { createHandOver } from '../../activities/notify/digest.ts';
import type { Digest, Gathered } from '../../contracts/schemas/notify.ts';
import { digestIdOf } from '../../domain/request/gathering.ts';
import { hashOf } from '../../domain/text/canonical.ts';
import { MESSAGE_SECRET, startMessageReceiver } from '../support/servers/message-receiver.ts';
import { until } from '../support/until.ts';
import { decideNext, openRequests, useEngine } from '../support/world/world.ts';
import { during } from '../support/world/during.ts';
import { useBank } from '../support/world/bank-world.ts';

const engine = useEngine({ dynamicConfig: ['limit.historyCount.suggestContinueAsNew=60'] });
const receiver = during(() => startMessageReceiver());
const { world } = useBank(
  () => ({
    taskQueue: 'digests',
    notify: {
      channels: {
        desk: { kind: 'webhook', url: receiver.url, secret: MESSAGE_SECRET, digest: { seconds: WINDOW_SECONDS } },
        hall: {
          kind: 'webhook',
          url: receiver.url,
          secret: MESSAGE_SECRET,
          timeoutSeconds: 30,
          digest: { seconds: 2 },
        },
      },
    },
    policy: {
      rules: [
        {
          id: 'hall',
          when: 'args.to == "hall"',
          then: 'ask',
          approvers: { ids: ['ben'] },
          notify: [{ channel: 'hall' }],
        },
      ],
      approvers: { ids: ['ben'] },
      notify: [{ channel: 'desk' }],
    },
  }),
  { engine },
);

afterEach(() => receiver.answer());

jest.setTimeout(180_000);

/** Longer than it takes to hand over on a busy machine. */
const WINDOW_SECONDS = 40;
const TO = { ids: ['ben'], groups: [] };
const DIGEST: Digest = { tenant: 'default', channel: 'desk', to: TO, seconds: WINDOW_SECONDS };

/** What nobody can read any more: it fills the history, and is not told. */
function gone(index: number): Gathered {
  const run = `gone-${index}`;
  return { key: hashOf(run), run, event: 'opened', calls: [{ callId: 't1.c0', generation: 1 }] };
}

/** Ten at a time, until Temporal suggests another execution. */
async function handOverGone(digest: Digest): Promise<void> {
  const handOver = createHandOver(world.client, world.config.taskQueue);
  for (let from = 0; from < 60; from += 10)
    await Promise.all(
      Array.from({ length: 10 }, async (_, index) => await handOver(digest, gone(from + index), false)),
    );
}

test('what came before is told once, and is known when it is handed over again', async () => {
  const run = await world.start([{ calls: [{ tool: 'bank/pay', arguments: { to: 'desk' } }] }, { text: 'done' }]);
  await openRequests(run);
  const digest = world.client.workflow.getHandle(digestIdOf(DIGEST));
  const first = await until(async () => await digest.describe().catch(() => undefined), { what: 'a digest' });
  const handOver = createHandOver(world.client, world.config.taskQueue);
  await handOverGone(DIGEST);
  const execution = world.client.workflow.getHandle(first.workflowId, first.runId, {
    firstExecutionRunId: first.runId,
  });
  await until(async () => (await execution.describe()).status.name === 'CONTINUED_AS_NEW', {
    what: 'its next execution',
  });
  // Nothing was told before the time was over.
  expect(receiver.digests).toEqual([]);
  const keys: unknown = await digest.result();
  expect(receiver.digests.map(({ message }) => message.data.requests.map((each) => each.run))).toEqual([[run.runId]]);
  expect(keys).toHaveLength(61);
  await handOver(DIGEST, gone(0), true);
  expect((await digest.describe()).status.name).toBe('COMPLETED');
  // Its time is that of the first execution.
  const { events } = await digest.fetchHistory();
  const [rest] = (events ?? []).flatMap(({ timerStartedEventAttributes: timer }) => timer?.startToFireTimeout ?? []);
  expect(Number(rest?.seconds)).toBeLessThan(WINDOW_SECONDS);
  await decideNext(run, 'ben');
  await run.result();
});

test('a message that is refused fails its digest at the end, also where other executions follow', async () => {
  const held: ServerResponse[] = [];
  receiver.answer((_, response) => void held.push(response));
  const pay = { calls: [{ tool: 'bank/pay', arguments: { to: 'hall' } }] };
  const run = await world.start([pay, { text: 'done' }]);
  await openRequests(run);
  const isTold = () => receiver.digests.some(({ message }) => message.data.requests[0]?.run === run.runId);
  await until(isTold, { what: 'the message that is to be refused' });
  const hall = { ...DIGEST, channel: 'hall', seconds: 2 };
  const digest = world.client.workflow.getHandle(digestIdOf(hall));
  const { runId } = await digest.describe();
  await handOverGone(hall);
  receiver.answer((_, response) => void response.writeHead(403).end());
  for (const response of held) response.writeHead(403).end();
  await expect(digest.result()).rejects.toMatchObject({ cause: { type: 'MESSAGE_UNDELIVERED' } });
  expect((await digest.describe()).runId).not.toBe(runId);
  await decideNext(run, 'ben');
  await run.result();
});
