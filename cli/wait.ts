/** Waiting for the end of a run, as long as somebody wants to. */
import type { RunHandle } from '../client/index.ts';
import { CountersignError } from '../contracts/errors.ts';
import type { RunResult } from '../contracts/schemas/run-state.ts';

/** @param deadlineSeconds without it, until the end. @throws CountersignError `RESULT_UNCERTAIN` where the run goes on */
export async function waitForResult(run: RunHandle, deadlineSeconds: number | undefined): Promise<RunResult> {
  try {
    return await run.result(deadlineSeconds === undefined ? {} : { deadlineMs: deadlineSeconds * 1_000 });
  } catch (error) {
    if (!(error instanceof CountersignError) || error.code !== 'RESULT_UNCERTAIN') throw error;
    const message = `Run ${run.runId} did not end within ${deadlineSeconds} s; it goes on. See: countersign show ${run.runId}`;
    throw new CountersignError('RESULT_UNCERTAIN', message, { runId: run.runId }, { cause: error });
  }
}
