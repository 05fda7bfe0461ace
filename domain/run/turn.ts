/** A turn of calls begins, has its calls dispatched, and closes here. */
import { defined } from '../../contracts/defined.ts';
import type { Judgement, Outcome, ProposedCall, ToolTarget } from '../../contracts/schemas/call.ts';
import type { LedgerFact } from '../../contracts/schemas/ledger.ts';
import type { Grant, Limits } from '../../contracts/schemas/run-spec.ts';
import type { Tally } from '../../contracts/schemas/run-state.ts';
import type { ServerBinding } from '../../contracts/schemas/tool.ts';
import type { CallResult } from '../../contracts/schemas/transcript.ts';
import type { RefusedCall, Settled } from '../../contracts/wire/carry.ts';
import type { DispatchInput } from '../../contracts/wire/tools.ts';
import { outcomeFact, requestOpenedFact, verdictFact } from '../request/digest.ts';
import { answeredByStanding, stillStanding } from '../request/standing.ts';
import {
  type CallState,
  type Change,
  duplicate,
  type InFlight,
  isSettled,
  judged,
  type Run,
  type RunIds,
} from '../state/run.ts';
import { hashOf } from '../text/canonical.ts';
import { bounded } from '../text/escape.ts';
import { earlierThan, EMPTY_TALLY, overLimit, resultRoom, tallied } from './limits.ts';

/** Applies the judgements. A call that the judge passed over is denied (INV-G4). @param at epoch ms */
export function judgedAll(
  run: Run,
  judgements: readonly Judgement[],
  policyVersion: string,
  ids: RunIds,
  at: number,
): Change {
  const current = stillStanding(run, judgements, at);
  const facts: LedgerFact[] = [...current.facts];
  const seen = new Map<string, string>();
  const calls = run.calls.map((state) => {
    if (state.status !== 'proposed') return state;
    const judgement = judgements.find(({ callId }) => callId === state.call.callId) ?? passedOver(state.call);
    const { target } = judgement;
    const before = answeredBefore(run, state.call, judgement);
    const now =
      before === undefined
        ? duplicate(judged(state.call, judgement, at), target && firstAlike(seen, state.call, target))
        : ({ status: 'settled', call: state.call, judgement, outcome: before } as const);
    facts.push(verdictFact(state.call, judgement, policyVersion));
    const { next, facts: told } = answeredByStanding(current.run, now, at);
    facts.push(...told);
    if (next.status === 'waiting-for-consent') facts.push(requestOpenedFact(next, ids));
    if (next.status === 'settled') facts.push(outcomeFact(state.call.callId, next.outcome));
    return next;
  });
  return { run: { ...current.run, calls }, facts };
}

/** A call over a limit is denied first, and the first judgement counts. @param callsBefore calls before this turn */
export function judgementsOn(
  calls: readonly ProposedCall[],
  verdicts: readonly Judgement[],
  limits: Limits,
  callsBefore: number,
): Judgement[] {
  return [...overLimit(calls, limits, callsBefore), ...verdicts];
}

/** The input of a dispatch. A run adds what people said; a stretch sends what policy allowed. */
export type DispatchParts = Pick<
  DispatchInput,
  'run' | 'runId' | 'decidedIn' | 'toolset' | 'runPolicy' | 'signedSpec' | 'tasks'
> & {
  readonly limits: Limits;
  readonly grants?: readonly Grant[] | undefined;
  /** Outcomes of the closed turns, if some policy rule reads them. */
  readonly earlier?: Tally | undefined;
};

/** The parts that one dispatch has from people, from its server and from its link. */
export type DispatchSaid = Partial<
  Pick<DispatchInput, 'proof' | 'retry' | 'mayHaveRun' | 'input' | 'authorizations' | 'link' | 'hold' | 'resumable'>
>;

/** In mode `signed` a proof covers the input's text, so the order of fields is recorded. @param calls of the turn */
export function dispatchOf(
  { limits, grants, earlier, run, runId, decidedIn, toolset, runPolicy, signedSpec, tasks }: DispatchParts,
  { call, judgement, attempts }: InFlight,
  server: ServerBinding,
  calls: readonly CallState[],
  { proof, resumable, ...said }: DispatchSaid,
): DispatchInput {
  const grant = grants?.find((entry) => entry.server === server.name);
  return {
    run,
    runId,
    decidedIn,
    callId: call.callId,
    name: call.name,
    target: judgement.target,
    arguments: call.arguments,
    proof: proof ?? { kind: 'policy', rules: judgement.verdict.rules },
    ...said,
    toolset,
    ...defined({ runPolicy, earlier: earlier && earlierThan(earlier, calls, call.callId) }),
    server,
    ...defined({ grant }),
    limits: { ...resultRoom(limits, calls), callTimeoutSeconds: limits.callTimeoutSeconds },
    attempt: attempts,
    // The key stays the same across attempts, continue-as-new and reset, because the call is the same call.
    idempotencyKey: `${run.workflowId}/${call.callId}`,
    ...defined({ tasks, signedSpec, resumable }),
    ...defined({ approvalRequestId: call.approvalRequestId, storedAnswerId: call.storedAnswerId }),
  };
}

