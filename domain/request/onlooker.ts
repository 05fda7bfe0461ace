/**
 * Says which runs and requests a person may see who asks for many of them: the rule of one request
 * (`domain/request/permitted.ts`), within the person's tenant, and what the operator adds.
 *
 * 1. Nobody sees anything of another tenant.
 * 2. Whoever may do anything about a request may see it.
 * 3. A run does not show how it tells people apart, so for runs the onlooker says it; a request says it by itself.
 */
import type { IdCase, RememberScope } from '../../contracts/schemas/policy.ts';
import { WAITS_FOR } from '../../contracts/names.ts';
import type { Approver } from '../../contracts/schemas/request.ts';
import { isSamePerson, mayDecide, personOf } from '../policy/approvers.ts';
import { type Decidable, maySee, type Permission } from './permitted.ts';
import { mayRemember } from './standing.ts';

export interface Onlooker extends Approver {
  readonly tenant: string;
  /** True if the operator lets the person see every run of the tenant. */
  readonly seesAll: boolean;
  /** How the organisation's policy compares ids; absent: as written. */
  readonly idCase?: IdCase | undefined;
}

export interface SeenRun {
  readonly tenant: string;
  readonly initiator: string;
}

export function seesRun({ tenant, initiator }: SeenRun, person: Onlooker): boolean {
  return tenant === person.tenant && (person.seesAll || isSamePerson(person, initiator, person.id));
}

export function seesRequest(run: SeenRun, request: Pick<Decidable, 'approvers' | 'votes'>, person: Onlooker): boolean {
  return run.tenant === person.tenant && (person.seesAll || maySee(request, person, run.initiator));
}

/** Values of `CountersignApprovers` (`WAITS_FOR`) under which runs wait for the person, or may: their requests say. */
export function waitingNames({ id, groups = [] }: { readonly id?: string; readonly groups?: readonly string[] }): {
  readonly sure: readonly string[];
  readonly possible: readonly string[];
} {
  const sure = [...(id === undefined ? [] : [WAITS_FOR.id(id)]), ...groups.map(WAITS_FOR.group)];
  // Ids are listed in lower case where policy ignores their case.
  const ignoring = id === undefined ? [] : [WAITS_FOR.id(personOf({ idCase: 'ignored' }, id))];
  return { sure, possible: [...ignoring.filter((name) => !sure.includes(name)), WAITS_FOR.more] };
}

const SCOPES = ['call', 'arguments', 'tool'] as const satisfies readonly RememberScope[];

/** How far the person's approval may be remembered. @param permitted what `permittedTo` returns */
export function rememberable(
  { approvers }: Pick<Decidable, 'approvers'>,
  { id, groups }: Approver,
  permitted: ReadonlySet<Permission>,
): readonly RememberScope[] {
  // Whoever is entitled only by an escalation may not have it remembered.
  if (!permitted.has('approve') || !mayDecide(approvers, { id, groups })) return [];
  return SCOPES.filter((scope) => mayRemember(approvers, scope));
}
