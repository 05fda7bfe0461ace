/**
 * The activity `stretch`: model step → verdicts → calls that need nobody and may be repeated → results → next model
 * step, until one of its bounds, or until the run has something to do (docs/adr/0058).
 *
 * Model steps, verdicts and dispatches are the functions behind the activities `modelStep` and `callTool`, with all of
 * their checks.
 * 1. A turn's calls leave only once Temporal has acknowledged them with their verdicts (INV-G1). If the worker is lost
 *    then, the run takes those calls from the record, and never asks the model again for that step.
 * 2. A turn leaves whole or not at all. One call that must be asked, may run only once or belongs to another queue
 *    leaves the whole turn to the run.
 * 3. It returns what was done also when it is cancelled, so that no call that was sent is missing from the ledger. It
 *    fails, and is tried again, only as long as nothing is on record.
 */
import { activityInfo } from '@temporalio/activity';
import { defined } from '../../contracts/defined.ts';
import type { ErrorCode } from '../../contracts/errors.ts';
import { type CodedFailure, codedFailureIn, failureOf } from '../../contracts/failure.ts';
import { isUndecodable } from '../../contracts/payload-converter.ts';
import type { Message } from '../../contracts/schemas/transcript.ts';
import type { ModelActivities, ToolActivities } from '../../contracts/wire/activities.ts';
import type { ModelStepInput, ModelStepResult } from '../../contracts/wire/run.ts';
import type {
  BeginRecord,
  StretchedCall,
  StretchedTurn,
  StretchInput,
  StretchResult,
} from '../../contracts/wire/stretch.ts';
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
import { codedFailure, unknownOutcome } from '../kit/activity.ts';
import { Lifeline, type LifelineParts } from './lifeline.ts';

export interface StretchParts extends LifelineParts {
  readonly modelStep: ModelActivities['modelStep'];
  /** Absent on a worker that calls no servers: the stretch ends with each model step. */
  readonly callTool?: ToolActivities['callTool'] | undefined;
  /** False in trust mode `signed`: whoever writes to the namespace can write a record. */
  readonly believesRecords: boolean;
}

type GoOnParts = Pick<StretchParts, 'modelStep' | 'callTool'>;

export function createStretch(parts: StretchParts): ModelActivities['stretch'] {
  return async (input) => {
    const left = parts.believesRecords ? recordLeft() : { turns: [] };
    // Somebody has made Temporal hand out again what an attempt has begun: the run goes on with what that attempt did.
    if (left.turns.length > 0) return left;
    const life = new Lifeline(parts);
    return await life.through(async () => await goOn(parts, life, input));
  };
}

/** @throws only if nothing was done */
export async function goOn(parts: GoOnParts, life: Lifeline, input: StretchInput): Promise<StretchResult> {
  return await new Attempt(parts, life, input).goOn();
}

/** Returns the failure of a step whose request would be refused again; after any other the run asks the model anew. */
export function finalFailure(error: unknown): CodedFailure | undefined {
  const failure = codedFailure(error);
  return failure.nonRetryable === true ? codedFailureIn(failure) : undefined;
}

/**
 * Codes by which the provider has answered: another worker with the same settings would hear the same, and a provider
 * that has called by itself might do so again. Any other failure is this worker's, which may have lost a conversation
 * that the run does not have yet.
 */
const SAID_BY_MODEL: ReadonlySet<ErrorCode> = new Set(['MODEL_REJECTED', 'MODEL_OUTPUT_INVALID', 'HOSTED_UNSUPPORTED']);

/** The run before its next model step, and the conversation as that step gets it. */
interface Position {
  readonly run: Run;
  readonly step: ModelStepInput;
}

class Attempt {
  readonly #parts: GoOnParts;
  readonly #life: Lifeline;
  readonly #input: StretchInput;
  readonly #began = Date.now();
  #turns: StretchedTurn[] = [];
  #failed: CodedFailure | undefined;

  constructor(parts: GoOnParts, life: Lifeline, input: StretchInput) {
    this.#parts = parts;
    this.#life = life;
    this.#input = input;
  }