/** Returns what the model reads of a turn: each call with its outcome, in the order of the proposals (INV-G3). */
export function resultsOf({ calls }: Run): CallResult[] {
  return calls.filter(isSettled).map(({ call, outcome, edit }): CallResult => {
    const { callId, providerCallId, name, approvalRequestId } = call;
    const edited = edit === undefined ? {} : { edited: { by: edit.by, arguments: call.arguments } };
    const approvalResponse =
      approvalRequestId === undefined ? {} : { approvalResponse: { approvalRequestId, approve: mayHaveRun(outcome) } };
    return { callId, providerCallId, name, outcome, ...edited, ...approvalResponse };
  });
}

/** True for outcomes of calls that were sent and not proven to have stayed undone. */
function mayHaveRun(outcome: Outcome): boolean {
  return outcome.kind === 'succeeded' || outcome.kind === 'unknown' || (outcome.kind === 'failed' && outcome.executed);
}

function passedOver({ callId }: ProposedCall): Judgement {
  return {
    callId,
    repeatable: false,
    verdict: {
      kind: 'deny',
      rules: ['default/passed-over'],
      code: 'POLICY_DENIED',
      message: 'No verdict was given for this call.',
    },
  };
}

/** Closes a turn whose outcomes are in the transcript. @param counts set if a policy rule reads the tally */
export function closeTurn(run: Run, counts?: true): Run {
  return {
    ...withRefusals(run),
    calls: [],
    ...(counts === undefined ? {} : { tally: tallied(run.tally ?? EMPTY_TALLY, run.calls) }),
  };
}

// Repeated calls are recognised: a person is asked once, and equal calls of one turn are told apart.
//
// 1. A call that a person rejected or policy denied is refused again, with the same answer, until a message of the user
//    is read (INV-G1).
// 2. Only refusals that hold are kept. An expired or cancelled call may ask again. So may one denied by a limit, by the
//    catalog at that moment, or for its arguments. A call that policy denied may ask once policy asks.
// 3. Equal calls of one turn stay separate (INV-G3): a later one is marked, and needs an approval of its own, or a
//    standing decision.

/** Newest refusals remembered; a forgotten one is asked again. With their texts cut, at most 150 kB to carry. */
export const MOST_REFUSALS = 100;
/** Characters of the reason that a repeat gets: the model has read all of it once. */
const REASON_CHARACTERS = 300;

function withRefusals(run: Run): Run {
  const added = run.calls.filter(isSettled).flatMap(refusalOf);
  if (added.length === 0) return run;
  const isNew = ({ key }: RefusedCall): boolean => !added.some((other) => other.key === key);
  return { ...run, refusals: [...run.refusals.filter(isNew), ...added].slice(-MOST_REFUSALS) };
}

/** The refusal of a repeated call. A person's stands whatever policy says now; policy's only if policy repeats it. */
function answeredBefore(
  { refusals }: Run,
  call: ProposedCall,
  { target, verdict }: Judgement,
): RefusedCall['outcome'] | undefined {
  if (refusals.length === 0 || target === undefined) return undefined;
  const key = keyOf(call, target);
  const outcome = refusals.find((refusal) => refusal.key === key)?.outcome;
  if (outcome?.kind === 'denied' && !(verdict.kind === 'deny' && verdict.code === outcome.code)) return undefined;
  return outcome;
}

/** Returns the id of the first equal call of the turn, if this one is not. @param seen by key */
function firstAlike(seen: Map<string, string>, call: ProposedCall, target: ToolTarget): string | undefined {
  const key = keyOf(call, target);
  const first = seen.get(key);
  if (first === undefined) seen.set(key, call.callId);
  return first;
}

function refusalOf({ call, judgement, outcome, edit }: Settled): RefusedCall[] {
  const target = judgement?.target;
  if (target === undefined) return [];
  // A model repeats what it proposed, so the key has the arguments before any edit.
  const key = keyOf({ ...call, arguments: edit?.proposed ?? call.arguments }, target);
  if ((outcome.kind !== 'rejected' && outcome.kind !== 'denied') || outcome.repeatOf !== undefined) return [];
  const repeatOf = call.callId;
  if (outcome.kind === 'rejected')
    return [{ key, outcome: { ...outcome, reason: bounded(outcome.reason, REASON_CHARACTERS), repeatOf } }];
  // Every other code depends on the moment, or is found again at no cost.
  if (outcome.code !== 'POLICY_DENIED') return [];
  return [{ key, outcome: { ...outcome, message: bounded(outcome.message, REASON_CHARACTERS), repeatOf } }];
}

/** Names a call by what it would do: a repeat has the same key. */
export function keyOf(call: ProposedCall, { server, tool }: ToolTarget): string {
  return hashOf({ server, tool, arguments: call.arguments });
}
