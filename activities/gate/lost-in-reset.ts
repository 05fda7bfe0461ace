/**
 * Whether a call was sent in a part of its run's history that a reset has discarded. Then it is a lost answer (INV-X1): a person
 * is asked what became of it, as of every other one, and nothing is sent before.
 */
import type { DispatchInput, DispatchResult } from '../../contracts/wire/tools.ts';
import { describeForgotten, describeSend } from '../../domain/history/discarded-send.ts';
import type { ReadDiscarded } from '../run/discarded-tail.ts';
import type { Scheduler } from '../kit/scheduler.ts';

/**
 * @param isRepeatable by the operator's word
 * @throws CountersignError `ENGINE_UNAVAILABLE`
 */
export async function lostInReset(
  input: DispatchInput,
  { workflowId, runId }: Pick<Scheduler, 'workflowId' | 'runId'>,
  isRepeatable: boolean,
  readDiscarded: ReadDiscarded | undefined,
): Promise<Extract<DispatchResult, { kind: 'ended' }> | undefined> {
  // A word that it is sent again was proven before, and is of this run, not of what was discarded.
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
