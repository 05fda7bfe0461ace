/** Who sees which runs and requests: a tenant is a wall, and whoever may act may see. */
import fc from 'fast-check';
import { expect, test } from '@jest/globals';
import type { ApproverRule } from '../../../../contracts/schemas/policy.ts';
import {
  type Onlooker,
  rememberable,
  seesRequest,
  seesRun,
  waitingNames,
} from '../../../../domain/request/onlooker.ts';
import { type Decidable, permittedTo } from '../../../../domain/request/permitted.ts';
import { START } from '../../../support/builders/run.ts';
import { forAll } from '../../../support/for-all.ts';

const instant = (seconds: number): string => new Date(START + seconds * 1_000).toISOString();
const ids = fc.uniqueArray(fc.constantFrom('ann', 'bob', 'zoe'), { maxLength: 3 });
const rules: fc.Arbitrary<ApproverRule> = fc
  .array(
    fc.record(
      {
        layer: fc.constant('organisation' as const),
        ids,
        groups: fc.subarray(['ops']),
        not: fc.constant<string[]>(['ann']),
        remember: fc.subarray(['call', 'tool'] as const),
        escalate: fc.record({
          afterSeconds: fc.constant(50),
          add: fc.record({ ids, groups: fc.constant<string[]>([]) }),
        }),
      },
      { requiredKeys: ['layer', 'ids', 'groups'] },
    ),
    { minLength: 1, maxLength: 2 },
  )
  .map((allOf) => ({ allOf, together: true as const }));
const people: fc.Arbitrary<Onlooker> = fc.record({
  id: fc.constantFrom('ann', 'bob', 'zoe', 'eve'),
  groups: fc.subarray(['ops']),
  tenant: fc.constantFrom('acme', 'other'),
  seesAll: fc.boolean(),
});

const RUN = { tenant: 'acme', initiator: 'zoe' };
const request = (approvers: ApproverRule): Decidable => ({
  status: 'open',
  approvers,
  openedAt: instant(0),
  deadline: instant(100),
  votes: [{ approver: { id: 'bob', groups: [] }, at: instant(1) }],
});

test('D-7: nobody sees anything of another tenant, and whoever may do anything about a request sees it', () => {
  forAll(rules, people, fc.integer({ min: 0, max: 120 }), (approvers, person, seconds) => {
    const asked = request(approvers);
    const sees = seesRequest(RUN, asked, person);
    if (person.tenant !== RUN.tenant) expect([sees, seesRun(RUN, person)]).toEqual([false, false]);
    else if (permittedTo(asked, person, START + seconds * 1_000).size > 0) expect(sees).toBe(true);
    if (seesRun(RUN, person)) expect(sees).toBe(true);
  });
});

test('the initiator and readers see the whole run; whoever is named sees the request alone', () => {
  const asked = request({ allOf: [{ layer: 'organisation', ids: ['ann'], groups: ['ops'] }] });
  const by = (over: Partial<Onlooker>): readonly [boolean, boolean] => {
    const person = { id: 'eve', groups: [], tenant: 'acme', seesAll: false, ...over };
    return [seesRun(RUN, person), seesRequest(RUN, asked, person)];
  };
  expect(by({})).toEqual([false, false]);
  expect(by({ id: 'zoe' })).toEqual([true, true]);
  expect(by({ seesAll: true })).toEqual([true, true]);
  expect(by({ id: 'ann' })).toEqual([false, true]);
  expect(by({ groups: ['ops'] })).toEqual([false, true]);
  // Whoever has agreed goes on seeing what became of it.
  expect(by({ id: 'bob' })).toEqual([false, true]);
});

test('an approval may be remembered as far as every list says, by people who are entitled from the beginning', () => {
  const list = { layer: 'organisation' as const, groups: [], remember: ['call' as const, 'tool' as const] };
  const later = { afterSeconds: 1, add: { ids: ['zoe'], groups: [] } };
  const approvers: ApproverRule = { allOf: [{ ...list, ids: ['ann'], escalate: later }] };
  const approve = new Set(['approve' as const]);
  const ann = { id: 'ann', groups: [] };
  expect(rememberable({ approvers }, ann, approve)).toEqual(['call', 'tool']);
  expect(rememberable({ approvers }, ann, new Set())).toEqual([]);
  expect(rememberable({ approvers }, { id: 'zoe', groups: [] }, approve)).toEqual([]);
});

test('where policy ignores the case of ids, the initiator sees the run in any spelling', () => {
  const zoe: Onlooker = { id: 'ZOE', groups: [], tenant: 'acme', seesAll: false };
  expect(seesRun(RUN, zoe)).toBe(false);
  expect(seesRun(RUN, { ...zoe, idCase: 'ignored' })).toBe(true);
  expect(seesRun(RUN, { ...zoe, idCase: 'ignored', tenant: 'other' })).toBe(false);
});

test('runs may wait for a person under the id in lower case, which is sure only where it is the id itself', () => {
  expect(waitingNames({ id: 'Ann@x', groups: ['ops'] })).toEqual({
    sure: ['id:Ann@x', 'group:ops'],
    possible: ['id:ann@x', 'more'],
  });
  expect(waitingNames({ id: 'ann@x' })).toEqual({ sure: ['id:ann@x'], possible: ['more'] });
  expect(waitingNames({ groups: ['ops'] })).toEqual({ sure: ['group:ops'], possible: ['more'] });
});
