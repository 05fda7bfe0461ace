/**
 * The activity `stretch`: model step → verdicts → calls that need nobody and may be repeated → results → next model
 * step, for as long as it may (docs/adr/0058).
 *
 * It owns the order and the record. It does not own model steps, verdicts or dispatches: these are the same functions as
 * the activities `modelStep` and `callTool`, with every check of theirs.
 * 1. A turn's calls leave only once Temporal has acknowledged them with their verdicts (INV-G1). If the worker is lost
 *    then, the run takes those calls from the record, and never asks the model again for that step.
 * 2. A turn leaves whole or not at all: one call that must be asked, may run only once or belongs to another queue leaves
 *    the turn to the run.
 * 3. It returns what was done also when it is cancelled, so that no call that was sent is missing from the ledger. It
 *    fails, and is tried again, only as long as nothing is on record.
 */
import { activityInfo, CancelledFailure, CompleteAsyncError, Context } from '@temporalio/activity';
import { codedFailureIn, failureOf } from '../../contracts/failure.ts';
import { isUndecodable } from '../../contracts/payload-converter.ts';
import type { Message } from '../../contracts/schemas/transcript.ts';
import type { ModelActivities, ModelStepInput, ModelStepResult, ToolActivities } from '../../contracts/wire/run.ts';
import type { StretchedCall, StretchedTurn, StretchInput, StretchRecord } from '../../contracts/wire/stretch.ts';
import type { DispatchResult } from '../../contracts/wire/tools.ts';
import { extendDigest } from '../../domain/run/journal.ts';
import {
  afterCalls,
  fitsRecord,
  isOver,
  leavesWhole,
  mayGoOn,
  openedTurn,
  stretchDispatch,
  stretchRun,
  toLeave,
} from '../../domain/run/stretch.ts';
import { closeTurn, resultsOf } from '../../domain/run/turn.ts';
import { isAnswerOf } from '../../domain/shapes/inputs.ts';
import type { Run } from '../../domain/state/run.ts';
import { within } from './context.ts';
import { KeptRecord } from './record.ts';

export interface StretchParts {
  readonly modelStep: ModelActivities['modelStep'];
  /** Absent on a worker that calls no servers: the stretch ends with each model step. */
  readonly callTool?: ToolActivities['callTool'] | undefined;
  /** Sends heartbeats whose answer is awaited. */
  readonly completion: Completion;
  /** Asks a run that no longer wants the stretch whether calls under way are to be cancelled. */
  readonly cancelsCalls: (workflowId: string, runId: string) => Promise<boolean>;
}

/** Temporal's interface for asynchronous completion (`AsyncCompletionClient`). */
export interface Completion {
  heartbeat(taskToken: Uint8Array, record: StretchRecord): Promise<void>;
  complete(taskToken: Uint8Array, record: StretchRecord): Promise<void>;
}

export function createStretch(parts: StretchParts): ModelActivities['stretch'] {
  return async (input) => {
    const left = recordIn(activityInfo().heartbeatDetails);
    // Somebody has made Temporal hand out again what an attempt has begun: the run goes on with what that attempt did.
    return left.turns.length > 0 ? left : await new Attempt(parts, input).run();
  };
}

/** Where the next model step stands: the run, and the conversation as the step gets it. */
interface Position {
  readonly run: Run;
  readonly step: ModelStepInput;
}

class Attempt {
  readonly #parts: StretchParts;
  readonly #input: StretchInput;
  readonly #context = Context.current();
  readonly #began = Date.now();
  readonly #steps = new AbortController();
  readonly #calls = new AbortController();
  readonly #record: KeptRecord;
  #turns: StretchedTurn[] = [];

