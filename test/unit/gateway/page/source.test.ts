/** What of a conversation somebody reads who is asked about single calls. */
import { expect, test } from '@jest/globals';
import type { Message } from '../../../../contracts/schemas/transcript.ts';
import { shareOf } from '../../../../gateway/inbox/records.ts';

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
