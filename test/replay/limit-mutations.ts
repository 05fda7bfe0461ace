/**
 * Changes of limits that no recorded history shows, since none comes as far: the tests of the limits themselves must notice
 * (`test/unit/domain/request/limits-noticed.test.ts`).
 */
import type { Mutation } from './mutant.ts';

export const CHANGED_LIMITS = [
  {
    name: 'a decision is taken until 60 s after its deadline',
    file: 'domain/request/closed-request.ts',
    find: 'if (now >= state.request.deadline)',
    put: 'if (now >= state.request.deadline + 60_000)',
  },
  {
    name: 'approvals never lapse',
    file: 'domain/request/deadline.ts',
    find: 'return now < end ? undefined : end;',
    put: 'return now < Infinity ? undefined : end;',
  },
  {
    name: 'a call is sent six times in place of five',
    file: 'domain/request/throttling.ts',
    find: 'return attempts < MOST_ATTEMPTS;',
    put: 'return attempts <= MOST_ATTEMPTS;',
  },
  {
    name: 'an execution takes 1,900 updates in place of 1,500',
    file: 'domain/run/carry.ts',
    find: 'export const MOST_UPDATES = 1_500;',
    put: 'export const MOST_UPDATES = 1_900;',
  },
] as const satisfies readonly Omit<Mutation, 'noticedIn'>[];
