/**
 * Changes of limits that no recorded history shows, since none comes as far: the tests of the limits themselves must
 * notice (`test/unit/domain/request/limits-noticed.test.ts`).
 */
import { always, replaced } from './change.ts';
import type { Mutation } from './mutant.ts';

export const CHANGED_LIMITS = [
  {
    name: 'a decision is taken until 60 s after its deadline',
    limit: 'refuseUntimely',
    change: replaced('refuseUntimely', '$now >= $deadline', '$now >= $deadline + 60_000'),
  },
  {
    name: 'approvals never lapse',
    limit: 'lapsedSince',
    change: always('lapsedSince', '$_ < $_'),
  },
  {
    name: 'a call is sent six times in place of five',
    limit: 'mayTryAgain',
    change: replaced('mayTryAgain', '$sent < MOST_ATTEMPTS', '$sent <= MOST_ATTEMPTS'),
  },
  {
    name: 'an execution takes 1,900 updates in place of 1,500',
    limit: 'rollReason',
    change: replaced('MOST_UPDATES', '1_500', '1_900'),
  },
] as const satisfies readonly (Omit<Mutation, 'noticedIn'> & { readonly limit: string })[];
