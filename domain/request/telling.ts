/**
 * Says what is told of a run's requests, to whom, and through which channel.
 *
 * 1. Every event is told once for each generation of a request (INV-D3). A postponed deadline may come near again.
 * 2. A request that opens and closes within one look is not told at all.
 * 3. No redacted argument is told (INV-S1): a message shows a request as lists do.
 * 4. Who is told has no more rights than before: the right to decide is `domain/policy/approvers.ts`.
 */
import { defined } from '../../contracts/defined.ts';
import type { MessageEvent, NotifyRoute } from '../../contracts/schemas/notify.ts';
import type { PauseKind } from '../../contracts/schemas/request.ts';
import type {
  Addressees,
  CarriedMessages,
  Followed,
  MessageInput,
  PreparedNotify,
  ToldRequest,
} from '../../contracts/wire/notify.ts';
import { inWords, isSamePerson, ruleAt } from '../policy/approvers.ts';
import { withoutRedacted } from '../policy/redaction.ts';
import {
  agreedOn,
  type Asking,
  askingCalls,
  callOf,
  type CallState,
  decisionOn,
  isAsking,
  judgementOf,
  requestStatusOf,
  type Run,
  type RunIds,
} from '../state/run.ts';
import { canonicalJson, hashOf } from '../text/canonical.ts';
import { bounded } from '../text/escape.ts';
import { argumentsLine } from '../text/shown-json.ts';
import { shownOf } from './deadline.ts';

/** Time before the deadline at which `expiring` is told, if a route states none. */
const DEFAULT_EXPIRING_SECONDS = 3_600;
const MOST_TOLD = 20;
export const REASON_CHARACTERS = 300;

/** A request, with its approvers of that time, and what happened. */
export interface Told extends Pick<Followed, 'generation' | 'approvers' | 'deadline' | 'about'> {
  readonly event: MessageEvent;
  readonly state: CallState;
  /** Epoch ms; tells two events of one kind apart. Of `expiring`: the time that its routes state. */
  readonly at?: number;
}

export type Open = CarriedMessages['open'];

/** Compares the open requests with those known before. @param now epoch ms */
export function follow(
  known: Open,
  run: Run,
  notify: PreparedNotify,
  now: number,
): { readonly open: Open; readonly told: readonly Told[] } {
  const told: Told[] = [];
  const open: Record<string, Followed> = {};
  for (const state of askingCalls(run)) {
    const { callId } = state.call;
    const before = known[callId];
    const isNew = before?.generation !== state.request.generation;
    const passed = warningsOf(state, notify).filter((at) => at <= now);
    const followed = followedOf(state, isNew ? undefined : before, passed, now);
    open[callId] = followed;
    for (const [event, at] of eventsOf(isNew ? undefined : before, followed, passed))
      told.push({ event, state, ...aboutOf(followed), ...defined({ at }) });
  }
  for (const [callId, before] of Object.entries(known)) {
    const state = callOf(run, callId);
    if (open[callId] === undefined && state !== undefined) told.push({ event: 'closed', state, ...aboutOf(before) });
  }
  return { open, told };
}

function aboutOf({ generation, approvers, deadline, about }: Followed) {
  return { generation, approvers, deadline, ...defined({ about }) };
}

function followedOf(
  { request }: Asking,
  before: Followed | undefined,
  passed: readonly number[],
  now: number,
): Followed {
  const { remindedAt, escalatedAt } = shownOf(request);
  return {
    generation: request.generation,
    approvers: ruleAt(request.approvers, now - request.openedAt),
    deadline: request.deadline,
    ...defined({
      about: request.about?.kind,
      escalatedAt,
      warned: passed.at(-1) ?? before?.warned,
    }),
    ...(remindedAt === undefined ? {} : { reminded: true }),
  };
}

function eventsOf(
  before: Followed | undefined,
  now: Followed,
  passed: readonly number[],
): [event: MessageEvent, at?: number][] {
  if (before === undefined) return [[now.about === 'outcome' ? 'unknown' : 'opened']];
  const { reminded, escalatedAt } = now;
  const events: [event: MessageEvent, at?: number][] = [];
  if (reminded !== undefined && before.reminded === undefined) events.push(['reminder']);
  if (escalatedAt !== undefined && escalatedAt !== before.escalatedAt) events.push(['escalation', escalatedAt]);
  for (const at of passed) if (isAfter(at, before.warned)) events.push(['expiring', at]);
  return events;
}

/** Leaves out what is over: of a closed request that it is closed is news, unless its opening was not told before. */
export function withoutPassing(told: readonly Told[], open: Open): readonly Told[] {
  const idOf = ({ state, generation }: Told): string => `${state.call.callId}/${generation}`;
  const opened = new Set(told.filter(({ event }) => event === 'opened' || event === 'unknown').map(idOf));
  return told.filter((each) =>
    each.event === 'closed' ? !opened.has(idOf(each)) : open[each.state.call.callId]?.generation === each.generation,
  );
}

/** Returns the next time at which a deadline comes near, in epoch ms. */
export function nextWarning(open: Open, run: Run, notify: PreparedNotify): number | undefined {
  const times = askingCalls(run).flatMap((state) =>
    warningsOf(state, notify).filter((at) => isAfter(at, open[state.call.callId]?.warned)),
  );
  return times.length === 0 ? undefined : Math.min(...times);
}

function isAfter(at: number, before: number | undefined): boolean {
  return before === undefined || at > before;
}

