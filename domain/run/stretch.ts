/**
 * Says what a stretch may do, and what a run takes over of it (docs/adr/0058). Activity and run apply the same
 * transitions.
 *
 * 1. A call leaves within a stretch only if policy allows it, its tool is repeatable, and its server is among those
 *    that the run has named. Else no call of its turn leaves (INV-G1, INV-X1).
 * 2. Only what is on record may have left. A call on record without a result may have run (INV-X1), and the run sends
 *    it again by an activity of its own.
 */
import { callIdOf, READ_RESOURCE } from '../../contracts/names.ts';
import type { StretchedCall, StretchedTurn, StretchInput, StretchState } from '../../contracts/wire/stretch.ts';
import type { RunSpec } from '../../contracts/schemas/run-spec.ts';
import type { Discovery, ServerBinding } from '../../contracts/schemas/tool.ts';
import type { RunIdentity } from '../../contracts/wire/identity.ts';
import type { ModelStepInput, ModelStepResult, PreparedRun, StretchBounds } from '../../contracts/wire/run.ts';
import type { DispatchInput, DispatchResult } from '../../contracts/wire/tools.ts';
import { defined } from '../../contracts/defined.ts';
import { dispatched, ended } from '../request/transitions.ts';
import {
  callOf,
  callsOf,
  type CallState,
  type Change,
  type Cleared,
  type InFlight,
  proposed,
  type Run,
  type RunIds,
  startRun,
} from '../state/run.ts';
import { byteLength, hashOf } from '../text/canonical.ts';
import { EMPTY_DIGEST } from './journal.ts';
import { costOf, EMPTY_TALLY, reachedLimit } from './limits.ts';
import { toolsetOf } from './toolset.ts';
import { dispatchOf, judgedAll, judgementsOn, keyOf } from './turn.ts';

export function stretchState(run: Run, counts: boolean): StretchState {
  const { startedAt, turn, totalCalls, usage, spent, tally, refusals } = run;
  return {
    startedAt,
    turn,
    totalCalls,
    usage,
    ...defined({ spent, tally: counts ? tally : undefined }),
    ...(refusals.length === 0 ? {} : { refused: refusals.map(({ key }) => key) }),
  };
}

export function stretchRun({ startedAt, turn, totalCalls, usage, spent, tally }: StretchState): Run {
  return { ...startRun(startedAt), turn, totalCalls, usage, ...defined({ spent, tally }) };
}

/** Opens a turn as the run will: its calls, each in the state that its verdict gives it. @param at epoch ms */
export function openedTurn(
  run: Run,
  step: ModelStepResult,
  { step: { run: of, runId }, price, dispatch }: StretchInput,
  at: number,
): Run {
  const calls = callsOf(step);
  const open = proposed(run, calls, step.usage, price === undefined ? undefined : costOf(price, step.usage)).run;
  if (step.judged === undefined) return open;
  const { judgements, policyVersion } = step.judged;
  const all = judgementsOn(calls, judgements, dispatch.limits, run.totalCalls);
  const ids: RunIds = { namespace: of.namespace, workflowId: of.workflowId, runId, tenant: of.initiator.tenant };
  return judgedAll(open, all, policyVersion, ids, at).run;
}

export function leavesWhole({ calls }: Run, { servers, state: { refused = [] } }: StretchInput): boolean {
  const mayLeave = (state: CallState): state is Cleared =>
    state.status === 'cleared' &&
    state.judgement.repeatable &&
    state.judgement.target.tool !== READ_RESOURCE &&
    servers.some(({ name }) => name === state.judgement.target.server) &&
    !refused.includes(keyOf(state.call, state.judgement.target));
  return calls.length > 0 && calls.every(mayLeave);
}

/** The calls of a turn as they are put on record before they leave. */
export function toLeave({ calls }: Run, at: number): StretchedCall[] {
  return calls.flatMap((state) => {
    if (state.status !== 'cleared') return [];
    const { call, judgement } = state;
    const digest = hashOf({ target: judgement.target, arguments: call.arguments });
    return [{ callId: call.callId, digest, sentAt: at }];
  });
}

/** True if a result needs nothing more of the run than to be recorded. */
export function isConcluded(result: DispatchResult | undefined): result is Extract<DispatchResult, { kind: 'ended' }> {
  return result?.kind === 'ended' && result.outcome.kind !== 'unknown' && result.authorization === undefined;
}

export function isOver({ calls }: StretchedTurn): boolean {
  return calls !== undefined && calls.every(({ result }) => isConcluded(result));
}

/**
 * True if the turns of a record can have happened one after the other: each has the ids of its place, all of its calls
 * left or none, and each but the last is over.
 * @param turn the number of the run's newest turn
 */
export function followsOn(turn: number, turns: readonly StretchedTurn[]): boolean {
  return turns.every((each, index) => {
    const ids = callsOf(each.step).map(({ callId }) => callId);
    const left = each.calls?.map(({ callId }) => callId) ?? ids;
    const isInPlace = ids.every((callId, at) => callId === callIdOf(turn + 1 + index, at));
    const isWhole = left.length === ids.length && left.every((callId, at) => callId === ids[at]);
    const isLast = index === turns.length - 1;
    return isInPlace && isWhole && (isLast || (ids.length > 0 && isOver(each)));
  });
}

/** A change with the time at which it happened, epoch ms. */
export interface Timed {
  readonly at: number;
  readonly apply: (run: Run) => Change;
}

