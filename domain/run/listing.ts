/**
 * Turns a refused `tools/list` into a request to people, if a missing grant is the reason (docs/adr/0043).
 *
 * 1. The list stands among the calls as a call of turn 0, so that it is shown, answered and carried like other
 *    requests. No model proposed the list: it is not counted, not dispatched and not told to a model.
 * 2. People are asked about a list as often as about a call (`MOST_AUTHORIZATIONS`), and not more.
 */
import { type CallId, callIdOf, isListing } from '../../contracts/ids.ts';
import type { AuthorizationPause } from '../../contracts/schemas/answer.ts';
import type { ServerBinding } from '../../contracts/schemas/tool.ts';
import { authorizationPause } from '../request/authorization.ts';
import { type CallState, type InFlight, resolvedOf } from '../state/call.ts';
import { requestOpenedFact } from '../request/facts.ts';
import { paused, type Pausing } from '../request/pause.ts';
import { hashOf } from '../text/canonical.ts';
import { callOf, type Change, replaceCall, type Run, type RunIds } from '../state/run.ts';
import type { AuthorizationNeed } from '../../contracts/wire/proofs.ts';

export type Unhelped = Pick<AuthorizationNeed, 'reason' | 'message'>;

/** MCP method. */
const LIST = 'tools/list';

/**
 * Opens a request for the authorization that the server requires; undefined once the list was asked about too often.
 */
export function listingAsked(
  run: Run,
  { server, index }: { readonly server: Pick<ServerBinding, 'name' | 'url'>; readonly index: number },
  need: AuthorizationNeed,
  pausing: Pausing,
  ids: RunIds,
): Change | undefined {
  const before = callOf(run, listingId(index));
  const state = before?.status === 'cleared' ? underWay(before) : firstOf(server, index);
  const about: AuthorizationPause | undefined = authorizationPause(state, need);
  if (about === undefined) return undefined;
  const next = paused(state, about, pausing);
  const asked = before === undefined ? { ...run, calls: [...run.calls, next] } : replaceCall(run, next);
  return { run: asked, facts: [requestOpenedFact(next, ids)] };
}

/** Removes the lists once all of them are there; the following turns have no such calls. */
export function listed(run: Run): Run {
  return { ...run, calls: run.calls.filter(({ call }) => !isListing(call.callId)) };
}

/** Returns why a list was refused, after people did not help. */
export function whyEnded({ request, outcome }: Extract<CallState, { status: 'settled' }>): Unhelped {
  const about = request?.about;
  if (about?.kind !== 'authorization') return { reason: 'INTERNAL', message: 'The list of tools was ended.' };
  const { reason, message } = about;
  if (outcome.kind === 'rejected')
    return { reason, message: `${message} ${outcome.by} gives no other: ${outcome.reason}` };
  if (outcome.kind === 'expired')
    return { reason, message: `${message} Nobody gave another one by ${outcome.deadline}.` };
  return { reason, message };
}

function underWay(state: Parameters<typeof resolvedOf>[0]): InFlight {
  return { status: 'in-flight', ...resolvedOf(state) };
}

function firstOf({ name, url }: Pick<ServerBinding, 'name' | 'url'>, index: number): InFlight {
  const callId = listingId(index);
  return {
    status: 'in-flight',
    call: { callId, providerCallId: '', name: LIST, arguments: {} },
    judgement: {
      callId,
      verdict: { kind: 'allow', rules: ['default/list-tools'] },
      repeatable: true,
      // A list has no definition; the constant hash keeps repeated requests alike.
      target: { server: name, serverUrl: url, tool: LIST, definitionHash: hashOf(LIST) },
    },
    attempts: 0,
  };
}

/**
 * Returns the id of a list as a call of turn 0, in which no model proposes calls.
 * @param index place of the server among those of the run
 */
export function listingId(index: number): CallId {
  return callIdOf(0, index);
}