/** Returns the times that routes state, the first one first; a request that opens later is not told of that one. */
function warningsOf(state: Asking, notify: PreparedNotify): readonly number[] {
  const { deadline, openedAt } = state.request;
  const times = routesOf(state, notify)
    .filter(({ on }) => on === undefined || on.includes('expiring'))
    .map((route) => warningAt(route, deadline))
    .filter((at) => at > openedAt);
  return [...new Set(times)].toSorted((one, other) => one - other);
}

function warningAt({ expiringSeconds = DEFAULT_EXPIRING_SECONDS }: NotifyRoute, deadline: number): number {
  return deadline - expiringSeconds * 1_000;
}

function routesOf(state: CallState, { routes }: PreparedNotify): readonly NotifyRoute[] {
  const verdict = judgementOf(state)?.verdict;
  return (verdict?.kind === 'ask' ? verdict.notify : undefined) ?? routes;
}

/** One message for each channel, event and set of people. @param wanted which channels */
export function messagesOf(
  told: readonly Told[],
  notify: PreparedNotify,
  { identity, ids }: { readonly identity: MessageInput['run']; readonly ids: RunIds },
  wanted: (channel: string) => boolean,
): readonly MessageInput[] {
  const groups = new Map<
    string,
    { readonly first: Pick<MessageInput, 'channel' | 'event' | 'to'>; readonly told: Told[] }
  >();
  for (const each of told) {
    for (const [channel, to] of peopleBy(each, routesOf(each.state, notify), identity.initiator.id)) {
      if (!wanted(channel)) continue;
      const key = canonicalJson([channel, each.event, to.ids, to.groups]);
      const group = groups.get(key) ?? { first: { channel, event: each.event, to }, told: [] };
      // A worker that was away meets both times before a deadline at once.
      if (group.told.some(({ state }) => state.call.callId === each.state.call.callId)) continue;
      group.told.push(each);
      groups.set(key, group);
    }
  }
  return [...groups.values()].map(({ first, told: all }) => {
    const requests = all.slice(0, MOST_TOLD).map(toldRequest);
    const more = all.length - requests.length;
    const marks = all.map(({ state, generation, at = 0 }) => [state.call.callId, generation, at]);
    const { namespace, workflowId, runId } = ids;
    const key = hashOf([namespace, workflowId, runId, first.channel, first.event, marks]);
    return { key, ...first, run: identity, requests, ...(more === 0 ? {} : { more }) };
  });
}

function peopleBy(told: Told, routes: readonly NotifyRoute[], initiatorId: string): ReadonlyMap<string, Addressees> {
  const by = new Map<string, Addressees>();
  for (const route of routes) {
    const { channel, on, to = 'approvers' } = route;
    if (on !== undefined && !on.includes(told.event)) continue;
    if (told.event === 'expiring' && warningAt(route, told.deadline) !== told.at) continue;
    const { ids, groups } = by.get(channel) ?? { ids: [], groups: [] };
    const more = addresseesOf(to, told, initiatorId);
    by.set(channel, { ids: distinct([...ids, ...more.ids]), groups: distinct([...groups, ...more.groups]) });
  }
  return by;
}

/** Approvers who have agreed already are left out until the request closes. */
function addresseesOf(to: NonNullable<NotifyRoute['to']>, { approvers, state }: Told, initiatorId: string): Addressees {
  if (to === 'initiator') return { ids: [initiatorId], groups: [] };
  if (to !== 'approvers') return to;
  const agreed = isAsking(state) ? agreedOn(state) : [];
  const isIn = (ids: readonly string[], id: string): boolean => ids.some((each) => isSamePerson(approvers, each, id));
  return {
    ids: approvers.allOf.flatMap(({ ids, not = [] }) => ids.filter((id) => !isIn(not, id) && !isIn(agreed, id))),
    groups: approvers.allOf.flatMap(({ groups }) => groups),
  };
}

function distinct(values: readonly string[]): readonly string[] {
  return [...new Set(values)].toSorted();
}

function toldRequest({ event, state, generation, approvers, deadline, about }: Told): ToldRequest {
  const judgement = judgementOf(state);
  const { server = '', tool = state.call.name } = judgement?.target ?? {};
  const verdict = judgement?.verdict;
  const explain = (verdict?.kind === 'ask' ? (verdict.explain ?? []) : []).map(({ text }) =>
    bounded(text, REASON_CHARACTERS),
  );
  const because = isAsking(state) && event !== 'closed' ? state.request.because : undefined;
  return {
    callId: state.call.callId,
    generation,
    server,
    tool,
    arguments: argumentsLine(withoutRedacted(state.call.arguments, judgement?.redact)),
    who: bounded(inWords(approvers), REASON_CHARACTERS),
    deadline: new Date(deadline).toISOString(),
    rules: verdict?.rules ?? [],
    ...(explain.length === 0 ? {} : { explain }),
    ...defined({ about, because: because === undefined ? undefined : bounded(because, REASON_CHARACTERS) }),
    ...(event === 'closed' ? { closed: closedAs(state, about) } : {}),
  };
}

/** How a request closed. A call that goes on after an answer keeps no sign of it where all can see it. */
function closedAs(state: CallState, about: PauseKind | undefined): NonNullable<ToldRequest['closed']> {
  if (about === undefined) {
    const by = decisionOn(state)?.decision.approver.id;
    return { status: requestStatusOf(state), ...defined({ by }) };
  }
  if (state.status !== 'settled') return { status: 'answered' };
  const by = state.pause?.status === 'resolved' ? state.pause.by.id : undefined;
  return { status: requestStatusOf(state), ...defined({ by }) };
}
