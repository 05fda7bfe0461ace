/**
 * A standing decision is a remembered approval: what it covers, which later calls it answers, how it begins and ends.
 *
 * 1. Each list of the rule that asked must let it be remembered, and so must the rule of the answered call (INV-G4).
 * 2. If several agreed, the result is what all of them said: the narrowest scope, all names, the earliest end.
 * 3. It answers only the same tool of the same server, as it was shown, and reached as it was then (INV-G1).
 *
 * One file, because what a remembered approval covers is what lets it begin, answer and end.
 */
import { defined } from '../../contracts/defined.ts';
import type { Judgement, ToolTarget } from '../../contracts/schemas/call.ts';
import type { JsonObject } from '../../contracts/schemas/json.ts';
import type { LedgerFact } from '../../contracts/schemas/ledger.ts';
import type { ApproverRule, RememberScope } from '../../contracts/schemas/policy.ts';
import type {
  Approver,
  Decision,
  Forget,
  ForgetAck,
  Remember,
  SignedDecision,
} from '../../contracts/schemas/request.ts';
import type { StandingDecision } from '../../contracts/schemas/run-state.ts';
import type { Standing } from '../../contracts/wire/carry.ts';
import type { DispatchProof } from '../../contracts/wire/proofs.ts';
import { isMet, mayDecide } from '../policy/approvers.ts';
import { withoutRedacted } from '../policy/redaction.ts';
import {
  type Approved,
  approved,
  callOf,
  type CallState,
  type Change,
  isEdit,
  isSendable,
  type Run,
  type RunIds,
  type Sendable,
  type WaitingForConsent,
  withoutComment,
} from '../state/run.ts';
import { byteLength, canonicalJson } from '../text/canonical.ts';
import { type Refusal, refuse } from '../text/refusal.ts';
import { lapsedSince } from './deadline.ts';
import { requestOpenedFact } from './digest.ts';
import { reopened, warned } from './transitions.ts';

/** Standing decisions of one run: each travels with the run, and with every call that it answers. */
const MOST_STANDING = 20;
/** Bytes of the shown arguments as canonical JSON: they are kept, to prove the decision. */
export const MOST_REMEMBERED_BYTES = 4_096;
/** UTF-8 bytes of one standing decision, which goes with each call that it answers, up to 64 in one workflow task. */
export const MOST_STANDING_BYTES = 12_288;
/** UTF-8 bytes of all standing decisions of a run: they travel through continue-as-new. */
export const MOST_STANDINGS_BYTES = 131_072;

export interface Extent {
  readonly scope: RememberScope;
  readonly names?: readonly string[];
  /** Epoch ms. */
  readonly until?: number;
}

const WIDTH: Readonly<Record<RememberScope, number>> = { call: 0, arguments: 1, tool: 2 };

/** Returns the extent that all decisions agree on; undefined if one of them is not to be remembered. */
export function extentOf(decisions: readonly Decision[]): Extent | undefined {
  const said = decisions.map((decision) => (decision.kind === 'approve' ? decision.remember : undefined));
  const all = said.filter((each) => each !== undefined);
  const [first] = all;
  if (first === undefined || all.length < said.length || decisions.some(isEdit)) return undefined;
  const { scope } = all.reduce((least, each) => (WIDTH[each.scope] < WIDTH[least.scope] ? each : least), first);
  const names = new Set(all.flatMap((each) => (each.scope === 'arguments' ? each.names : [])));
  const ends = all.flatMap(({ until }) => (until === undefined ? [] : [Date.parse(until)]));
  return {
    scope,
    ...(scope === 'arguments' ? { names: [...names].toSorted() } : {}),
    ...(ends.length === 0 ? {} : { until: Math.min(...ends) }),
  };
}

/** True if an approval of the `shown` arguments extends to these arguments. */
export function covers({ scope, names = [] }: Extent, shown: JsonObject, args: JsonObject): boolean {
  switch (scope) {
    case 'call':
      return canonicalJson(shown) === canonicalJson(args);
    case 'arguments':
      return (
        names.length > 0 &&
        names.every(
          (name) =>
            Object.hasOwn(shown, name) &&
            Object.hasOwn(args, name) &&
            canonicalJson(shown[name]) === canonicalJson(args[name]),
        )
      );
    case 'tool':
      return true;
  }
}

export function mayRemember({ allOf }: ApproverRule, scope: RememberScope): boolean {
  return allOf.length > 0 && allOf.every(({ remember }) => remember?.includes(scope) === true);
}

