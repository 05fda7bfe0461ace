/**
 * Says who may see a run and its requests, and what a person may do with a request, from what the `requests` query
 * shows. Whoever shows requests asks here; the run asks the same rules (`domain/policy/approvers.ts`) when it is told.
 *
 * 1. Nothing is offered that the run refuses to the same person at the same time. What an answer says may still be
 *    refused: arguments that do not fit, a deadline too late.
 * 2. Whoever is offered anything may see the request.
 */
import type { ApproverRule, RememberScope } from '../../contracts/schemas/policy.ts';
import type { ApprovalRequest, Approver, Offer } from '../../contracts/schemas/request.ts';
import { isNamed, isWanted, mayDecide, type Voter } from '../policy/approvers.ts';
import { latestDeadline, MOST_EXTENSIONS } from './deadline.ts';
import { permits } from './decision.ts';
import { mayRemember } from './standing.ts';

/** A person who looks at runs. */
export interface Onlooker extends Approver {
  readonly tenant: string;
  /** True if the operator lets the person see every run of the tenant. */
  readonly seesAll?: boolean;
}

/** The facts of a run that say who may see it. */
export interface SeenRun {
  readonly tenant: string;
  readonly initiator: string;
}

/** True if the person may see the run and all of its requests. */
export function maySeeRun(run: SeenRun, person: Onlooker): boolean {
  return run.tenant === person.tenant && (person.seesAll === true || run.initiator === person.id);
}

/** True if the person may see a request of the run: one whose rule names the person at some time. */
export function maySeeRequest(
  run: SeenRun,
  { approvers }: { readonly approvers: ApproverRule },
  person: Onlooker,
): boolean {
  return maySeeRun(run, person) || (run.tenant === person.tenant && isNamed(approvers, person));
}

type Shown = Pick<
  ApprovalRequest,
  'status' | 'about' | 'approvers' | 'openedAt' | 'deadline' | 'votes' | 'extensions' | 'reopenedBecause'
>;

/**
 * Lists what the person may do with a request now; empty if nothing.
 * @param now epoch ms
 * @param initiator id of the person who started the run
 */
export function offersTo(request: Shown, person: Approver, now: number, initiator: string): readonly Offer[] {
  if (request.status !== 'open' || now >= Date.parse(request.deadline)) return [];
  const voter: Voter = { ...person, after: now - Date.parse(request.openedAt) };
  const entitled = mayDecide(request.approvers, voter);
  switch (request.about?.kind) {
    case undefined:
      return [
        ...(entitled ? decisionsOn(request, voter) : []),
        // A vote may be taken back even by a person who has left the groups that the rule names.
        ...(hasVoted(request, person) ? (['withdraw'] as const) : []),
      ];
    case 'outcome':
      return entitled ? ['retry', 'succeeded', 'failed'] : [];
    case 'input':
      return entitled ? ['provide', 'decline', 'cancel'] : [];
    case 'authorization': {
      if (!entitled) return [];
      if (request.about.wants === 'grant') return person.id === initiator ? ['grant', 'decline'] : ['decline'];
      return isStillWanted(request, voter) ? ['consent', 'decline'] : ['decline'];
    }
  }
}

function decisionsOn(request: Shown, voter: Voter): readonly Offer[] {
  const { approvers, openedAt, deadline, extensions = [], reopenedBecause } = request;
  // A call that was sent before may have begun: an edit would make another call of it, and an answer deny it.
  const isUntouched = reopenedBecause === undefined;
  const latest = latestDeadline(approvers, Date.parse(openedAt)) ?? 0;
  return [
    ...(isStillWanted(request, voter) ? (['approve'] as const) : []),
    ...(isUntouched && permits(approvers, 'edit') ? (['edit'] as const) : []),
    'reject',
    ...(isUntouched && permits(approvers, 'respond') ? (['respond'] as const) : []),
    ...(latest > Date.parse(deadline) && extensions.length < MOST_EXTENSIONS ? (['extend'] as const) : []),
  ];
}

function hasVoted({ votes = [] }: Shown, { id }: Approver): boolean {
  return votes.some(({ approver }) => approver.id === id);
}

/** True if the person has not agreed yet, and would bring the rule nearer to being met. */
function isStillWanted(request: Shown, voter: Voter): boolean {
  const { approvers, openedAt, votes = [] } = request;
  const agreed = votes.map(({ approver, at }) => ({ ...approver, after: Date.parse(at) - Date.parse(openedAt) }));
  return !hasVoted(request, voter) && isWanted(approvers, agreed, voter);
}

const SCOPES = ['call', 'arguments', 'tool'] as const satisfies readonly RememberScope[];

/**
 * Lists how far the person's approval may be remembered.
 * @param offers what `offersTo` lists
 */
export function rememberable(
  { approvers }: Pick<Shown, 'approvers'>,
  person: Approver,
  offers: readonly Offer[],
): readonly RememberScope[] {
  // Whoever is entitled only by an escalation may not have it remembered.
  if (!offers.includes('approve') || !mayDecide(approvers, { id: person.id, groups: person.groups })) return [];
  return SCOPES.filter((scope) => mayRemember(approvers, scope));
}
