/** A worker is killed (SIGKILL) while a receiver has its message and has not answered (F1, F16, INV-D3). */
import { expect, test } from '@jest/globals';
import { startFaultWorld } from '../support/faults/world.ts';
import { MESSAGE_SECRET, startMessageReceiver } from '../support/servers/message-receiver.ts';
import { startRecordingServer } from '../support/servers/recording-server.ts';
import { until } from '../support/until.ts';
import { replayOwn } from '../support/world/run-record.ts';
import { decideNext, openRequests } from '../support/world/world.ts';
import { during } from '../support/world/during.ts';

/** Longer than one try may take, on a busy machine. */
const RECOVERY_MS = 180_000;

const bank = during(() => startRecordingServer());
const receiver = during(() => startMessageReceiver());
const world = during(() =>
  startFaultWorld({
    config: {
      servers: { bank: { url: bank.url, credentials: { kind: 'none' } } },
      notify: {
        channels: { hook: { kind: 'webhook', url: receiver.url, secret: MESSAGE_SECRET, timeoutSeconds: 30 } },
      },
      policy: { approvers: { ids: ['ann'] }, notify: [{ channel: 'hook', on: ['opened', 'closed'] }] },
      models: {
        paying: {
          provider: 'scripted',
          script: { steps: [{ calls: [{ tool: 'bank/pay', arguments: { purpose: 'p' } }] }, { text: 'Done.' }] },
        },
      },
    },
  }),
);

test(
  'the next worker sends the message with the id that the receiver has, and nothing is told twice',
  async () => {
    receiver.answer(() => undefined);
    const worker = await world.startWorker();
    const run = await world.start('paying');
    await openRequests(run);
    await until(() => receiver.turnedAway.length === 1, { what: 'a message under way' });
    await worker.kill();
    receiver.answer();
    await world.startWorker();
    await until(() => receiver.received.length >= 1, { what: 'the message again', withinMs: RECOVERY_MS });
    expect(receiver.received[0]?.id).toBe(receiver.turnedAway[0]?.id);
    await decideNext(run, 'ann');
    await run.result();
    const all = [...receiver.turnedAway, ...receiver.received];
    expect(new Set(all.map(({ id, message }) => `${message.type} ${id}`)).size).toBe(2);
    expect(receiver.of(run.runId).map(({ message }) => message.type)).toEqual(['request.opened', 'request.closed']);
    await replayOwn(world, run.runId);
  },
  RECOVERY_MS,
);
