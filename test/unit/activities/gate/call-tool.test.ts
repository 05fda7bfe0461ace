/** A call whose outcome its worker does not know is no success in Temporal UI (INV-X1). */
import { expect, test } from '@jest/globals';
import { failingWhereLost } from '../../../../activities/gate/call-tool.ts';
import type { DispatchResult } from '../../../../contracts/wire/tools.ts';

const tell = async (result: DispatchResult): Promise<unknown> =>
  await failingWhereLost(async () => result)({ callId: 't1.c0' });

test('an unknown outcome is a failure that is not tried again, with all that is known as its detail', async () => {
  const outcome = { kind: 'unknown', code: 'OUTCOME_UNKNOWN', message: 'lost with secrets of a server' } as const;
  const result: DispatchResult = { kind: 'ended', outcome, sent: { at: '2026-01-01T00:00:00.000Z' } };
  await expect(tell(result)).rejects.toMatchObject({
    type: 'OUTCOME_UNKNOWN',
    nonRetryable: true,
    // Temporal does not encrypt messages of failures.
    message: 'What became of call t1.c0 is not known; it may have run.',
    details: [result],
  });
});

test('every other ending is a result, a failure of the tool too', async () => {
  const results: readonly DispatchResult[] = [
    { kind: 'ended', outcome: { kind: 'failed', code: 'TOOL_FAILED', message: 'm', executed: true } },
    { kind: 'refused', code: 'POLICY_DENIED', message: 'm' },
  ];
  for (const result of results) expect(await tell(result)).toBe(result);
});
