/** What only reads has sent no message: where no answer comes in time, it says so, and to ask again. */
import { expect, test } from '@jest/globals';
import { Metadata, status as grpcStatus } from '@grpc/grpc-js';
import { Countersign } from '../../../../client/index.ts';
import { fakeClient } from '../../../support/servers/fake-client.ts';
import { withCode } from '../../../support/refusal.ts';

const late = Object.assign(new Error('late'), {
  code: grpcStatus.DEADLINE_EXCEEDED,
  details: 'Deadline exceeded',
  metadata: new Metadata(),
});
const describe = async (): Promise<never> => await Promise.reject(late);

const countersign = new Countersign({ client: fakeClient({ workflow: { getHandle: () => ({ describe }) } }) });

const target = { url: 'https://tickets.example.com/mcp', key: { kty: 'EC' } };

test.each<[string, () => Promise<unknown>]>([
  [
    'the run of a fresh grant',
    () => countersign.run('run-1').sealGrant({ server: 'tickets', authorization: 'a-token', target }),
  ],
  ['the run of an export', () => countersign.run('run-1').ledgerLines().next()],
  [
    'the last catalog of a server',
    () => countersign.catalog('tickets').connect({ by: { id: 'ann' }, url: target.url }),
  ],
  ['the ticket of a call', () => countersign.tickets(60).find('gate/ticket')],
])('%s', async (_, read) => {
  await expect(read()).rejects.toMatchObject(withCode('ENGINE_UNAVAILABLE', 'was not read in time'));
});
