/** What is refused before Temporal is asked anything. */
import { expect, test } from '@jest/globals';
import type { Client } from '@temporalio/client';
import { assertIntact, Countersign } from '../../../client/index.ts';
import { atPath } from '../../support/refusal.ts';

// Sound: of a client nothing is used.
const countersign = new Countersign({ client: {} as Client });
const spec = { agent: { name: 'clerk', model: 'main' }, input: 'Do it.', initiator: { id: 'ann' } };
const START = { runId: 'run-1', spec };

test('a change of a catalog that no payload could hold is refused before it is sent', async () => {
  const changes = Array.from({ length: 1_000 }, (_, index) => ({
    tool: `tool-${index}`,
    approvers: { ids: Array.from({ length: 10 }, (__, id) => `${'a'.repeat(150)}${id}`) },
  }));
  const sent = countersign.catalog('bank').setToolPolicies({ by: { id: 'ann' }, expectedVersion: 1, changes });
  await expect(sent).rejects.toMatchObject({ code: 'LIMIT_REACHED', facts: { limit: 'message' } });
});

test.each([
  ['SECRET_IN_SPEC', { authorization: { tickets: 'Bearer canary-1' } }],
  ['AUTHORIZATION_IN_HEADERS', { servers: [{ name: 'tickets', headers: { Authorization: 'Bearer canary-1' } }] }],
])('%s: of a secret that was not sent nobody is told that it is in history', async (code, over) => {
  const start = { runId: 'run-1', spec: { ...spec, ...over } };
  const refused = await countersign.startRun(start).catch((error: unknown) => error);
  expect(refused).toMatchObject({ code, message: expect.stringContaining('Nothing was started') });
  expect(String(refused)).not.toMatch(/in the history|rotate|canary/);
});

test('without an id no run is started, read or decided, and the error says what is missing', async () => {
  // Sound: so a caller without types sends what a request did not have.
  for (const runId of ['', undefined as unknown as string]) {
    await expect(countersign.startRun({ runId, spec })).rejects.toMatchObject(atPath('SPEC_INVALID', 'runId'));
    expect(() => countersign.run(runId)).toThrow(
      expect.objectContaining({ code: 'USAGE', message: expect.stringContaining('id of the run is missing') }),
    );
  }
  // Sound: as above.
  const none = { runId: 'run-1' } as unknown as Parameters<Countersign['startRun']>[0];
  await expect(countersign.startRun(none)).rejects.toMatchObject({ code: 'SPEC_INVALID' });
});

/** Sound: so a caller without types, or with a wrong variable, sends it. */
const untyped = (value: unknown): never => value as never;

