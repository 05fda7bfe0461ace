/** In trust mode `signed` people are told as well, by answers that a worker of the zone has proven (I-1, D-7). */
import { expect, test } from '@jest/globals';
import { MESSAGE_SECRET, startMessageReceiver } from '../support/servers/message-receiver.ts';
import { person, service } from '../support/signing/people.ts';
import { until } from '../support/until.ts';
import { useBank } from '../support/world/bank-world.ts';
import { openRequests } from '../support/world/world.ts';
import { during } from '../support/world/during.ts';

const backend = service('backend-1', ['ops']);

const receiver = during(() => startMessageReceiver());
const { world } = useBank(
  () => {
    const hook = { kind: 'webhook' as const, url: receiver.url, secret: MESSAGE_SECRET };
    return {
      notify: { channels: { hook, rounds: { ...hook, digest: { seconds: 1 } } } },
      policy: { approvers: { ids: ['acme|ann'] }, notify: [{ channel: 'hook' }, { channel: 'rounds' }] },
    };
  },
  { trusted: [backend, person('ann-1', 'ann')], client: { signer: backend.signer } },
);

test('a signed run tells of its requests, and believes that they were told', async () => {
  const run = await world.start(
    [{ calls: [{ tool: 'bank/pay', arguments: { purpose: MESSAGE_SECRET } }] }, { text: 'done' }],
    { initiator: { id: 'acme|ann' } },
  );
  await openRequests(run);
  await until(async () => (await run.state()).messages?.sent === 2, { what: 'a message that is believed' });
  const [told] = receiver.of(run.runId);
  expect(told?.message).toMatchObject({ type: 'request.opened', data: { to: { ids: ['acme|ann'] } } });
  // INV-S1: the model has proposed what is a secret of this deployment.
  expect(told?.body).not.toContain(MESSAGE_SECRET.slice('whsec_'.length));
  const [digest] = await until(() => receiver.digests.length > 0 && receiver.digests, { what: 'a digest' });
  expect(digest?.message.data.requests).toMatchObject([{ event: 'opened', run: run.runId }]);
  expect(digest?.body).not.toContain(MESSAGE_SECRET.slice('whsec_'.length));
  await run.stop({ by: 'acme|ann', reason: 'told' });
  await run.result();
  expect(receiver.of(run.runId).map(({ message }) => message.type)).toEqual(['request.opened', 'request.closed']);
});
