/**
 * Between a run that waits for people and a server that wants its state back: what of a pause is opened before a call, and sealed
 * after it.
 *
 * Owns when the state is in clear: in this process, for one call (INV-S1). Does not own the sealing (`state-seal.ts`).
 * 1. A state that does not open is not asked about: the call begins anew and people's answers are given again, as where the server
 *    itself does not know its state any more.
 */
import type { DispatchInput, DispatchResult } from '../../contracts/activities.ts';
import type { TokenEvidence } from '../../contracts/schemas/call.ts';
import { answersTo, MOST_ROUNDS } from '../../domain/input.ts';
import { answersOf } from '../../domain/provision.ts';
import type { CallEnding, ToolCall } from './port.ts';
import type { StateBinding, StateSeal } from './state-seal.ts';

const NO_KEY =
  'servers may ask people for input only where this worker can seal their state: configure a key in grants.keys';
const EARLIER_RELEASE = 'the run was started by a release that cannot wait for input';

/** Whether the server may ask in this call, and what people have answered so far. */
export async function inputOf(
  dispatch: DispatchInput,
  seal: StateSeal | undefined,
): Promise<Pick<ToolCall, 'input' | 'noInput'>> {
  const { input, attempt } = dispatch;
  if (input === undefined) return { noInput: EARLIER_RELEASE };
  if (seal === undefined) return { noInput: NO_KEY };
  const { leg } = input;
  const answers = answersOf(input.provided);
  const begins = { answers, dispatch: `${leg?.round ?? 0}.${attempt}` };
  if (leg === undefined) return { input: begins };
  const state = leg.state && (await seal.open(leg.state, bindingOf(dispatch, leg.round)));
  if (leg.state !== undefined && state === undefined) return { input: { ...begins, begunAnew: true } };
  const used = [...leg.used, ...Object.values(leg.requests).map(({ hash }) => hash)];
  const { responses } = answersTo(leg.requests, answers);
  return { input: { ...begins, leg: { responses, used, ...(state === undefined ? {} : { state }) } } };
}

export async function pausedBy(
  { requests, state, used }: Extract<CallEnding, { kind: 'input' }>,
  dispatch: DispatchInput,
  seal: StateSeal | undefined,
  token: TokenEvidence,
): Promise<DispatchResult> {
  const round = (dispatch.input?.leg?.round ?? 0) + 1;
  if (round > MOST_ROUNDS) {
    const why = `Tool "${dispatch.target.tool}" of server "${dispatch.server.name}" asked for input more than ${MOST_ROUNDS} times, and has not said whether anything was done. Find out at the server before anything is done again.`;
    return { kind: 'ended', token, outcome: { kind: 'unknown', code: 'OUTCOME_UNKNOWN', message: why } };
  }
  const sealed = state === undefined ? undefined : await seal?.seal(state, bindingOf(dispatch, round));
  return { kind: 'input', round, requests, used, token, ...(sealed === undefined ? {} : { state: sealed }) };
}

function bindingOf({ run, callId, target }: DispatchInput, round: number): StateBinding {
  return {
    namespace: run.namespace,
    workflowId: run.workflowId,
    callId,
    round,
    serverUrl: target.serverUrl,
  };
}