test.each<[name: string, code: string, path: string | undefined, act: (countersign: Countersign) => unknown]>([
  ['a client without options', 'USAGE', undefined, () => new Countersign(untyped(undefined))],
  ['a client without a client', 'USAGE', undefined, () => new Countersign(untyped({}))],
  ['a start of nothing', 'SPEC_INVALID', 'runId', (it) => it.startRun(untyped(undefined))],
  ['an empty taskQueue', 'SPEC_INVALID', 'taskQueue', (it) => it.startRun({ ...START, taskQueue: '' })],
  ['a long taskQueue', 'SPEC_INVALID', 'taskQueue', (it) => it.startRun({ ...START, taskQueue: 'q'.repeat(1_001) })],
  ['a long id', 'SPEC_INVALID', 'runId', (it) => it.startRun({ ...START, runId: 'ü'.repeat(501) })],
  ['the id of a catalog', 'SPEC_INVALID', 'runId', (it) => it.startRun({ ...START, runId: 'catalog/default/files' })],
  ['the id of a digest', 'SPEC_INVALID', 'runId', (it) => it.startRun({ ...START, runId: 'digest/default/desk' })],
  ['an unknown option', 'SPEC_INVALID', 'task_queue', (it) => it.startRun(untyped({ ...START, task_queue: 'q' }))],
  ['no taskQueue', 'SPEC_INVALID', 'taskQueue', (it) => it.startRun({ ...START, taskQueue: untyped(null) })],
  [
    'authorizations as text',
    'SPEC_INVALID',
    'authorizations',
    (it) => it.startRun({ ...START, authorizations: untyped('canary') }),
  ],
  [
    'an authorization that is no text',
    'SPEC_INVALID',
    'authorizations.tickets',
    (it) => it.startRun({ ...START, authorizations: { tickets: untyped({ token: 'canary' }) } }),
  ],
  ['a call of nothing', 'SPEC_INVALID', undefined, (it) => it.call(untyped(undefined))],
  ['one decision in place of a list', 'DECISION_INVALID', undefined, (it) => it.run('run-1').decideAll(untyped({}))],
  ['a name in place of an approver', 'USAGE', 'approver', (it) => it.waiting({ approver: untyped('canary') })],
  ['a filter that is not known', 'USAGE', 'approvers', (it) => it.waiting(untyped({ approvers: { id: 'ann' } }))],
  [
    'an approver without id and groups',
    'USAGE',
    'approver',
    (it) => it.waiting({ approver: untyped({ name: 'ann' }) }),
  ],
  ['groups as text', 'USAGE', 'approver.groups', (it) => it.waiting({ approver: { groups: untyped('canary') } })],
  ['a connection of nothing', 'CATALOG_INVALID', 'by', (it) => it.catalog('bank').connect(untyped(undefined))],
  ['a grant of nothing', 'USAGE', undefined, (it) => it.run('run-1').sealGrant(untyped(undefined))],
  ['a watch of nothing', 'USAGE', undefined, (it) => it.run('run-1').watch(untyped(null))],
  ['a result of nothing', 'USAGE', undefined, (it) => it.run('run-1').result(untyped(null))],
  ['a start looked at with nothing', 'USAGE', undefined, (it) => it.run('run-1').begun(untyped(null))],
  ['no page of a ledger', 'USAGE', undefined, (it) => it.run('run-1').ledgerEntries(untyped(undefined))],
  ['no page of messages', 'USAGE', undefined, (it) => it.run('run-1').messages(untyped(undefined))],
  ['no page of a conversation', 'USAGE', undefined, (it) => it.run('run-1').conversation(untyped(undefined))],
  ['a recovery of nothing', 'USAGE', undefined, (it) => it.run('run-1').recover(untyped(undefined))],
  ['catalogs of nothing', 'USAGE', undefined, (it) => it.catalogs(untyped(null))],
  ['catalogs of a tenant that is no text', 'USAGE', 'tenant', (it) => it.catalogs({ tenant: untyped(7) })],
  ['catalogs by a filter that is not known', 'USAGE', 'tennant', (it) => it.catalogs(untyped({ tennant: 'acme' }))],
  ['a wait for a refresh with nothing', 'USAGE', undefined, (it) => it.catalog('bank').settled(1, untyped(null))],
  ['no page of a catalog', 'USAGE', undefined, (it) => it.catalog('bank').ledgerEntries(untyped(undefined))],
  ['definitions of nothing', 'USAGE', 'snapshot', (it) => it.catalog('bank').definitions(untyped(undefined))],
  [
    'definitions of a snapshot that is not awaited',
    'USAGE',
    'snapshot',
    (it) => it.catalog('bank').definitions(untyped(Promise.resolve({}))),
  ],
  ['a ledger that is nothing', 'USAGE', 'entries', () => assertIntact(untyped(undefined), 'run-1')],
  ['a ledger that is not awaited', 'USAGE', 'entries', () => assertIntact(untyped(Promise.resolve([])), 'run-1')],
  ['a ledger of nothings', 'USAGE', 'entries', () => assertIntact(untyped([null]), 'run-1')],
  [
    'a grant for nobody',
    'USAGE',
    'target',
    (it) => it.run('run-1').sealGrant(untyped({ server: 'bank', authorization: 'canary' })),
  ],
])('%s is refused in words, and before anything is sent', async (_name, code, path, act) => {
  const refused = await Promise.resolve()
    .then(() => act(countersign))
    .catch((error: unknown) => error);
  expect(refused).toMatchObject({ code, facts: path === undefined ? {} : { path } });
  expect(String(refused)).not.toContain('canary');
});

test('a call or spec without end is refused, and takes no stack', async () => {
  let deep: Record<string, never> = {};
  // Sound: so a caller without types nests it.
  for (let level = 0; level < 5_000; level += 1) deep = { in: deep } as unknown as typeof deep;
  const call = { server: 'ledger', tool: 'book', arguments: deep, initiator: { id: 'ann' } };
  const words = { code: 'SPEC_INVALID', message: expect.stringContaining('nests deeper than 1000 levels') };
  await expect(countersign.call({ runId: 'call-1', call })).rejects.toMatchObject(words);
  const nested = { ...spec, agent: { ...spec.agent, output: deep } };
  await expect(countersign.startRun({ runId: 'run-1', spec: nested })).rejects.toMatchObject(words);
});

test('a call or spec that holds itself is refused, and does not take the memory of the process', async () => {
  // Sound: so a caller without types gives an object of an ORM.
  const order: Record<string, never> = {};
  Object.assign(order, { lines: [{ order }] });
  const call = { server: 'ledger', tool: 'book', arguments: { order }, initiator: { id: 'ann' } };
  await expect(countersign.call({ runId: 'call-1', call })).rejects.toMatchObject(
    atPath('SPEC_INVALID', 'arguments.order.lines[0].order'),
  );
  await expect(countersign.startRun({ runId: 'run-1', spec: { ...spec, policy: order } })).rejects.toMatchObject(
    atPath('SPEC_INVALID', 'policy.lines[0].order'),
  );
});