  constructor(parts: StretchParts, input: StretchInput) {
    this.#parts = parts;
    this.#input = input;
    const { taskToken } = this.#context.info;
    this.#record = new KeptRecord(async (record) => await parts.completion.heartbeat(taskToken, record), {
      cancelled: () => void this.#cancelled(),
      lost: () => this.#end('Temporal no longer waits for this stretch.'),
    });
    const { cancellationSignal } = this.#context;
    const told = (): void => {
      // The SDK misses heartbeats that did not go through it, and takes the attempt for over; Temporal does not.
      if (!this.#isMissed) this.#end('The worker shuts down.');
    };
    if (cancellationSignal.aborted) told();
    else cancellationSignal.addEventListener('abort', told, { once: true });
  }

  async run(): Promise<StretchRecord> {
    let record: StretchRecord;
    try {
      record = await this.#goOn();
    } finally {
      this.#record.stop();
    }
    if (!this.#isMissed) return record;
    // The SDK drops the answer of an activity that it takes for over.
    await this.#parts.completion.complete(this.#context.info.taskToken, record);
    throw new CompleteAsyncError();
  }

  get #isMissed(): boolean {
    return this.#context.cancellationDetails?.timedOut === true;
  }

  async #goOn(): Promise<StretchRecord> {
    let at: Position = { run: stretchRun(this.#input.state), step: this.#input.step };
    while (this.#turns.length === 0 || this.#mayGoOn(at.run)) {
      const step = await this.#asked(at);
      if (step === undefined) break;
      const now = Date.now();
      const opened = { run: openedTurn(at.run, step, this.#input, now), step: at.step };
      const turn: StretchedTurn = { step, at: now };
      if (!(await this.#kept(opened.run, turn))) {
        this.#turns = [...this.#turns, turn];
        break;
      }
      const next = await this.#sent(opened);
      if (next === undefined) break;
      at = next;
    }
    return this.#done();
  }

  #mayGoOn(run: Run): boolean {
    if (this.#steps.signal.aborted) return false;
    return mayGoOn(run, this.#turns, this.#input, this.#began, Date.now());
  }

  /** Returns the model's answer; undefined if the run is to go on with what was done before. */
  async #asked({ step }: Position): Promise<ModelStepResult | undefined> {
    try {
      return await within(this.#context, this.#steps.signal, async () => await this.#parts.modelStep(step));
    } catch (error) {
      // The next stretch of the run asks the model again, and fails as it should.
      if (this.#turns.length > 0 || this.#record.isCancelled) return undefined;
      throw error;
    }
  }

  /** Puts the calls of a new turn on record; false if none of them is to leave. */
  async #kept(run: Run, turn: StretchedTurn): Promise<boolean> {
    if (this.#parts.callTool === undefined || !leavesWhole(run, this.#input)) return false;
    const turns = [...this.#turns, { ...turn, calls: toLeave(run, turn.at) }];
    const isKept = fitsRecord(turns, this.#input.bounds) && (await this.#record.acknowledge(turns));
    this.#assertNewest();
    if (isKept) this.#turns = turns;
    return isKept;
  }

  /**
   * Sends the calls of the newest turn, side by side.
   * @returns the next position; undefined if the run has to do something first
   */
  async #sent(opened: Position): Promise<Position | undefined> {
    const { calls = [] } = this.#turns.at(-1) ?? {};
    await Promise.all(
      calls.map(async (call) => {
        const result = await this.#sentOne(opened.run, call);
        this.#note({ ...call, endedAt: Date.now(), result });
      }),
    );
    this.#assertNewest();
    const turn = this.#turns.at(-1);
    return turn !== undefined && isOver(turn) ? this.#after(opened, turn) : undefined;
  }

  async #sentOne(run: Run, { callId }: StretchedCall): Promise<DispatchResult> {
    const input = stretchDispatch(this.#input, run, callId);
    const { callTool } = this.#parts;
    // Both were asked before the call was put on record.
    if (input === undefined || callTool === undefined) throw new Error(`Call ${callId} has no dispatch.`);
    try {
      return await within(this.#context, this.#calls.signal, async () => await callTool(input));
    } catch (error) {
      // It was handed over, and so may have run (INV-X1).
      const message = codedFailureIn(error)?.message ?? 'The worker failed while the call was under way.';
      return { kind: 'ended', outcome: { kind: 'unknown', code: 'OUTCOME_UNKNOWN', message } };
    }
  }

  #note(call: StretchedCall): void {
    const last = this.#turns.at(-1);
    if (last?.calls === undefined) return;
    const calls = last.calls.map((other) => (other.callId === call.callId ? call : other));
    this.#turns = [...this.#turns.slice(0, -1), { ...last, calls }];
    this.#record.note(this.#turns);
  }

  /** The position after a turn whose calls have all ended: the model reads its own answer and their results. */
  #after({ run, step }: Position, { step: answer, calls = [] }: StretchedTurn): Position {
    const settled = afterCalls(run, calls);
    const closed = closeTurn(settled, step.earlier === undefined ? undefined : true);
    const tail: Message[] = [
      { role: 'assistant', parts: [...answer.parts] },
      { role: 'tool', results: resultsOf(settled) },
    ];
    const { tally } = closed;
    return {
      run: closed,
      step: {
        ...step,
        turn: closed.turn + 1,
        base: {
          ...step.base,
          length: step.base.length + step.tail.length,
          digest: step.tail.reduce(extendDigest, step.base.digest),
        },
        tail,
        ...(step.earlier === undefined || tally === undefined ? {} : { earlier: tally }),
      },
    };
  }

  #done(): StretchRecord {
    this.#assertNewest();
    return { turns: this.#turns };
  }

  /** Ends an attempt that is over for Temporal; nothing that it says counts any more. */
  #assertNewest(): void {
    if (this.#record.isLost)
      throw failureOf('INTERNAL', 'Temporal no longer waits for this stretch.', {}, undefined, true);
  }

  async #cancelled(): Promise<void> {
    this.#steps.abort(new CancelledFailure('The run no longer wants this stretch.'));
    const { workflowExecution } = this.#context.info;
    if (workflowExecution === undefined) return;
    const { workflowId, runId } = workflowExecution;
    // Calls under way are let finish unless the run says otherwise.
    const withCalls = await this.#parts.cancelsCalls(workflowId, runId).catch(() => false);
    if (withCalls) this.#calls.abort(new CancelledFailure('The run was ended with its calls.'));
  }

  #end(reason: string): void {
    this.#steps.abort(new CancelledFailure(reason));
    this.#calls.abort(new CancelledFailure(reason));
  }
}

/**
 * Reads what an attempt before this one has left.
 * @throws if it cannot be read: calls may have left by it, so another worker has to try
 */
function recordIn(details: unknown): StretchRecord {
  if (details === undefined || details === null) return { turns: [] };
  if (isUndecodable(details)) {
    const message = `The record of the attempt before ${details.says}. All workers need the same encryption.keys.`;
    throw failureOf('CONFIG_INVALID', message, { path: 'encryption.keys' }, undefined, true);
  }
  if (!isAnswerOf('stretch', details))
    throw failureOf('INTERNAL', 'The record of the attempt before is not one of a stretch.', {}, undefined, true);
  // Sound: it has every field that is read.
  return details as unknown as StretchRecord;
}