  async goOn(): Promise<StretchResult> {
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
    return { turns: this.#turns, ...defined({ failed: this.#failed }) };
  }

  #mayGoOn(run: Run): boolean {
    if (this.#life.isEnding) return false;
    return mayGoOn(run, this.#turns, this.#input, this.#began, Date.now());
  }

  /** Returns the model's answer; undefined if the run is to go on with what was done before. */
  async #asked({ step }: Position): Promise<ModelStepResult | undefined> {
    try {
      return await this.#life.step(async () => await this.#parts.modelStep(step));
    } catch (error) {
      if (this.#turns.length === 0 && !this.#life.record.isCancelled) throw error;
      const failed = finalFailure(error);
      if (this.#turns.length > 0 && failed !== undefined && SAID_BY_MODEL.has(failed.code)) this.#failed = failed;
      return undefined;
    }
  }

  /** Puts the calls of a new turn on record; false if none of them is to leave. */
  async #kept(run: Run, turn: StretchedTurn): Promise<boolean> {
    if (this.#parts.callTool === undefined || !leavesWhole(run, this.#input)) return false;
    const turns = [...this.#turns, { ...turn, calls: toLeave(run, turn.at) }];
    const isKept = fitsRecord(turns, this.#input.bounds) && (await this.#life.record.acknowledge(turns));
    this.#life.assertWaitedFor();
    // A worker that shuts down leaves the calls to the run.
    if (!isKept || this.#life.isEnded) return false;
    this.#turns = turns;
    return true;
  }

  /** @returns the next position; undefined if the run has to do something first */
  async #sent(opened: Position): Promise<Position | undefined> {
    const { calls = [] } = this.#turns.at(-1) ?? {};
    await Promise.all(
      calls.map(async (call) => {
        const result = await this.#sentOne(opened.run, call);
        this.#note({ ...call, endedAt: Math.max(call.sentAt, Date.now()), result });
      }),
    );
    this.#life.assertWaitedFor();
    const turn = this.#turns.at(-1);
    return turn !== undefined && isOver(turn) ? this.#after(opened, turn) : undefined;
  }

  async #sentOne(run: Run, { callId }: StretchedCall): Promise<DispatchResult> {
    const input = stretchDispatch(this.#input, run, callId);
    const { callTool } = this.#parts;
    // Both were asked before the call was put on record.
    if (input === undefined || callTool === undefined) throw new Error(`Call ${callId} has no dispatch.`);
    try {
      return await this.#life.call(callId, async () => await callTool(input));
    } catch (error) {
      // It was handed over, and so may have run (INV-X1).
      return unknownOutcome(codedFailureIn(error)?.message ?? 'The worker failed while the call was under way.');
    }
  }

  #note(call: StretchedCall): void {
    const last = this.#turns.at(-1);
    if (last?.calls === undefined) return;
    const calls = last.calls.map((other) => (other.callId === call.callId ? call : other));
    this.#turns = [...this.#turns.slice(0, -1), { ...last, calls }];
    this.#life.record.note(this.#turns);
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
}

/**
 * Reads what an attempt before this one has left.
 * @throws if it cannot be read: calls may have left by it, so another worker has to try. One of a wrong form is
 * nobody's, and ends the run
 */
export function recordLeft(): BeginRecord {
  const details: unknown = activityInfo().heartbeatDetails;
  if (details === undefined || details === null) return { turns: [] };
  if (isUndecodable(details)) {
    const message = `The record of the attempt before ${details.says}. All workers need the same encryption.keys.`;
    throw failureOf('CONFIG_INVALID', message, { path: 'encryption.keys' }, undefined, true);
  }
  if (!isAnswerOf('stretch', details))
    throw failureOf('INTERNAL', 'The record of the attempt before is not one of a stretch.', {}, undefined, false);
  // Sound: it has every field that is read.
  const { turns, prepared, found, times } = details as BeginRecord;
  // Without the progress of calls: what is returned here goes into history.
  return { turns, ...defined({ prepared, found, times }) };
}
