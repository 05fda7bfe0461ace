/** What of a pause is opened before a call and sealed after it. */
import { randomBytes } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import type { DispatchInput } from '../../../contracts/activities.ts';
import type { InputLeg } from '../../../contracts/dispatched-input.ts';
import type { ProvisionProof } from '../../../contracts/dispatch-proof.ts';
import type { InputRequest } from '../../../contracts/schemas/input.ts';
import { inputOf, pausedBy } from '../../../activities/tools/input-leg.ts';
import { createStateSeal } from '../../../activities/tools/state-seal.ts';

const seal = createStateSeal(new Map([['one', randomBytes(32)]]));
const HASH = '1'.repeat(64);
const FORM: InputRequest = { kind: 'form', message: 'M', fields: {}, required: [], hash: HASH };
// Sound: only the fields that these functions read.
const ANSWER = {
  provision: { kind: 'decline', callId: 't1.c0' },
  about: { kind: 'input', round: 1, requests: { it: FORM } },
} as unknown as ProvisionProof;
/** As it is matched with questions. */
const KEPT = { hash: HASH, response: { action: 'decline' } };

// Sound: only the fields that these functions read.
const dispatch = (input?: DispatchInput['input'], callId = 't1.c0'): DispatchInput =>
  ({
    run: { namespace: 'default', workflowId: 'run-1' },
    callId,
    attempt: 2,
    target: { serverUrl: 'https://s.example', tool: 'pay' },
    server: { name: 'bank' },
    ...(input === undefined ? {} : { input }),
  }) as DispatchInput;

async function legOf(round = 1): Promise<InputLeg> {
  const before = round === 1 ? undefined : { provided: [], leg: { round: round - 1, requests: {}, used: [] } };
  const paused = await pausedBy(
    { kind: 'input', requests: { it: FORM }, state: 'secret-state', used: [] },
    dispatch(before),
    seal,
    { strategy: 'none' },
  );
  if (paused.kind !== 'input') throw new Error(JSON.stringify(paused));
  return paused;
}

describe('a call', () => {
  test('of a run that cannot wait, or on a worker without a key, is told so by what is to be done', async () => {
    expect(await inputOf(dispatch(), seal)).toEqual({ noInput: expect.stringContaining('cannot wait for input') });
    expect(await inputOf(dispatch({ provided: [] }), undefined)).toEqual({
      noInput: expect.stringContaining('grants.keys'),
    });
  });

  test('that begins has no leg', async () => {
    expect(await inputOf(dispatch({ provided: [] }), seal)).toEqual({ input: { answers: [], dispatch: '0.2' } });
  });

  test('INV-S1: goes on with the state as the server gave it; between, it is sealed', async () => {
    const leg = await legOf();
    expect(JSON.stringify(leg)).not.toContain('secret');
    expect(await inputOf(dispatch({ provided: [ANSWER], leg }), seal)).toEqual({
      input: {
        answers: [KEPT],
        dispatch: '1.2',
        leg: { responses: { it: { action: 'decline' } }, used: [HASH], state: 'secret-state' },
      },
    });
  });

  test('begins anew where the state was sealed for another call, or to a key that is gone', async () => {
    const leg = await legOf();
    const anew = { input: { answers: [KEPT], dispatch: '1.2', begunAnew: true } };
    expect(await inputOf(dispatch({ provided: [ANSWER], leg }, 't1.c1'), seal)).toEqual(anew);
    const other = createStateSeal(new Map([['one', randomBytes(32)]]));
    expect(await inputOf(dispatch({ provided: [ANSWER], leg }), other)).toEqual(anew);
  });

  test('without a state goes on all the same', async () => {
    const { state: _, ...leg } = await legOf();
    const { input } = await inputOf(dispatch({ provided: [ANSWER], leg }), seal);
    expect(input?.leg).toEqual({ responses: { it: { action: 'decline' } }, used: [HASH] });
  });
});

test('after ten pauses the call ends as unknown: the server has not said whether anything was done', async () => {
  expect(await legOf(10)).toMatchObject({ round: 10 });
  await expect(legOf(11)).rejects.toThrow('OUTCOME_UNKNOWN');
});
