/** Whether answers were given by somebody who may, to what they read, before a server gets them (INV-G1, INV-G2). */
import { describe, expect, test } from '@jest/globals';
import type { DispatchInput } from '../../../contracts/activities.ts';
import type { ProvisionProof } from '../../../contracts/dispatch-proof.ts';
import { checkProvided } from '../../../activities/tools/provision-check.ts';
import { provisionProofs } from '../../../domain/provision.ts';
import { callOf, dispatched } from '../../../domain/run.ts';
import { flyingRun } from '../../support/builders/pause.ts';
import { askedRun, providedRun } from '../../support/builders/provision.ts';
import { runIds } from '../../support/builders/run.ts';

const run = providedRun(askedRun({}, flyingRun('approved')));
const state = callOf(dispatched(run, 't1.c0')?.run ?? run, 't1.c0');
if (state?.status !== 'in-flight' || state.input === undefined) throw new Error('it flies');
const { judgement, call, input } = state;
const { namespace, workflowId, tenant } = runIds();
const [proof] = provisionProofs(input.provided);
if (proof === undefined) throw new Error('it is proven');

function dispatchWith(over: Partial<ProvisionProof> = {}, more: Partial<DispatchInput> = {}): DispatchInput {
  // Sound: only the fields that the check reads.
  return {
    run: { namespace, workflowId, initiator: { id: 'eve', groups: [], tenant }, specHash: 'a'.repeat(64) },
    decidedIn: ['run-1'],
    callId: call.callId,
    target: judgement.target,
    arguments: call.arguments,
    input: { provided: [{ ...proof, ...over } as ProvisionProof], leg: input?.leg },
    ...more,
  } as DispatchInput;
}

test('as it was said, it is believed', () => {
  expect(checkProvided(dispatchWith())).toBeUndefined();
});

test('of a run that cannot wait for input, or a call that begins, there is nothing to believe', () => {
  const { input: _, ...without } = dispatchWith();
  expect(checkProvided(without)).toBeUndefined();
  expect(checkProvided({ ...without, input: { provided: [] } })).toBeUndefined();
});

describe('INV-G2: forged, it is refused before anything is sent', () => {
  const { provision, about } = proof;
  test.each<[string, Partial<ProvisionProof>]>([
    ['by somebody who was not asked', { provision: { ...provision, approver: { id: 'eve', groups: [] } } }],
    ['of another call', { provision: { ...provision, callId: 't1.c1' } }],
    ['to another question', { about: { ...about, round: 2 } }],
    ['to another request', { generation: 3 }],
    ['by another rule', { approvers: { allOf: [{ layer: 'default', ids: ['eve'], groups: [] }] } }],
    ['of another tool', { definitionHash: 'f'.repeat(64) }],
    ['after its deadline', { decidedAt: proof.deadline }],
    ['at no time', { decidedAt: 'soon' }],
    [
      'that does not fit the question',
      { provision: { ...provision, kind: 'provide', responses: { who: { action: 'accept', content: {} } } } },
    ],
  ])('%s', (_, over) => {
    expect(checkProvided(dispatchWith(over))).toMatchObject({ kind: 'refused', code: 'DISPATCH_FORBIDDEN' });
  });

  test('other arguments than those of the call that the server has begun', () => {
    expect(checkProvided(dispatchWith({}, { arguments: { other: 1 } }))).toMatchObject({ code: 'DISPATCH_FORBIDDEN' });
  });

  test('a question that nobody has answered', () => {
    expect(checkProvided({ ...dispatchWith(), input: { provided: [], leg: input.leg } })).toMatchObject({
      code: 'DISPATCH_FORBIDDEN',
      message: expect.stringContaining('nobody gave'),
    });
  });
});

test('given before a reset, it is asked anew', () => {
  expect(checkProvided(dispatchWith({}, { decidedIn: ['run-2'] }))).toMatchObject({
    kind: 'reopen',
    code: 'DECISION_STALE_RUN',
    asks: 'input',
  });
});
