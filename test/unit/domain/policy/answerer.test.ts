/** Who answers what is asked of a call that nobody was asked to approve. */
import { expect, test } from '@jest/globals';
import { answerersOf } from '../../../../domain/policy/approvers.ts';

const ops = { layer: 'organisation', ids: [], groups: ['ops'] };
const bob = { layer: 'run', ids: ['bob'], groups: [] };

test.each([
  ['nobody is named: whoever started the run', {}, undefined, [{ layer: 'default', ids: ['ann'], groups: [] }], false],
  ['the organisation names somebody', { approvers: { groups: ['ops'] } }, {}, [ops], false],
  ['both name somebody', { approvers: { groups: ['ops'] } }, { approvers: { ids: ['bob'] } }, [ops, bob], true],
])('%s', (_what, organisation, run, allOf, together) => {
  const { approvers } = answerersOf({ organisation, run }, 'ann');
  expect(approvers).toEqual({ allOf, ...(together ? { together: true } : {}) });
});

test.each([
  [{}, undefined, 86_400],
  [{ deadlineSeconds: 60 }, undefined, 60],
  [{}, { deadlineSeconds: 60 }, 60],
  [{ deadlineSeconds: 60 }, { deadlineSeconds: 600 }, 60],
])('the deadline is the earlier one: %p and %p', (organisation, run, seconds) => {
  expect(answerersOf({ organisation, run }, 'ann').deadlineSeconds).toBe(seconds);
});
