/**
 * Finds calls that were sent in history that a reset has discarded.
 *
 * Such a call is a lost answer (INV-X1). A person is asked what became of it, as for every lost answer, and nothing is
 * sent before.
 */
import type { DispatchInput, DispatchResult } from '../../contracts/wire/tools.ts';
import { describeForgotten, describeSend } from '../../domain/history/discarded-send.ts';
import type { ReadDiscarded } from '../run/discarded-tail.ts';
import type { Scheduler } from '../kit/scheduler.ts';

/**
 * @param isRepeatable true if the operator calls the tool repeatable
 * @throws CountersignError `ENGINE_UNAVAILABLE`
 */
export async function lostInReset(
  input: DispatchInput,
  { workflowId, runId }: Pick<Scheduler, 'workflowId' | 'runId'>,
  isRepeatable: boolean,
  readDiscarded: ReadDiscarded | undefined,
): Promise<Extract<DispatchResult, { kind: 'ended' }> | undefined> {
  // A retry decision was proven before; it belongs to this run and not to the discarded history.
  if (isRepeatable || input.retry !== undefined || workflowId === undefined || runId === undefined) return undefined;
  const discarded = await readDiscarded?.(workflowId, runId, input);
  if (discarded === undefined) return undefined;
  if (discarded.kind === 'forgotten') return { kind: 'ended', outcome: unknown(describeForgotten()) };
  const { send } = discarded;
  return {
    kind: 'ended',
    outcome: unknown(describeSend(input.callId, send)),
    sent: { at: new Date(send.at).toISOString() },
  };
}

function unknown(message: string): Extract<DispatchResult, { kind: 'ended' }>['outcome'] {
  return { kind: 'unknown', code: 'OUTCOME_UNKNOWN', message };
}