/** True while the decision has neither ended nor lapsed. @param now epoch ms */
function holds({ decisions, approvers, decidedAt }: Standing, now: number): boolean {
  const until = extentOf(decisions)?.until;
  return (until === undefined || now < until) && lapsedSince(decidedAt, now, approvers) === undefined;
}

/** True if the standing decision also answers this request. @param now epoch ms */
export function answers(
  standing: Standing,
  { call, judgement, request, unsure }: WaitingForConsent,
  now: number,
): boolean {
  const extent = extentOf(standing.decisions);
  return (
    extent !== undefined &&
    // A request that was opened again needs a fresh decision, whatever the reason.
    request.generation === 1 &&
    unsure === undefined &&
    holds(standing, now) &&
    now < request.deadline &&
    lapsedSince(standing.decidedAt, now, request.approvers) === undefined &&
    isSameTool(standing, judgement) &&
    covers(extent, standing.arguments, call.arguments) &&
    mayRemember(request.approvers, extent.scope) &&
    isMet(request.approvers, agreedTo(standing)) &&
    // The approvers must also be entitled now, after any escalation that replaced them.
    isMet(
      request.approvers,
      agreedTo(standing).map((approver) => ({ ...approver, after: now - request.openedAt })),
    )
  );
}

function isSameTool(
  { target, connection }: Standing,
  now: { readonly target: ToolTarget; readonly connection?: string | undefined },
): boolean {
  return (
    isOfTool(target, now.target) &&
    target.serverUrl === now.target.serverUrl &&
    target.definitionHash === now.target.definitionHash &&
    target.hosted === now.target.hosted &&
    connection === now.connection
  );
}

function isOfTool(one: ToolTarget, other: ToolTarget): boolean {
  return one.server === other.server && one.tool === other.tool;
}

function agreedTo({ decisions }: Pick<Standing, 'decisions'>): readonly Approver[] {
  return decisions.map(({ approver }) => approver);
}

function approvedBy(state: WaitingForConsent, { id, decisions, decidedAt }: Standing): Approved {
  const [decision, ...others] = decisions;
  // Sound: a standing decision has at least one decision.
  const made = { decision: decision as SignedDecision, decidedAt, standing: id };
  return approved(
    state,
    made,
    others.map((each) => ({ decision: each, decidedAt })),
  );
}

/** Refuses an approval that cannot be remembered. @param now epoch ms */
export function refuseRemember(
  { standing = [] }: Run,
  { call, request, votes = [] }: WaitingForConsent,
  decision: Extract<Decision, { kind: 'approve' }>,
  remember: Remember,
  now: number,
): Refusal | undefined {
  const { callId } = decision;
  const wrong = (reason: string, path: string): Refusal =>
    refuse('DECISION_INVALID', `${path} ${reason}; nothing was changed.`, { callId, path });
  if (!mayRemember(request.approvers, remember.scope))
    return refuse(
      'DECISION_NOT_PERMITTED',
      `Policy does not let approvals of call ${callId} be remembered so (${remember.scope}); approve it without.`,
      { callId },
    );
  // A person entitled only by an escalation would be entitled later for later calls, too.
  if (!mayDecide(request.approvers, decision.approver))
    return refuse(
      'DECISION_NOT_PERMITTED',
      `Only those who may decide call ${callId} from the beginning may have it remembered; approve it without.`,
      { callId },
    );
  if (isEdit(decision)) return wrong('cannot be said of other arguments than were shown', 'remember');
  if (remember.until !== undefined && !(now < Date.parse(remember.until)))
    return wrong('must be later than now', 'remember.until');
  if (remember.scope === 'arguments' && !remember.names.every((name) => Object.hasOwn(call.arguments, name)))
    return wrong('must be names of arguments that the call has', 'remember.names');
  if (byteLength(canonicalJson(call.arguments)) > MOST_REMEMBERED_BYTES)
    return refuse(
      'ARGUMENTS_TOO_LARGE',
      `Calls whose arguments have more than ${MOST_REMEMBERED_BYTES} bytes are not remembered; approve it without.`,
      { callId, path: 'remember' },
    );
  const bytes = bytesOf(call.arguments, request.approvers, [...votes.map((vote) => vote.decision), decision]);
  if (bytes > MOST_STANDING_BYTES)
    return refuse(
      'LIMIT_REACHED',
      `What would be kept of the approvals of call ${callId} has ${bytes} bytes; ${MOST_STANDING_BYTES} are remembered. Say less with it, or approve it without.`,
      { callId, limit: 'standing' },
    );
  const held = standing.filter((each) => holds(each, now));
  const heldBytes = held.reduce((sum, each) => sum + bytesOf(each.arguments, each.approvers, each.decisions), 0);
  if (held.length < MOST_STANDING && heldBytes + bytes <= MOST_STANDINGS_BYTES) return undefined;
  return refuse(
    'LIMIT_REACHED',
    `${held.length} decisions of this run stand, and there is no room for another; forget one, or approve it without remembering it.`,
    { callId, limit: 'standing' },
  );
}

