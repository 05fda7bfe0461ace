/** What pages take from the parts of the gateway: who reads what of a conversation, and how much waits. */
import { expect, test } from '@jest/globals';
import type { Message } from '../../../../contracts/schemas/transcript.ts';
import { shareOf } from '../../../../gateway/inbox/records.ts';
import { counted } from '../../../../gateway/page/inbox.ts';
import { pageSource } from '../../../../gateway/page/source.ts';

const call = (callId: string) =>
  ({ type: 'call', callId, providerCallId: callId, name: 'bank__pay', arguments: { secretOf: callId } }) as const;

test('the words and the own calls, no other call and no result (INV-G4)', () => {
  const messages: Message[] = [
    { role: 'system', text: 'instructions' },
    { role: 'user', text: 'task' },
    { role: 'assistant', parts: [{ type: 'reasoning', text: 'thoughts' }, call('t1.c0')] },
    {
      role: 'tool',
      results: [
        {
          callId: 't1.c0',
          providerCallId: 'x',
          name: 'bank__pay',
          outcome: { kind: 'rejected', by: 'ben', reason: 'no' },
        },
      ],
    },
    { role: 'assistant', parts: [{ type: 'text', text: 'words' }, call('t2.c0'), call('t2.c1')] },
  ];
  expect(shareOf(messages, new Set(['t2.c1']))).toEqual([
    { role: 'user', text: 'task' },
    { role: 'assistant', parts: [{ type: 'text', text: 'words' }, call('t2.c1')] },
  ]);
});

test('the inbox says so where more wait than it counts', async () => {
  const asOf = new Date(0).toISOString();
  const rowOf = (callId: string) => ({ run: 'run-1', callId, digest: 'ab'.repeat(32) });
  const inboxOf = async (count: number, next?: string) => {
    const requests = Array.from({ length: count }, (_, index) => rowOf(`t1.c${index}`));
    const asked = requests.map((row) => ({ ...row, workflowId: 'run-1' }));
    const parts = {
      reading: { requests: async () => ({ requests, asOf, ...(next && { next }) }) },
      opened: { requests: async () => asked },
      catalogs: { configured: [] },
      projection: { run: () => ({ row: { runId: 'run-1', initiator: 'ann', startedAt: asOf, status: 'waiting' } }) },
    };
    // Sound: the inbox uses nothing else of them.
    return await pageSource(parts as never, { agents: {} }).inbox({} as never, false);
  };
  expect(await inboxOf(200, 'cursor')).toMatchObject({ mine: 200, mineIsMore: true, more: 150, moreIsMore: true });
  const all = await inboxOf(60);
  expect(all).toMatchObject({ mine: 60, more: 10 });
  expect(all).not.toHaveProperty('mineIsMore');
  expect(all).not.toHaveProperty('moreIsMore');
  expect(counted(200, true)).toBe('200+');
});

test('a run that was terminated has no request that waits, although it could not close it', async () => {
  const requests = ['open', 'approved'].map((status) => ({ request: { callId: status, status } }));
  const openIn = async (row: object) => {
    const run = { runId: 'run-1', tenant: 'acme', initiator: 'ann', ...row };
    const parts = {
      reading: { seen: async () => ({ run, initiator: 'ann' }), requestsOf: async () => requests },
      opened: { story: async () => ({ state: {}, ledger: [], messages: [], messagesFrom: 0 }) },
      catalogs: { configured: [] },
    };
    // Sound: the page of a run uses nothing else of them.
    const read = await pageSource(parts as never, { agents: {} }).run({ id: 'ann', may: new Set() } as never, 'run-1');
    return read.requests.map(({ callId }) => callId);
  };
  expect(await openIn({ status: 'waiting' })).toEqual(['open', 'approved']);
  expect(await openIn({ status: 'terminated', endedAt: new Date(0).toISOString() })).toEqual(['approved']);
});
