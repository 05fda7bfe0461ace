/**
 * The oracle of the fault suite: it checks what must be true of a run after any fault, against the tool
 * server's own log.
 *
 * 1. No call is sent without a verdict or a decision for it (INV-G1). Every accepted decision stands in the ledger once
 *    (INV-D3).
 * 2. A call that is not repeatable runs at most once, and its outcome never claims more or less than the server knows
 *    (INV-X1).
 * 3. The ledger is valid, and an ended run has one outcome for every call.
 */
import { expect } from '@jest/globals';
import { assertIntact, CountersignError, type LedgerEntry, type RunHandle } from '../../../client/index.ts';
import type { ExecutedCall } from '../servers/raw-server.ts';
import { Hopeless, until } from '../until.ts';
import { factsOf } from '../world/run-record.ts';

/** Counts how often a server acted on one call of a run, by the idempotency key that every attempt carries. */
export function executionsOf(log: readonly ExecutedCall[], { runId }: RunHandle, callId: string): number {
  return log.filter(({ headers }) => String(headers['idempotency-key']).startsWith(`${runId}/${callId}/`)).length;
}

export interface SoundOptions {
  /** Tools that the operator lists as repeatable. */
  readonly repeatable?: readonly string[];
}

/** Reads again while nobody answers: a worker that has just lost Temporal needs up to 10 s to be seen again. */
async function ledgerOf(run: RunHandle): Promise<readonly LedgerEntry[]> {
  const asked = async (): Promise<readonly LedgerEntry[] | undefined> =>
    await run.ledger().catch((error: unknown) => {
      if (error instanceof CountersignError && error.code === 'ENGINE_UNAVAILABLE') return undefined;
      throw new Hopeless('the ledger cannot be read', { cause: error });
    });
  return await until(asked, { what: `the ledger of ${run.runId}` });
}

/** @param log of every server that the run may call */
export async function expectSound(
  run: RunHandle,
  log: readonly ExecutedCall[],
  { repeatable = [] }: SoundOptions = {},
): Promise<readonly LedgerEntry[]> {
  const ledger = await ledgerOf(run);
  assertIntact(ledger, run.runId);
  const accepted = factsOf(ledger, 'decision.accepted');
  expect(new Set(accepted.map(({ decisionId }) => decisionId)).size).toBe(accepted.length);
  for (const { callId, decisionId } of factsOf(ledger, 'dispatched')) {
    const [verdict] = factsOf(ledger, 'verdict', callId);
    const consent = accepted.some(
      (made) => made.callId === callId && made.decisionId === decisionId && made.decision === 'approve',
    );
    expect({ callId, mayRun: verdict?.verdict === 'allow' || consent }).toEqual({ callId, mayRun: true });
  }
  for (const { callId, tool } of factsOf(ledger, 'verdict')) {
    const outcomes = factsOf(ledger, 'outcome', callId);
    const executions = executionsOf(log, run, callId);
    const dispatches = factsOf(ledger, 'dispatched', callId).length;
    expect({ callId, outcomes: outcomes.length }).toEqual({ callId, outcomes: 1 });
    expect(executions).toBeLessThanOrEqual(repeatable.includes(tool) ? dispatches : Math.min(1, dispatches));
    // `unknown` may be either; any other outcome is a claim.
    if (outcomes[0]?.outcome === 'succeeded') expect({ callId, ran: executions > 0 }).toEqual({ callId, ran: true });
    else if (outcomes[0]?.outcome !== 'unknown' && outcomes[0]?.code !== 'TOOL_FAILED')
      expect({ callId, executions }).toEqual({ callId, executions: 0 });
  }
  expect(factsOf(ledger, 'run.ended')).toHaveLength(1);
  return ledger;
}
