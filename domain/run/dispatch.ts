/** The input of a dispatch. A run adds what people said; a stretch sends what policy allowed. */
import { defined } from '../../contracts/defined.ts';
import type { Grant, Limits } from '../../contracts/schemas/run-spec.ts';
import type { Tally } from '../../contracts/schemas/run-state.ts';
import type { ServerBinding } from '../../contracts/schemas/tool.ts';
import type { DispatchInput } from '../../contracts/wire/tools.ts';
import type { CallState, InFlight } from '../state/run.ts';
import { earlierThan, resultRoom } from './limits.ts';

/** The parts that the dispatches of all calls of a turn share. */
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
  Pick<DispatchInput, 'proof' | 'retry' | 'input' | 'authorizations' | 'link' | 'hold' | 'resumable'>
>;

/**
 * In mode `signed` a proof covers the text of the input, so the order of the fields is recorded.
 * @param calls of the turn
 */
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
