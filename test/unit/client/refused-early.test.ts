/** What is refused before Temporal is asked anything. */
import { expect, test } from '@jest/globals';
import type { Client } from '@temporalio/client';
import { Countersign } from '../../../client/index.ts';

test('a change of a catalog that no payload could hold is refused before it is sent', async () => {
  // Sound, here and below: of a client nothing is used.
  const changes = Array.from({ length: 1_000 }, (_, index) => ({
    tool: `tool-${index}`,
    approvers: { ids: Array.from({ length: 10 }, (__, id) => `${'a'.repeat(150)}${id}`) },
  }));
  const sent = new Countersign({ client: {} as Client })
    .catalog('bank')
    .setToolPolicies({ by: { id: 'ann' }, expectedVersion: 1, changes });
  await expect(sent).rejects.toMatchObject({ code: 'LIMIT_REACHED', facts: { limit: 'message' } });
});

test.each(['catalog/default/files', 'digest/default/desk'])('a run is not started under the id %s', async (runId) => {
  const countersign = new Countersign({ client: {} as Client });
  const spec = { agent: { name: 'clerk', model: 'main' }, input: 'Do it.', initiator: { id: 'ann' } };
  await expect(countersign.startRun({ runId, spec })).rejects.toMatchObject({
    code: 'SPEC_INVALID',
    facts: { path: 'runId' },
  });
});

test.each([
  ['SECRET_IN_SPEC', { authorization: { tickets: 'Bearer canary-1' } }],
  ['AUTHORIZATION_IN_HEADERS', { servers: [{ name: 'tickets', headers: { Authorization: 'Bearer canary-1' } }] }],
])('%s: of a secret that was not sent nobody is told that it is in history', async (code, over) => {
  const countersign = new Countersign({ client: {} as Client });
  const spec = { agent: { name: 'clerk', model: 'main' }, input: 'Do it.', initiator: { id: 'ann' }, ...over };
  const refused = await countersign.startRun({ runId: 'run-1', spec }).catch((error: unknown) => error);
  expect(refused).toMatchObject({ code, message: expect.stringContaining('Nothing was started') });
  expect(String(refused)).not.toMatch(/in the history|rotate|canary/);
});

test('without an id no run is started, read or decided, and the error says what is missing', async () => {
  const countersign = new Countersign({ client: {} as Client });
  const spec = { agent: { name: 'clerk', model: 'main' }, input: 'Do it.', initiator: { id: 'ann' } };
  // Sound: so a caller without types sends what a request did not have.
  for (const runId of ['', undefined as unknown as string]) {
    await expect(countersign.startRun({ runId, spec })).rejects.toMatchObject({
      code: 'SPEC_INVALID',
      facts: { path: 'runId' },
    });
    expect(() => countersign.run(runId)).toThrow(
      expect.objectContaining({ code: 'USAGE', message: expect.stringContaining('id of the run is missing') }),
    );
  }
  // Sound: as above.
  const none = { runId: 'run-1' } as unknown as Parameters<Countersign['startRun']>[0];
  await expect(countersign.startRun(none)).rejects.toMatchObject({ code: 'SPEC_INVALID' });
});

test('a call or spec that holds itself is refused, and does not take the memory of the process', async () => {
  const countersign = new Countersign({ client: {} as Client });
  // Sound: so a caller without types gives an object of an ORM.
  const order: Record<string, never> = {};
  Object.assign(order, { lines: [{ order }] });
  const call = { server: 'ledger', tool: 'book', arguments: { order }, initiator: { id: 'ann' } };
  await expect(countersign.call({ runId: 'call-1', call })).rejects.toMatchObject({
    code: 'SPEC_INVALID',
    facts: { path: 'arguments.order.lines[0].order' },
  });
  const spec = { agent: { name: 'clerk', model: 'main' }, input: 'Do it.', initiator: { id: 'ann' }, policy: order };
  await expect(countersign.startRun({ runId: 'run-1', spec })).rejects.toMatchObject({
    code: 'SPEC_INVALID',
    facts: { path: 'policy.lines[0].order' },
  });
});
