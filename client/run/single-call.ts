/**
 * One call through the gate, for backends that bring their own loop. It is started once, as a run is (INV-D3), may wait
 * for people for as long as policy says, and has one answer.
 */
import { defined } from '../../contracts/defined.ts';
import { CountersignError } from '../../contracts/errors.ts';
import { parseAs } from '../../contracts/schemas/parse.ts';
import { CallSpec, type CallSpecInput, type Dispatch, type RunSpecInput } from '../../contracts/schemas/run-spec.ts';
import { CallAnswer, type RunResult } from '../../contracts/schemas/run-state.ts';
import { runSpecOf } from '../../domain/run/single-call.ts';
import { isFields } from '../../domain/shapes/inputs.ts';
import { byteLength } from '../../domain/text/canonical.ts';
import { lastWord } from '../../domain/text/shell-word.ts';
import type { RunHandle } from './run-handle.ts';
import type { StartRunOptions } from './start-run.ts';
import type { WatchOptions } from './watch.ts';

/** Bytes of a call within its run spec, where quotes in texts take more. They leave room for the rest of the spec. */
const MOST_CALL_BYTES = 131_072;

export interface CallOptions extends Omit<StartRunOptions, 'spec'> {
  readonly call: CallSpecInput;
  /** OAuth access token for the server of the call. It is sealed, and never sent in clear. */
  readonly authorization?: string;
  /** For calls of MCP clients: `on-return` needs somebody who says that the client is there (`RunHandle.present`). */
  readonly dispatch?: Dispatch;
}

/** Returns the options of the run of this call; its one token stands at its one server. */
export function callOptions(asked: CallOptions): StartRunOptions {
  if (!isFields(asked)) throw new CountersignError('SPEC_INVALID', 'The call is missing. Give { runId, call }.');
  const { call, authorization, dispatch, ...options } = asked;
  const { servers = [], ...plain } = callAsRun(call);
  const given = servers.map((server) => ({ ...server, ...defined({ authorization }) }));
  return { ...options, spec: { ...plain, ...defined({ dispatch }), servers: given } };
}

/** @throws CountersignError `SPEC_INVALID`, `ARGUMENTS_TOO_LARGE` */
export function callAsRun(call: CallSpecInput): RunSpecInput {
  const spec = runSpecOf(parseAs(CallSpec, call, 'SPEC_INVALID', 'call'));
  const bytes = byteLength(JSON.stringify(spec.input));
  if (bytes <= MOST_CALL_BYTES) return spec;
  const message = `arguments: the call has ${bytes} bytes in its run spec; ${MOST_CALL_BYTES} are allowed. Give long texts to the tool in another way. Nothing was started.`;
  throw new CountersignError('ARGUMENTS_TOO_LARGE', message, { path: 'arguments' });
}

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
   * @param onPause called once for each period in which nobody works on it (`RunHandle.result`)
   * @throws CountersignError `RESULT_UNCERTAIN` if it goes on at the deadline, `RUN_CANCELLED` or `LIMIT_REACHED` if
   *   its run was ended before: the ledger says whether the call was sent, `CALL_UNKNOWN` if the run is no single call
   */
  async answer(patience: Pick<WatchOptions, 'deadlineMs' | 'onPause'> = {}): Promise<CallAnswer> {
    return answerIn(this.run.runId, await this.run.result(patience));
  }
}

/** Reads the answer of a single call from the result of its run. @throws CountersignError as `SingleCall.answer` */
export function answerIn(runId: string, { status, output, because = '' }: RunResult): CallAnswer {
  if (status !== 'completed') {
    const what = status === 'stopped' ? `was stopped: ${because}` : `has reached its limit ${because}`;
    const message = `Run ${runId} of this call ${what}. Its ledger says whether the call was sent: countersign ledger ${lastWord(runId)}`;
    throw new CountersignError(status === 'stopped' ? 'RUN_CANCELLED' : 'LIMIT_REACHED', message, { runId });
  }
  const answer = typeof output === 'string' ? callAnswerIn(output) : undefined;
  if (answer !== undefined) return answer;
  const message = `Run ${runId} is no single call: its answer is that of a model. Read it with: countersign result ${lastWord(runId)}`;
  throw new CountersignError('CALL_UNKNOWN', message, { runId });
}

/** Finds an answer of a single call in the last words of its run; undefined if they are those of a model. */
export function callAnswerIn(text: string): CallAnswer | undefined {
  if (!text.startsWith('{"callId":')) return undefined;
  try {
    return CallAnswer.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
}
