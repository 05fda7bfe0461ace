/** The conversation as it is given to the AI SDK. */
import { describe, expect, test } from '@jest/globals';
import { promptOf } from '../../../../activities/models/ai-sdk.ts';
import type { Message } from '../../../../contracts/schemas/transcript.ts';
import { OPENING, succeeded } from '../../../support/models/request.ts';

const CALL = { type: 'call', callId: 't1.c0', providerCallId: 'p', name: 'x', arguments: {} } as const;
const RESULT = { callId: 't1.c0', providerCallId: 'p', name: 'x', outcome: succeeded('a') } as const;
const CALLED: Message = { role: 'assistant', parts: [CALL] };
const ANSWERED: Message = { role: 'tool', results: [RESULT] };

describe('a prompt', () => {
  test('has the opening instructions apart, and no empty ones', () => {
    const { system, messages } = promptOf([{ role: 'system', text: 'a' }, { role: 'system', text: '' }, ...OPENING]);
    expect(system.map(({ content }) => content)).toEqual(['a', 'You look after files.']);
    expect(messages).toEqual([{ role: 'user', content: 'What is in a.txt?' }]);
    expect(promptOf(OPENING.slice(0, 1)).messages).toEqual([]);
  });

  test('leaves out what providers refuse: messages and parts without content', () => {
    const hollow: Message[] = [
      { role: 'assistant', parts: [] },
      { role: 'assistant', parts: [{ type: 'text', text: '' }] },
      { role: 'tool', results: [] },
      { role: 'user', text: '' },
    ];
    expect(promptOf([...OPENING, ...hollow]).messages).toHaveLength(1);
  });

  test('keeps an empty part that the provider named', () => {
    const provider = { openai: { itemId: 'rs_1' } };
    const { messages } = promptOf([
      ...OPENING,
      { role: 'assistant', parts: [{ type: 'reasoning', text: '', provider }] },
    ]);
    expect(messages[1]).toEqual({
      role: 'assistant',
      content: [{ type: 'reasoning', text: '', providerOptions: provider }],
    });
  });

  test.each<[string, Message[]]>([
    ['a call without a result at the end', [CALLED]],
    ['a call without a result before the next words', [CALLED, { role: 'user', text: 'Well?' }, ANSWERED]],
    ['a turn with one result missing', [CALLED, { role: 'tool', results: [] }]],
    ['a result of no call', [ANSWERED]],
    ['two results of one call', [CALLED, { role: 'tool', results: [RESULT, RESULT] }]],
  ])('B-17: %s is a fault that names the call', (_, tail) => {
    expect(() => promptOf([...OPENING, ...tail])).toThrow(
      expect.objectContaining({ code: 'INTERNAL', facts: { callId: 't1.c0' } }),
    );
  });
});
