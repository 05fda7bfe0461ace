import { describe, expect, test } from '@jest/globals';
import { inputOf } from '../../../../activities/models/responses.ts';
import type { ModelTool } from '../../../../activities/models/port.ts';
import type { Outcome } from '../../../../contracts/schemas/call.ts';
import type { Message } from '../../../../contracts/schemas/transcript.ts';
import { resultsOf } from '../../../../domain/run/turn.ts';
import type { Run } from '../../../../domain/state/run.ts';

const TOOL: ModelTool = {
  name: 'bank__pay',
  qualifiedName: 'bank/pay',
  inputSchema: { type: 'object' },
  hosted: { server: 'bank', serverUrl: 'https://bank.example/mcp', tool: 'pay' },
};
const CALL = { callId: 't1.c0', providerCallId: '', name: 'bank__pay', arguments: { amount: 5 } };
const approvalRequestId = 'mcpr_1';

/** Returns what a model reads after the call had this outcome. */
function told(outcome: Outcome): Message[] {
  const call = { ...CALL, approvalRequestId };
  // Sound: of a run, only its settled calls are read.
  const run = { calls: [{ status: 'settled', call, outcome, attempts: 0 }] } as unknown as Run;
  return [
    { role: 'user', text: 'Pay.' },
    { role: 'assistant', parts: [{ type: 'call', ...call }] },
    { role: 'tool', results: resultsOf(run) },
  ];
}

const ran: readonly Outcome[] = [
  { kind: 'succeeded', result: { content: [{ type: 'text', text: 'paid' }] } },
  { kind: 'failed', code: 'TOOL_FAILED', message: 'no funds', executed: true },
  { kind: 'unknown', code: 'OUTCOME_UNKNOWN', message: 'lost' },
];
const notRun: readonly Outcome[] = [
  { kind: 'failed', code: 'MODEL_REJECTED', message: 'no', executed: false },
  { kind: 'denied', code: 'POLICY_DENIED', message: 'no' },
  { kind: 'rejected', by: 'ann', reason: 'no' },
  { kind: 'expired', deadline: '2026-01-01T00:00:00.000Z' },
  { kind: 'cancelled', reason: 'stopped' },
  { kind: 'answered', by: 'ann', answer: 'it is paid' },
];

describe('a model step', () => {
  test.each([...ran, ...notRun])('carries no approval, whatever became of a call: $kind', (outcome) => {
    const items = inputOf(told(outcome), [TOOL]);
    expect(items.filter((item) => item['approve'] === true)).toEqual([]);
  });

  test.each(ran)('tells a call that may have run as made: $kind', (outcome) => {
    const items = inputOf(told(outcome), [TOOL]).map(({ type }) => type);
    expect(items).toEqual(['mcp_list_tools', undefined, 'mcp_call']);
  });

  test.each(notRun)('tells a call that did not run as refused, under the same id: $kind', (outcome) => {
    const [, , request, response] = inputOf(told(outcome), [TOOL]);
    expect(request).toMatchObject({ type: 'mcp_approval_request', server_label: 'bank', name: 'pay' });
    expect(response).toMatchObject({
      type: 'mcp_approval_response',
      approval_request_id: request?.['id'],
      approve: false,
      reason: expect.any(String),
    });
  });

  test('of a conversation without the result of a call is refused', () => {
    const [user, assistant] = told(ran[0] as Outcome);
    expect(() => inputOf([user, assistant] as Message[], [TOOL])).toThrow('no result of call t1.c0');
  });
});
