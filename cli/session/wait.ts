/** Waiting for the end of a run, as long as somebody wants to. */
import type { RunHandle } from '../../client/index.ts';
import { CountersignError } from '../../contracts/errors.ts';
import type { RunResult } from '../../contracts/schemas/run-state.ts';
import { visible } from '../../domain/text/escape.ts';
import type { GlobalOptions } from './options.ts';
import type { Terminal } from './terminal.ts';

/** @param deadlineSeconds without it, until the end. @throws CountersignError `RESULT_UNCERTAIN` where the run goes on */
export async function waitForResult(
  run: RunHandle,
  deadlineSeconds: number | undefined,
  onPause?: (trouble: CountersignError) => void,
): Promise<RunResult> {
  try {
    return await run.result({
      ...(deadlineSeconds === undefined ? {} : { deadlineMs: deadlineSeconds * 1_000 }),
      ...(onPause === undefined ? {} : { onPause }),
    });
  } catch (error) {
    if (!(error instanceof CountersignError) || error.code !== 'RESULT_UNCERTAIN') throw error;
    const message = `Run ${run.runId} did not end within ${deadlineSeconds} s; it goes on. See: countersign show ${run.runId}`;
    throw new CountersignError('RESULT_UNCERTAIN', message, { runId: run.runId }, { cause: error });
  }
}

/** Told on standard error, and where people read it: JSON stands alone. */
export function pauseTeller(terminal: Terminal, { json }: GlobalOptions): (trouble: CountersignError) => void {
  return ({ message }) => (json === true ? undefined : terminal.err(`waiting: ${visible(message)}\n`));
}
