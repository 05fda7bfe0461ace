/** What an MCP client is told of a run that ended without an answer: never that a call did not run, unless that is shown (INV-X2). */
import { expect, test } from '@jest/globals';
import { WorkflowFailedError } from '@temporalio/client';
import { CountersignError } from '../../../contracts/errors.ts';
import type { LedgerEntry, LedgerFact } from '../../../contracts/schemas/ledger.ts';
import type { ApprovalRequest } from '../../../contracts/schemas/request.ts';
import { Outcomes } from '../../../gateway/gate/outcomes.ts';
import { statusOf } from '../../../gateway/gate/replies.ts';
import { approvalRequest } from '../../support/builders/approval-request.ts';

const RUN = 'gate-00000000-0000-0000-0000-000000000001';
const FAILED: LedgerFact = { kind: 'run.ended', status: 'failed', code: 'DISCOVERY_FAILED' };
const SENT: LedgerFact = { kind: 'dispatched', callId: 't1.c0', attempt: 1 };
const LOST: LedgerFact = { kind: 'outcome', callId: 't1.c0', outcome: 'unknown', code: 'ANSWER_LOST', outcomeHash: '' };

/** @param facts undefined: nobody can read the ledger */
async function toldOf(error: Error, facts: readonly LedgerFact[] | undefined): Promise<string | undefined> {
  const run = {
    result: async () => await Promise.reject(error),
    ledger: async (): Promise<readonly LedgerEntry[]> => {
      if (facts === undefined) throw new CountersignError('ENGINE_UNAVAILABLE', 'away');
      // Sound: only the facts are read.
      return facts.map((fact) => ({ fact }) as LedgerEntry);
    },
    requests: async () => [],
  };
  const outcomes = new Outcomes({
    run: () => run,
    artifacts: undefined,
    pageOf: () => undefined,
  });
  const end = await outcomes.endOf(RUN, { deadlineMs: 1_000 });
  return end && statusOf(end);
}

const failed = new CountersignError(
  'DISCOVERY_FAILED',
  'The tools cannot be listed.',
  {},
  {
    cause: new WorkflowFailedError('failed', undefined, 'NON_RETRYABLE_FAILURE'),
  },
);

test.each<[string, readonly LedgerFact[] | undefined, string]>([
  ['whose ledger shows that nothing was sent', [FAILED], 'refused'],
  ['that had handed its call to a worker', [SENT, FAILED], 'unknown'],
  ['that has an outcome on record', [LOST, FAILED], 'unknown'],
  ['whose ledger does not reach its end', [], 'unknown'],
  ['whose ledger cannot be read', undefined, 'unknown'],
])('a failed run %s', async (_what, facts, status) => {
  expect(await toldOf(failed, facts)).toBe(status);
});

test.each<[Partial<ApprovalRequest>, string]>([
  [{}, 'consent'],
  [{ asItIs: true }, 'again'],
  [{ about: { kind: 'outcome', message: 'No answer.', attempt: 1 } }, 'outcome'],
  [{ about: { kind: 'input', round: 1, requests: {} } }, 'input'],
])('a call with an open request of %j waits for an answer of kind "%s" (INV-X2)', async (over, asked) => {
  const requests = [approvalRequest(), approvalRequest()].map((request, index) => ({
    ...request,
    ...(index === 0 ? { status: 'approved' as const } : over),
  }));
  const run = {
    result: async () => await Promise.reject(failed),
    ledger: async () => [],
    requests: async () => requests,
  };
  const outcomes = new Outcomes({ run: () => run, artifacts: undefined, pageOf: () => undefined });
  expect(await outcomes.pendingOf(RUN)).toMatchObject({ status: 'waiting', asked });
});

test('an error of the way to the run says nothing of the call', async () => {
  await expect(toldOf(new CountersignError('ENGINE_UNAVAILABLE', 'away'), [])).rejects.toThrow('away');
});
