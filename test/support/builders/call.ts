import { callIdOf } from '../../../contracts/names.ts';
import type { ProposedCall } from '../../../contracts/schemas/call.ts';

export function proposedCall(over: Partial<ProposedCall> = {}): ProposedCall {
  return {
    callId: callIdOf(1, 0),
    providerCallId: 'call_0',
    name: 'files__write_file',
    arguments: { path: 'notes.txt', content: 'hello' },
    ...over,
  };
}

/** Makes calls of one turn with the same tool and arguments: only the id tells them apart. */
export function identicalCalls(count: number, turn = 1): ProposedCall[] {
  return Array.from({ length: count }, (_, index) =>
    proposedCall({ callId: callIdOf(turn, index), providerCallId: `call_${index}` }),
  );
}
