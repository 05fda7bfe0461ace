import type { Message } from '../../../contracts/schemas/transcript.ts';
import { outcomes } from './outcome.ts';

/** Makes a short conversation with one call, in which each role occurs once. */
export function conversation(): Message[] {
  const call = { callId: 't1.c0', providerCallId: 'call_0', name: 'files__write_file' };
  return [
    { role: 'system', text: 'You keep notes.' },
    { role: 'user', text: 'Tidy the notes.' },
    { role: 'assistant', parts: [{ type: 'call', ...call, arguments: { path: 'notes.txt' } }] },
    { role: 'tool', results: [{ ...call, outcome: outcomes().succeeded }] },
  ];
}
