/**
 * Says what a person may do about a request as it is shown. Pages and commands offer nothing else.
 *
 * 1. This is what the run admits (`decision.ts`, `pause.ts`), but for the answer's own times, arguments and signature.
 * 2. In trust mode `signed` a key must speak for the person, too; nobody here knows the keys.
 */
import type { ApprovalRequest, Approver, Decision, Pause } from '../../contracts/schemas/request.ts';
import { isNamedIn, isSamePerson, isWanted, mayDecide, peopleEver, type Voter } from '../policy/approvers.ts';
import { MOST_EXTENSIONS } from './deadline.ts';
import { permits } from './decision.ts';

/** The decisions on consent; `edit` is an approval of other arguments. `answer` is whatever `about` asks for. */
export type Permission = Decision['kind'] | 'edit' | 'answer';

export type Decidable = Pick<
  ApprovalRequest,
  'status' | 'approvers' | 'openedAt' | 'deadline' | 'extensions' | 'votes' | 'asItIs'
> & { readonly about?: Pick<Pause, 'kind'> | undefined };

/** @param now epoch ms */
export function permittedTo(request: Decidable, person: Approver, now: number): ReadonlySet<Permission> {
  const { status, about, approvers, deadline, votes = [] } = request;
  if (status !== 'open' || now >= Date.parse(deadline)) return new Set();
  const voter = voterOf(request, person, now);
  const isEntitled = mayDecide(approvers, voter);
  const hasAgreed = votes.some((vote) => isSamePerson(approvers, vote.approver.id, person.id));
  // A person who has consented to an authorization may still decline it.
  if (about !== undefined) return new Set(isEntitled ? ['answer'] : []);
  const agreed = votes.map((vote) => voterOf(request, vote.approver, Date.parse(vote.at)));
  const may = (right: 'edit' | 'respond'): boolean => request.asItIs !== true && permits(approvers, right);
  const all: readonly (readonly [Permission, boolean])[] = [
    ['approve', isEntitled && !hasAgreed && isWanted(approvers, agreed, voter)],
    ['edit', isEntitled && may('edit')],
    ['reject', isEntitled],
    ['respond', isEntitled && may('respond')],
    ['extend', isEntitled && mayBePostponed(request)],
    ['withdraw', hasAgreed],
  ];
  return new Set(all.flatMap(([permission, is]) => (is ? [permission] : [])));
}

/** True if the person may decide it now or later, has agreed to it, or started the run. */
export function maySee(
  { approvers, votes = [] }: Pick<Decidable, 'approvers' | 'votes'>,
  person: Approver,
  initiatorId: string,
): boolean {
  return (
    isSamePerson(approvers, person.id, initiatorId) ||
    votes.some(({ approver }) => isSamePerson(approvers, approver.id, person.id)) ||
    peopleEver(approvers).some((people) => isNamedIn(approvers, people, person))
  );
}

function mayBePostponed({ approvers, openedAt, deadline, extensions = [] }: Decidable): boolean {
  const { extendableToSeconds = 0 } = approvers;
  const latest = Date.parse(openedAt) + extendableToSeconds * 1_000;
  return Date.parse(deadline) < latest && extensions.length < MOST_EXTENSIONS;
}

/** @param at epoch ms */
function voterOf({ openedAt }: Decidable, person: Approver, at: number): Voter {
  return { ...person, after: at - Date.parse(openedAt) };
}
