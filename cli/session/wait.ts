/** Waits for the end of a run, and tells the user why nothing happens meanwhile. */
import type { RunHandle } from '../../client/index.ts';
import type { Retry } from '../../client/run/retries.ts';
import { defined } from '../../contracts/defined.ts';
import { CountersignError } from '../../contracts/errors.ts';
import type { RunResult } from '../../contracts/schemas/run-state.ts';
import { visible } from '../../domain/text/escape.ts';
import { retryText } from '../views/run.ts';
import { safeJson } from './answered.ts';
import type { GlobalOptions } from './options.ts';
import type { Terminal } from './terminal.ts';

/**
 * @param deadlineSeconds without it, the wait lasts until the run ends
 * @throws CountersignError `RESULT_UNCERTAIN` if the run goes on
 */
export async function waitForResult(
  run: RunHandle,
  deadlineSeconds: number | undefined,
  onPause?: (trouble: CountersignError) => void,
): Promise<RunResult> {
  try {
    return await run.result({
      ...(deadlineSeconds === undefined ? {} : { deadlineMs: deadlineSeconds * 1_000 }),
      ...defined({ onPause }),
    });
  } catch (error) {
    if (!(error instanceof CountersignError) || error.code !== 'RESULT_UNCERTAIN') throw error;
    const message = `Run ${run.runId} did not end within ${deadlineSeconds} s; it goes on. See: countersign show ${run.runId}`;
    throw new CountersignError('RESULT_UNCERTAIN', message, { runId: run.runId }, { cause: error });
  }
}

/** The reason why nothing happens: a step is tried again, or nobody answers. */
type Waiting = Pick<Retry, 'code' | 'message'> & Partial<Retry>;

/** Writes to standard error, since standard output holds only answers. */
function tellWaiting(terminal: Terminal, { json }: GlobalOptions, waiting: Waiting, text: string): void {
  terminal.err(json === true ? `${safeJson({ waiting })}\n` : `waiting: ${text}\n`);
}

export function pauseTeller(terminal: Terminal, options: GlobalOptions): (trouble: CountersignError) => void {
  return ({ code, message }) => tellWaiting(terminal, options, { code, message }, visible(message));
}

export function retryTeller(terminal: Terminal, options: GlobalOptions): (news: readonly Retry[]) => void {
  return (news) => news.forEach((retry) => tellWaiting(terminal, options, retry, retryText(retry)));
}
