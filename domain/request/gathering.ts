/**
 * Says what a digest tells of the requests of several runs, by what these runs say of them.
 *
 * 1. A pointer only says where to look: words, arguments and who decided are the run's own (INV-S1).
 * 2. Nobody is told whom the run would not have told: by its own approvers and initiator, and by the routes that the
 *    organisation's policy has now.
 * 3. A request stands in a digest once. One that was decided meanwhile is not told, nor that it is closed (INV-D3).
 */
import { defined } from '../../contracts/defined.ts';
import { DIGEST_PREFIX } from '../../contracts/names.ts';
import type { LedgerEntry, LedgerFact } from '../../contracts/schemas/ledger.ts';
import type { Digest, Gathered, MessageEvent, NotifyRoute } from '../../contracts/schemas/notify.ts';
import type { ApproverRule, OrganisationPolicy } from '../../contracts/schemas/policy.ts';
import type { ApprovalRequest } from '../../contracts/schemas/request.ts';
import type { Addressees, ToldRequest } from '../../contracts/wire/notify.ts';
import { inWords, isSamePerson, peopleEver, ruleAt } from '../policy/approvers.ts';
import { withoutDoubt } from '../policy/judge.ts';
import { shownArguments } from '../policy/redaction.ts';
import { hashOf } from '../text/canonical.ts';
import { bounded } from '../text/escape.ts';
import { argumentsLine } from '../text/shown-json.ts';
import { REASON_CHARACTERS } from './telling.ts';

/** Workflow id of a digest: `digest/TENANT/CHANNEL/PEOPLE`. A hash keeps people out of it. */
export function digestIdOf({ tenant, channel, to }: Omit<Digest, 'seconds'>): string {
  return `${DIGEST_PREFIX}${encodeURIComponent(tenant)}/${channel}/${hashOf([to.ids, to.groups])}`;
}

export interface News {
  readonly run: string;
  readonly callId: string;
  readonly generation: number;
  readonly event: MessageEvent;
}

/** Returns the news, one for each request, in the order in which they came. */
export function newsIn(gathered: readonly Gathered[]): readonly News[] {
  const requests = new Map<string, { readonly news: Omit<News, 'event'>; readonly events: MessageEvent[] }>();
  for (const { run, event, calls } of gathered)
    for (const { callId, generation } of calls) {
      const id = `${callId} ${generation} ${run}`;
      const known = requests.get(id) ?? { news: { run, callId, generation }, events: [] };
      known.events.push(event);
      requests.set(id, known);
    }
  return [...requests.values()].flatMap(({ news, events }) => {
    const event = newsOf(events);
    return event === undefined ? [] : [{ ...news, event }];
  });
}

/** That a request is closed is news, unless its opening is told here for the first time; else the opening is first. */
function newsOf(events: readonly MessageEvent[]): MessageEvent | undefined {
  const opening = events.find((event) => event === 'opened' || event === 'unknown');
  if (events.includes('closed')) return opening === undefined ? 'closed' : undefined;
  return opening ?? events.at(-1);
}

export interface FoundRequest {
  readonly told: ToldRequest;
  readonly approvers: ApproverRule;
}

/** Finds a request among those that the run shows, if the news still is news. @param now epoch ms */
export function requestIn(
  requests: readonly ApprovalRequest[],
  { callId, generation, event }: News,
  now: number,
): FoundRequest | undefined {
  const request = requests.find((each) => each.callId === callId && each.generation === generation);
  if (request === undefined || (request.status === 'open') === (event === 'closed')) return undefined;
  const { server, tool, status, approvers, rules, deadline, about, reopenedBecause, decidedBy } = request;
  const explain = (request.explain ?? []).map(({ text }) => bounded(text, REASON_CHARACTERS));
  const told: ToldRequest = {
    callId,
    generation,
    server,
    tool,
    arguments: argumentsLine(shownArguments(request)),
    who: bounded(inWords(ruleAt(approvers, now - Date.parse(request.openedAt))), REASON_CHARACTERS),
    deadline,
    rules,
    ...(explain.length === 0 ? {} : { explain }),
    ...defined({ about: about?.kind }),
    ...(status === 'open'
      ? defined({ because: reopenedBecause === undefined ? undefined : bounded(reopenedBecause, REASON_CHARACTERS) })
      : { closed: { status, ...defined({ by: decidedBy?.id }) } }),
  };
  return { told, approvers };
}