function bytesOf(args: JsonObject, approvers: ApproverRule, decisions: readonly SignedDecision[]): number {
  return byteLength(canonicalJson([args, approvers, decisions]));
}

export function proofOf(standing: Standing): DispatchProof {
  const { id, decisions, callId, generation, approvers, connection, grant } = standing;
  return {
    kind: 'standing',
    standing: id,
    decisions,
    callId,
    shown: { generation, arguments: standing.arguments, approvers },
    deadline: new Date(standing.deadline).toISOString(),
    decidedAt: new Date(standing.decidedAt).toISOString(),
    ...defined({ connection, grant }),
  };
}

/** Returns the view for people and clients, without the arguments that policy redacts. */
export function shownStanding(standing: Standing): StandingDecision {
  const { id, callId, target, decisions, decidedAt } = standing;
  const { scope, names = [], until } = extentOf(decisions) ?? { scope: 'call' };
  const named = Object.entries(withoutRedacted(standing.arguments, standing.redact)).filter(
    ([name]) => scope === 'call' || names.includes(name),
  );
  return {
    standing: id,
    callId,
    server: target.server,
    tool: target.tool,
    scope,
    ...(scope === 'tool' ? {} : { arguments: Object.fromEntries(named) }),
    ...(until === undefined ? {} : { until: new Date(until).toISOString() }),
    by: agreedTo(standing).map(({ id: person }) => person),
    at: new Date(decidedAt).toISOString(),
  };
}

/** Number of newest withdrawn standing decisions remembered, so that a repeated withdrawal gets the first answer. */
export const MOST_FORGOTTEN = 100;

/**
 * Makes a standing decision of an approval if its approvers asked for one, and releases waiting calls that it covers.
 * @param at epoch ms
 * @param grant hash of the run's grant for the server
 */
export function remembered(run: Run, callId: string, at: number, grant?: string): Change {
  const state = callOf(run, callId);
  if (state?.status !== 'approved' || state.consent.made.standing !== undefined) return { run, facts: [] };
  const { consent, judgement, call } = state;
  const { made, request } = consent;
  const decisions = [made, ...(made.further ?? [])].map(({ decision }) => withoutComment(decision));
  const extent = extentOf(decisions);
  const current = stillStanding(run, [], at);
  const kept = current.run.standing ?? [];
  // Approvers who may decide only since an escalation do not count here.
  const isMeant = isMet(
    request.approvers,
    decisions.map(({ approver }) => approver),
  );
  if (extent === undefined || !isMeant || kept.length >= MOST_STANDING) return current;
  const standing: Standing = {
    id: made.decision.decisionId,
    callId,
    target: judgement.target,
    generation: request.generation,
    arguments: call.arguments,
    approvers: request.approvers,
    deadline: request.deadline,
    decidedAt: made.decidedAt,
    decisions,
    ...defined({ redact: judgement.redact, connection: judgement.connection, grant }),
  };
  const facts: LedgerFact[] = [
    ...current.facts,
    {
      kind: 'standing.made',
      standing: standing.id,
      callId,
      scope: extent.scope,
      ...(extent.names === undefined ? {} : { names: [...extent.names] }),
      ...(extent.until === undefined ? {} : { until: new Date(extent.until).toISOString() }),
      by: agreedTo(standing).map(({ id }) => id),
    },
  ];
  const calls = run.calls.map((waiting) => {
    if (waiting.status !== 'waiting-for-consent' || !answers(standing, waiting, at)) return waiting;
    facts.push({ kind: 'standing.used', standing: standing.id, callId: waiting.call.callId });
    return approvedBy(waiting, standing);
  });
  return { run: { ...run, calls, standing: [...kept, standing] }, facts };
}

/** Answers a call that was just judged, if a standing decision covers it. @param at epoch ms */
export function answeredByStanding(
  { standing = [] }: Run,
  state: CallState,
  at: number,
): { readonly next: CallState; readonly facts: readonly LedgerFact[] } {
  if (state.status !== 'waiting-for-consent') return { next: state, facts: [] };
  const found = standing.find((each) => answers(each, state, at));
  if (found === undefined) return { next: state, facts: [] };
  return {
    next: approvedBy(state, found),
    facts: [{ kind: 'standing.used', standing: found.id, callId: state.call.callId }],
  };
}

