/**
 * A stretch: one activity takes model steps, and makes the calls between them that need nobody and may be repeated
 * (docs/adr/0058). It is written into history and into heartbeats: no secret stands here in clear (INV-S1).
 */
import type { CodedFailure } from '../failure.ts';
import type { Grant, Limits } from '../schemas/run-spec.ts';
import type { Discovery, ServerBinding } from '../schemas/tool.ts';
import type { CarriedRun } from './carry.ts';
import type { AuthorizationProof } from './proofs.ts';
import type { ModelPrice, ModelStepInput, ModelStepResult, PreparedRun, StretchBounds } from './run.ts';
import type { DispatchInput, DispatchResult } from './tools.ts';

/** The counts of a run that decide what the next turn may do; `tally` only if some policy rule reads it. */
export interface StretchState extends Pick<
  CarriedRun,
  'startedAt' | 'turn' | 'totalCalls' | 'usage' | 'spent' | 'tally'
> {
  /** Keys of refused calls: a call that repeats one is left to the run. */
  readonly refused?: readonly string[];
}

/** The parts of each dispatch of a stretch that neither its call nor the model step gives. */
export type StretchDispatch = Pick<DispatchInput, 'decidedIn' | 'signedSpec' | 'input' | 'tasks'> & {
  readonly limits: Limits;
  readonly grants?: readonly Grant[];
  /** By server: the answers that gave another grant. */
  readonly authorizations?: Readonly<Record<string, readonly AuthorizationProof[]>>;
};

export interface StretchInput {
  /** The first model step; the stretch makes the later ones of it. */
  readonly step: ModelStepInput;
  readonly state: StretchState;
  readonly bounds: StretchBounds;
  readonly price?: ModelPrice;
  /** Servers whose calls may leave within the stretch. */
  readonly servers: readonly ServerBinding[];
  readonly dispatch: StretchDispatch;
}

/** A call that was acknowledged, and so may have left. Times are epoch ms of the worker's clock. */
export interface StretchedCall {
  readonly callId: string;
  /** Hash of target and arguments. */
  readonly digest: string;
  readonly sentAt: number;
  readonly endedAt?: number;
  /** Absent: not known. */
  readonly result?: DispatchResult;
}

export interface StretchedTurn {
  readonly step: ModelStepResult;
  /** When the model had answered, epoch ms. */
  readonly at: number;
  /** Set if all calls of the turn left within the stretch; else none did. */
  readonly calls?: readonly StretchedCall[];
}

/** The turns that a stretch has taken. Its heartbeats carry them. */
export interface StretchRecord {
  readonly turns: readonly StretchedTurn[];
}

export interface StretchResult extends StretchRecord {
  /** The model's final refusal of the step after the last turn: the run fails by it, and does not ask again. */
  readonly failed?: CodedFailure;
}

/** Work of a run's first activity. A worker of both roles also lists the tools, and takes the first stretch. */
export interface BeginRecord extends StretchRecord {
  readonly prepared?: PreparedRun;
  /** The lists of all servers, in the order of the spec; absent if the run is to list them itself. */
  readonly found?: readonly Discovery[];
  /** Set with `found`: when the run was prepared, and its tools had been listed; epoch ms of the worker's clock. */
  readonly times?: { readonly prepared: number; readonly listed: number };
}

/** How far a call under way has come, as its server reported it (`notifications/progress`). */
export interface ReportedProgress {
  readonly callId: string;
  readonly sentAt: string;
  /** In the server's own units; the number only grows. */
  readonly progress: number;
  /** The amount at which the call is done, if the server says so. */
  readonly total?: number;
}

/** One heartbeat: the record, and the progress of calls for people who watch; the run does not read that. */
export interface StretchBeat extends BeginRecord {
  readonly progress?: readonly ReportedProgress[];
}

/** Answer of the first activity: the prepared run, and what else was done. Without turns, `failed` is of step one. */
export type BegunRun = PreparedRun & Pick<BeginRecord, 'found' | 'times'> & Partial<StretchResult>;