type Closed = NonNullable<ToldRequest['closed']>;

/** How a request closed, by the ledger of a run that has gone on; undefined if it does not say. It has no arguments. */
export function closingIn(entries: readonly LedgerEntry[], { callId, generation }: News): FoundRequest | undefined {
  const facts = entries.map(({ fact }) => fact).filter((fact) => 'callId' in fact && fact.callId === callId);
  const own = facts.filter((fact) => 'generation' in fact && fact.generation === generation);
  const opened = own.find((fact) => fact.kind === 'request.opened');
  // An edit is judged anew, and the last verdict is the one that asked.
  const verdict = facts.findLast((fact) => fact.kind === 'verdict');
  const closed = own.map(closedBy).find((each) => each !== undefined);
  if (opened === undefined || verdict === undefined || closed === undefined) return undefined;
  const { approvers, deadline, about } = opened;
  const { server = '', tool, rules } = verdict;
  const told: ToldRequest = {
    callId,
    generation,
    server,
    tool,
    arguments: '',
    who: bounded(inWords(approvers), REASON_CHARACTERS),
    deadline,
    rules,
    ...defined({ about: about?.kind }),
    closed,
  };
  return { told, approvers };
}

function closedBy(fact: LedgerFact): Closed | undefined {
  switch (fact.kind) {
    case 'decision.accepted': {
      const status = DECIDED[fact.decision];
      return status === undefined || fact.counted === true ? undefined : { status, by: fact.approver.id };
    }
    case 'authorization.given':
      return fact.counted === true ? undefined : { status: 'answered' };
    case 'outcome.resolved':
    case 'input.provided':
      return { status: 'answered' };
    case 'request.closed':
      return { status: fact.status };
    default:
      return undefined;
  }
}

type DecisionKind = Extract<LedgerFact, { kind: 'decision.accepted' }>['decision'];

/** What a decision makes of its request; the others leave it open. */
const DECIDED: Readonly<Partial<Record<DecisionKind, Closed['status']>>> = {
  approve: 'approved',
  reject: 'rejected',
  respond: 'answered',
};

export type NotifyPolicy = Pick<OrganisationPolicy, 'notify' | 'rules'>;

/** True if these people may be told this. Approvers of all stages count: who is told was settled when it happened. */
export function mayBeTold(
  { told, approvers }: FoundRequest,
  { event }: Pick<News, 'event'>,
  { channel, to }: Pick<Digest, 'channel' | 'to'>,
  policy: NotifyPolicy,
  initiator: string,
): boolean {
  const routes = routesFor(told, policy).filter(
    (each) => each.channel === channel && each.on?.includes(event) !== false,
  );
  const allowed = routes.flatMap((route) => peopleOf(route, approvers, initiator));
  const isId = (id: string): boolean =>
    allowed.some(({ ids }) => ids.some((other) => isSamePerson(approvers, id, other)));
  const isGroup = (group: string): boolean => allowed.some(({ groups }) => groups.includes(group));
  return routes.length > 0 && to.ids.every(isId) && to.groups.every(isGroup);
}

/** The routes of the rules that asked, else those of the whole policy, as `routesOf` in `telling.ts` has them. */
function routesFor(
  { rules, about }: ToldRequest,
  { notify = [], rules: known = [] }: NotifyPolicy,
): readonly NotifyRoute[] {
  const asked = rules.map(withoutDoubt);
  const stated = known
    .filter(({ id }) => asked.includes(`organisation/rules/${id}`))
    .flatMap((rule) => (rule.notify === undefined ? [] : [rule.notify]));
  // Rules that let a call pass say nothing of what is asked about it later.
  return stated.length === 0 ? notify : [...stated.flat(), ...(about === undefined ? [] : notify)];
}

function peopleOf(
  { to = 'approvers' }: NotifyRoute,
  approvers: ApproverRule,
  initiator: string,
): readonly Addressees[] {
  if (to === 'approvers') return peopleEver(approvers);
  return to === 'initiator' ? [{ ids: [initiator], groups: [] }] : [to];
}