/** The facts about the calls of a turn, in order of time. A call whose result needs more is left in flight. */
export function deedsOf(calls: readonly StretchedCall[]): readonly Timed[] {
  return calls
    .flatMap(({ callId, sentAt, endedAt = sentAt, result }): Timed[] => [
      { at: sentAt, apply: (run) => letGo(run, callId) },
      ...(isConcluded(result)
        ? [{ at: Math.max(sentAt, endedAt), apply: (run: Run) => ended(run, callId, result.outcome, result.token) }]
        : []),
    ])
    .toSorted((one, other) => one.at - other.at);
}

/** A call is said to have left that was not to leave. */
export class NotToLeave extends Error {}

/** @throws NotToLeave The activity asks the same question, so it is a fault, or somebody else has answered for it. */
function letGo(run: Run, callId: string): Change {
  const change = dispatched(run, callId);
  if (change === undefined) throw new NotToLeave(`Call ${callId} left in a stretch, and was not to leave.`);
  return change;
}

export function afterCalls(run: Run, calls: readonly StretchedCall[]): Run {
  return deedsOf(calls).reduce((now, { apply }) => apply(now).run, run);
}

export function stretchDispatch(
  { step, dispatch: { authorizations = {}, input, ...same }, servers }: StretchInput,
  run: Run,
  callId: string,
): DispatchInput | undefined {
  const state = callOf(run, callId);
  if (state === undefined || state.status !== 'cleared') return undefined;
  const server = servers.find(({ name }) => name === state.judgement.target.server);
  if (server === undefined) return undefined;
  const flight: InFlight = { ...state, status: 'in-flight', attempts: 1 };
  const { toolset, runPolicy, runId, run: of } = step;
  const parts = {
    ...same,
    run: of,
    runId,
    toolset,
    earlier: step.earlier && (run.tally ?? EMPTY_TALLY),
    ...defined({ runPolicy }),
  };
  const proofs = authorizations[server.name];
  return dispatchOf(parts, flight, server, run.calls, defined({ input, authorizations: proofs }));
}

/** True if another model step may begin. @param began epoch ms of this attempt's beginning */
export function mayGoOn(
  run: Run,
  turns: readonly StretchedTurn[],
  { bounds, dispatch }: StretchInput,
  began: number,
  now: number,
): boolean {
  if (turns.length >= bounds.turns || now - began >= bounds.seconds * 1_000) return false;
  return fitsRecord(turns, bounds) && reachedLimit(run, dispatch.limits, now) === undefined;
}

export function fitsRecord(turns: readonly StretchedTurn[], { bytes }: StretchBounds): boolean {
  return byteLength(JSON.stringify({ turns })) <= bytes;
}

/** Servers whose calls may leave: not of another queue, which has the credentials, nor one that may ask in mid-call. */
export function stretchServers({ servers, pauses }: Pick<PreparedRun, 'servers' | 'pauses'>): readonly ServerBinding[] {
  const mayAsk = pauses?.includes('input') === true;
  return servers.filter(
    ({ taskQueue, holdSeconds }) => taskQueue === undefined && (holdSeconds === undefined || !mayAsk),
  );
}

/** The place of a run in Temporal. `startedAt` is epoch ms. */
export interface RunPlace {
  readonly namespace: string;
  readonly workflowId: string;
  readonly runId: string;
  readonly startedAt: number;
}

export function identityOf(
  { namespace, workflowId }: Pick<RunPlace, 'namespace' | 'workflowId'>,
  { initiator, specHash }: Pick<PreparedRun, 'initiator' | 'specHash'>,
): RunIdentity {
  return { namespace, workflowId, initiator, specHash };
}

interface Stretching extends Omit<StretchInput['dispatch'], 'limits' | 'input' | 'tasks'> {
  readonly step: ModelStepInput;
  readonly run: Run;
  readonly prepared: Omit<PreparedRun, 'opening'>;
  readonly bounds: StretchBounds;
}

/** The input of a stretch; the run and its first activity both ask by it. */
export function stretchInput({ step, run, prepared, bounds, decidedIn, ...given }: Stretching): StretchInput {
  const { limits, pauses, price, tally, tasks } = prepared;
  return {
    step,
    state: stretchState(run, tally !== undefined),
    bounds,
    servers: stretchServers(prepared),
    dispatch: {
      decidedIn,
      limits,
      ...(pauses?.includes('input') === true ? { input: { provided: [] } } : {}),
      ...defined({ authorizations: given.authorizations, signedSpec: given.signedSpec, tasks, grants: given.grants }),
    },
    ...defined({ price }),
  };
}

/** The stretch with which a run begins, as the run itself would ask for it; undefined if it takes none. */
export function firstStretch(
  { agent, policy, grants }: Pick<RunSpec, 'agent' | 'policy' | 'grants'>,
  prepared: PreparedRun,
  found: readonly Discovery[],
  place: RunPlace,
): StretchInput | undefined {
  const { limits, opening, servers, stretch, tally } = prepared;
  if (stretch === undefined) return undefined;
  const step = {
    run: identityOf(place, prepared),
    runId: place.runId,
    model: agent.model,
    turn: 1,
    base: { length: 0, digest: EMPTY_DIGEST },
    tail: opening,
    toolset: toolsetOf(found, servers),
    ...defined({ runPolicy: policy }),
    ...(tally === undefined ? {} : { earlier: EMPTY_TALLY }),
    ...defined({ output: agent.output }),
  };
  const bounds = { ...stretch, turns: Math.min(stretch.turns, limits.turnsPerExecution) };
  const run = startRun(place.startedAt);
  return stretchInput({ step, run, prepared, bounds, decidedIn: [place.runId], ...defined({ grants }) });
}
