/** The calls of a model step (B-17: no call is lost, none is made up). */
import { describe, expect, test } from '@jest/globals';
import type { AssistantPart } from '../../../../contracts/schemas/transcript.ts';
import { callsOf } from '../../../../domain/state/run.ts';
import { identicalCalls, proposedCall } from '../../../support/builders/call.ts';

function part(call = proposedCall()): AssistantPart {
  return { type: 'call', ...call };
}

describe('calls of a step', () => {
  test('are its call parts, in the order of the proposal, whatever stands between them', () => {
    const [first, second] = identicalCalls(2);
    const parts: AssistantPart[] = [
      { type: 'reasoning', text: 'hm' },
      part(second),
      { type: 'text', text: 'and' },
      part(first),
    ];
    expect(callsOf({ parts })).toEqual([second, first]);
  });

  test('a call whose arguments were no JSON object keeps the reason, and only that call', () => {
    const parts = identicalCalls(2).map(part);
    expect(callsOf({ parts, malformed: { 't1.c1': 'no JSON' } })).toEqual([
      proposedCall(),
      proposedCall({ callId: 't1.c1', providerCallId: 'call_1', malformed: 'no JSON' }),
    ]);
  });

  test('what a provider keeps beside a part is no part of the call', () => {
    expect(callsOf({ parts: [{ type: 'call', ...proposedCall(), provider: { signature: 'x' } }] })).toEqual([
      proposedCall(),
    ]);
  });

  test('a step without calls has none', () => {
    expect(callsOf({ parts: [{ type: 'text', text: 'done' }] })).toEqual([]);
  });
});
