/**
 * Between a run that waits for people and a server that wants its state back: what of a pause is opened before a call, and sealed
 * after it.
 *
 * Owns when the state is in clear: in this process, for one call (INV-S1). Does not own the sealing (`state-seal.ts`).
 * 1. A state that does not open is not asked about: the call begins anew and people's answers are given again, as where the server
 *    itself does not know its state any more.
 * 2. In trust mode `signed` it is sealed with what was asked, also where the server gave none: nobody else says which questions are
 *    answered by what people said. A pause that an earlier release has kept is not proven so: its call begins anew. In mode `temporal`
 *    it is kept as earlier releases keep it, which may take the call up where both are there.
 */
import type { DispatchInput, DispatchResult } from '../../contracts/dispatch.ts';
import type { InputLeg } from '../../contracts/dispatched-input.ts';
import type { TokenEvidence } from '../../contracts/schemas/call.ts';
import type { TrustConfig } from '../../contracts/schemas/trust.ts';
import { hashOf } from '../../domain/canonical.ts';
import { answersTo, MOST_ROUNDS } from '../../domain/input.ts';
import { answersOf } from '../../domain/provision.ts';
import type { CallEnding, ToolCall } from './port.ts';
import type { QuestionMacs } from './question-mac.ts';
import type { LegBinding, StateBinding, StateSeal } from './state-seal.ts';

const NO_KEY =
  'servers may ask people for input only where this worker can seal their state: configure a key in grants.keys';
const EARLIER_RELEASE = 'the run was started by a release that cannot wait for input';
/** Before what is sealed: a state may be empty, and a server may give none. */
const STATE = '+';
const NO_STATE = '-';

/** Whether the server may ask in this call, and what people have answered so far. */
export async function inputOf(
  dispatch: DispatchInput,
  seal: StateSeal | undefined,
  mode: TrustConfig['mode'],
): Promise<Pick<ToolCall, 'input' | 'noInput'>> {
  const { input, attempt } = dispatch;
  if (input === undefined) return { noInput: EARLIER_RELEASE };
  if (seal === undefined) return { noInput: NO_KEY };
  const { leg } = input;
  const answers = answersOf(input.provided);
  const begins = { answers, dispatch: `${leg?.round ?? 0}.${attempt}` };
  if (leg === undefined) return { input: begins };
  const opened = await openedLeg(leg, dispatch, seal, mode);
  if (opened === undefined) return { input: { ...begins, begunAnew: true } };
  const used = [...leg.used, ...Object.values(leg.requests).map(({ hash }) => hash)];
  const { responses } = answersTo(leg.requests, answers);
  return { input: { ...begins, leg: { responses, used, ...opened } } };
}

/** The server's state; undefined where no worker of the zone was asked this, or none can tell. */
async function openedLeg(
  leg: InputLeg,
  dispatch: DispatchInput,
  seal: StateSeal,
  mode: TrustConfig['mode'],
): Promise<{ readonly state?: string } | undefined> {
  const sealed = leg.state && (await seal.open(leg.state, legBindingOf(dispatch, leg)));
  if (sealed !== undefined) return sealed.startsWith(STATE) ? { state: sealed.slice(STATE.length) } : {};
  if (mode === 'signed') return undefined;
  // As earlier releases kept it.
  if (leg.state === undefined) return {};
  const state = await seal.open(leg.state, bindingOf(dispatch, leg.round));
  return state === undefined ? undefined : { state };
}

interface Sealing {
  readonly seal?: StateSeal | undefined;
  readonly macs?: QuestionMacs | undefined;
  readonly mode: TrustConfig['mode'];
}

export async function pausedBy(
  { requests, state, used }: Extract<CallEnding, { kind: 'input' }>,
  dispatch: DispatchInput,
  { seal, macs, mode }: Sealing,
  token: TokenEvidence,
): Promise<DispatchResult> {
  const round = (dispatch.input?.leg?.round ?? 0) + 1;
  if (round > MOST_ROUNDS) {
    const why = `Tool "${dispatch.target.tool}" of server "${dispatch.server.name}" asked for input more than ${MOST_ROUNDS} times, and has not said whether anything was done. Find out at the server before anything is done again.`;
    return { kind: 'ended', token, outcome: { kind: 'unknown', code: 'OUTCOME_UNKNOWN', message: why } };
  }
  // Servers are told that they may ask only where there is a key.
  if (seal === undefined || macs === undefined) throw new Error('a server has asked what nothing can seal');
  const asked = { kind: 'input', round, requests: macs.marked(requests, dispatch), used, token } as const;
  if (mode === 'signed') {
    const binding = legBindingOf(dispatch, { round, requests, used });
    return { ...asked, state: await seal.seal(state === undefined ? NO_STATE : `${STATE}${state}`, binding) };
  }
  return state === undefined ? asked : { ...asked, state: await seal.seal(state, bindingOf(dispatch, round)) };
}

function legBindingOf(dispatch: DispatchInput, { round, requests, used }: Omit<InputLeg, 'state'>): LegBinding {
  const hashes = Object.fromEntries(Object.entries(requests).map(([key, { hash }]) => [key, hash]));
  const { server, target, arguments: args } = dispatch;
  return {
    use: 'leg',
    ...bindingOf(dispatch, round),
    server: server.name,
    tool: target.tool,
    argumentsHash: hashOf(args),
    asked: hashOf({ requests: hashes, used }),
  };
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
