/** An answer of a run is used once it is known to be its requests: anybody may run a workflow that answers in any way. */
import { describe, expect, test } from '@jest/globals';
import { z } from 'zod';
import { hasForm, readRequests } from '../../../../client/engine/answers.ts';
import { requestDigest } from '../../../../domain/request/digest.ts';
import { approvalRequest } from '../../../support/builders/approval-request.ts';
import { withCode } from '../../../support/refusal.ts';

const GENUINE = approvalRequest();

/** With the digest that the fields have, as whoever answers can make it. */
function told(over: object): object {
  const request = { ...GENUINE, ...over };
  return { ...request, digest: requestDigest({ ...request, target: request }) };
}

const [CLAUSE] = GENUINE.approvers.allOf;
const LATER_NOBODY = { allOf: [{ ...CLAUSE, escalate: { afterSeconds: 1, add: {} } }] };

const read = (answer: unknown) => readRequests(GENUINE.workflowId, answer);

test('requests are read as they are, also with what a newer release says of them', () => {
  expect(read([told({})])).toEqual([told({})]);
  expect(read([])).toEqual([]);
  const newer = [told({ weight: 7, approvers: { ...GENUINE.approvers, since: 'noon' } })];
  expect(read(newer)).toEqual(newer);
});

describe('is no list of requests', () => {
  const deep = (levels: number): object => (levels === 0 ? {} : { in: deep(levels - 1) });
  test.each<[string, unknown]>([
    ['nothing', null],
    ['a number', 7],
    ['a list of nothing', [null]],
    ['a list of something else', [{}]],
    ['votes of nobody', [told({ votes: [null] })]],
    ['a rule without people', [told({ approvers: {} })]],
    ['no arguments', [told({ arguments: null })]],
    ['places that are none', [told({ redact: 7 })]],
    ['no state', [told({ status: undefined })]],
    ['half of a character as its call', [JSON.parse(JSON.stringify(told({ callId: '\ud800' })))]],
    ['a call that is none', [told({ callId: '../t1.c0' })]],
    ['a deadline without an end', [told({ deadline: 'x'.repeat(2_000) })]],
    ['a beginning that is no time', [told({ openedAt: 'never' })]],
    ['a state that nobody knows', [told({ status: 'resting' })]],
    ['a kind that nobody knows', [told({ about: { kind: 'quote' } })]],
    ['a kind with the name of a property', [told({ about: { kind: 'constructor' } })]],
    ['more faults than zod can list', [told({ rules: Array.from({ length: 200_000 }, () => 0) })]],
    ['later approvers who are nobody', [told({ approvers: LATER_NOBODY })]],
    ['questions that are not there', [told({ about: { kind: 'input' } })]],
    ['arguments without an end', [{ ...GENUINE, arguments: deep(1_000) }]],
    ['a genuine request of another run', [told({ workflowId: 'another' })]],
  ])('%s', (_what, answer) => {
    expect(() => read(answer)).toThrow(
      expect.objectContaining(withCode('DIGEST_MISMATCH', 'is no list of its requests')),
    );
  });
});

test('a request that is not the one its digest names is told by its call (INV-G2)', () => {
  expect(() => read([{ ...told({}), arguments: { amount: 9 } }])).toThrow(`call ${GENUINE.callId} is not the one`);
});

test('an answer of very many values is not looked at one by one: zod lists all that is wrong, which takes gigabytes', () => {
  let looked = 0;
  const schema = z.array(
    z.custom(() => {
      looked += 1;
      return false;
    }),
  );
  expect(hasForm(schema, Array(400_000).fill(0))).toBe(false);
  expect(looked).toBe(0);
  expect(hasForm(schema, [0, 0])).toBe(false);
  expect(looked).toBe(2);
});
