/**
 * Says which runs and requests a person may see who asks for many of them: the rule of one request
 * (`domain/request/permitted.ts`), within the person's tenant, and what the operator adds.
 *
 * 1. Nobody sees anything of another tenant.
 * 2. Whoever may do anything about a request may see it.
 */
import type { RememberScope } from '../../contracts/schemas/policy.ts';
import type { Approver } from '../../contracts/schemas/request.ts';
import { mayDecide } from '../policy/approvers.ts';
import { type Decidable, maySee, type Permission } from './permitted.ts';
import { mayRemember } from './standing.ts';

export interface Onlooker extends Approver {
  readonly tenant: string;
  /** True if the operator lets the person see every run of the tenant. */
  readonly seesAll: boolean;
}

/** The facts of a run that say who may see it. */
export interface SeenRun {
  readonly tenant: string;
  readonly initiator: string;
}

/** True if the person may see the run and all of its requests. */
export function seesRun({ tenant, initiator }: SeenRun, person: Onlooker): boolean {
  return tenant === person.tenant && (person.seesAll || initiator === person.id);
}

/** True if the person may see this request of the run. */
export function seesRequest(run: SeenRun, request: Pick<Decidable, 'approvers' | 'votes'>, person: Onlooker): boolean {
  return run.tenant === person.tenant && (person.seesAll || maySee(request, person, run.initiator));
}

const SCOPES = ['call', 'arguments', 'tool'] as const satisfies readonly RememberScope[];

/**
 * Lists how far the person's approval may be remembered.
 * @param permitted what `permittedTo` returns
 */
export function rememberable(
  { approvers }: Pick<Decidable, 'approvers'>,
  { id, groups }: Approver,
  permitted: ReadonlySet<Permission>,
): readonly RememberScope[] {
  // Whoever is entitled only by an escalation may not have it remembered.
  if (!permitted.has('approve') || !mayDecide(approvers, { id, groups })) return [];
  return SCOPES.filter((scope) => mayRemember(approvers, scope));
}