/** Ends standing decisions that are over, or whose tool has changed by these judgements. @param at epoch ms */
export function stillStanding(run: Run, judgements: readonly Judgement[], at: number): Change {
  const { standing } = run;
  if (standing === undefined) return { run, facts: [] };
  const facts: LedgerFact[] = [];
  const kept = standing.filter((each) => {
    const because = !holds(each, at) ? 'it is over' : judgements.some(hasChanged(each)) ? 'the tool has changed' : '';
    if (because !== '') facts.push({ kind: 'standing.forgotten', standing: each.id, because });
    return because === '';
  });
  return facts.length === 0 ? { run, facts } : { run: { ...run, standing: kept }, facts };
}

function hasChanged(standing: Standing): (judgement: Judgement) => boolean {
  return ({ target, connection, verdict }) =>
    target !== undefined &&
    // The judge reports the connection of a server only for asked calls.
    verdict.kind === 'ask' &&
    isOfTool(standing.target, target) &&
    !isSameTool(standing, { target, connection });
}

export function lost(run: Run, id: string, code: string): Change {
  if (run.standing?.some((each) => each.id === id) !== true) return { run, facts: [] };
  return {
    run: { ...run, standing: run.standing.filter((each) => each.id !== id) },
    facts: [{ kind: 'standing.forgotten', standing: id, because: code }],
  };
}

/** The standing decision that answered a call, if it still holds. @param now epoch ms */
export function standingOf({ standing = [] }: Run, id: string | undefined, now: number): Standing | undefined {
  return standing.find((each) => each.id === id && holds(each, now));
}

export type ForgetAdmission =
  | { readonly kind: 'accept'; readonly standing: Standing }
  | { readonly kind: 'repeat'; readonly ack: ForgetAck }
  | Refusal;

export function admitForget({ standing = [], forgotten = [] }: Run, { standing: id, by }: Forget): ForgetAdmission {
  const found = standing.find((each) => each.id === id);
  if (found === undefined) {
    const ack = forgotten.find((each) => each.standing === id);
    if (ack !== undefined) return { kind: 'repeat', ack };
    return refuse('STANDING_UNKNOWN', `No decision ${id} stands in this run; its state lists those that do.`, {
      standing: id,
    });
  }
  if (mayDecide(found.approvers, by)) return { kind: 'accept', standing: found };
  return refuse('APPROVER_NOT_ENTITLED', `${by.id} may not take back decision ${id}: whoever may decide so may.`, {
    standing: id,
  });
}

export function callsApprovedBy({ calls }: Run, { id }: Standing): readonly Sendable[] {
  return calls.filter(isSendable).filter(({ consent }) => consent?.made.standing === id);
}

/**
 * Takes a standing decision back. Calls that it approved and that are not sent yet are asked after all.
 * @param at epoch ms
 * @param isAnew false: for the rest of the time in which they had waited (patch `as-documented`)
 */
export function forget(
  run: Run,
  { id }: Standing,
  { by, comment }: Forget,
  ids: RunIds,
  at: number,
  isAnew = true,
): Change & { readonly ack: ForgetAck } {
  const ack = { standing: id, forgottenBy: by.id, forgottenAt: new Date(at).toISOString() };
  const facts: LedgerFact[] = [
    { kind: 'standing.forgotten', standing: id, by: by.id, ...defined({ because: comment }) },
  ];
  const calls = run.calls.map((state) => {
    if (!isSendable(state) || state.consent?.made.standing !== id) return state;
    const { approvers, deadline } = state.consent.request;
    const { verdict } = state.judgement;
    const deadlineSeconds =
      isAnew && verdict.kind === 'ask' ? verdict.deadlineSeconds : Math.max(1, Math.ceil((deadline - at) / 1_000));
    const because = warned(state, `STANDING_LOST: ${FORGOTTEN}`, isAnew);
    const next = reopened(state, { at, because, approvers, deadlineSeconds, isAnew });
    facts.push(requestOpenedFact(next, ids));
    return next;
  });
  const standing = (run.standing ?? []).filter((each) => each.id !== id);
  const forgotten = [...(run.forgotten ?? []), ack].slice(-MOST_FORGOTTEN);
  return { ack, run: { ...run, calls, standing, forgotten }, facts };
}

export const FORGOTTEN = 'The decision that answered it no longer stands.';
