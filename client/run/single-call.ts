/**
 * One call through the gate, for backends that bring their own loop. It is started once, as a run is (INV-D3), may wait
 * for people for as long as policy says, and has one answer.
 */
import { CountersignError } from '../../contracts/errors.ts';
import { parseAs } from '../../contracts/schemas/parse.ts';
import { CallSpec, type CallSpecInput, type RunSpecInput } from '../../contracts/schemas/run-spec.ts';
import { CallAnswer } from '../../contracts/schemas/run-state.ts';
import { runSpecOf } from '../../domain/run/single-call.ts';
import type { RunHandle } from './run-handle.ts';
import type { StartRunOptions } from './start-run.ts';

export interface CallOptions extends Omit<StartRunOptions, 'spec'> {
  readonly call: CallSpecInput;
}

/** @throws CountersignError `SPEC_INVALID` */
export function callAsRun(call: CallSpecInput): RunSpecInput {
  return runSpecOf(parseAs(CallSpec, call, 'SPEC_INVALID', 'call'));
}

/** A call under way, or over. */
export class SingleCall {
  /** The run of this call: its requests, its ledger, its stop. */
  readonly run: RunHandle;
  /** False if the same call was started before. */
  readonly started: boolean;

  constructor(run: RunHandle, started: boolean) {
    this.run = run;
    this.started = started;
  }

  /**
   * Waits for what becomes of the call.
   * @throws CountersignError `RESULT_UNCERTAIN` if it goes on at the deadline, `RUN_CANCELLED` or `LIMIT_REACHED` if its
   *   run was ended before: the ledger says whether the call was sent, `CALL_UNKNOWN` if the run is no single call
   */
  async answer({ deadlineMs }: { readonly deadlineMs?: number } = {}): Promise<CallAnswer> {
    return await answerOf(this.run, deadlineMs);
  }
}

export async function answerOf(run: RunHandle, deadlineMs?: number): Promise<CallAnswer> {
  const { status, output, because = '' } = await run.result(deadlineMs === undefined ? {} : { deadlineMs });
  const { runId } = run;
  if (status !== 'completed') {
    const what = status === 'stopped' ? `was stopped: ${because}` : `has reached its limit ${because}`;
    const message = `Run ${runId} of this call ${what}. Its ledger says whether the call was sent: countersign ledger ${runId}`;
    throw new CountersignError(status === 'stopped' ? 'RUN_CANCELLED' : 'LIMIT_REACHED', message, { runId });
  }
  const answer = CallAnswer.safeParse(typeof output === 'string' ? json(output) : undefined);
  if (answer.success) return answer.data;
  const message = `Run ${runId} is no single call: its answer is that of a model. Read it with: countersign result ${runId}`;
  throw new CountersignError('CALL_UNKNOWN', message, { runId });
}

function json(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
