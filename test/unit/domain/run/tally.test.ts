/** What became of earlier calls, as conditions read it. */
import { describe, expect, test } from '@jest/globals';
import { Limits } from '../../../../contracts/schemas/run-spec.ts';
import { COUNTED } from '../../../../contracts/schemas/run-state.ts';
import type { CallState } from '../../../../domain/state/call.ts';
import { startRun } from '../../../../domain/state/run.ts';
import { earlierThan, EMPTY_TALLY, tallied, TALLY_BYTES, withOpen } from '../../../../domain/run/limits.ts';
import { byteLength, canonicalJson } from '../../../../domain/text/canonical.ts';
import { closeTurn } from '../../../../domain/run/turn.ts';

type Kind = 'succeeded' | 'denied' | 'rejected' | 'open';

function call(callId: string, kind: Kind, tool: string | undefined = 'send', server = 'mail'): CallState {
  const target = { server, serverUrl: 'https://mail.test/', tool, definitionHash: 'h' };
  const verdict = { kind: kind === 'denied' ? 'deny' : 'allow', rules: ['r'], code: 'POLICY_DENIED', message: '' };
  const state = {
    status: kind === 'open' ? 'in-flight' : 'settled',
    call: { callId, providerCallId: callId, name: 'n', arguments: {} },
    judgement: { callId, verdict, repeatable: false, ...(tool === undefined ? {} : { target }) },
    outcome: { kind },
  };
  // Sound: the tally reads nothing else of a call.
  return state as unknown as CallState;
}

const proposed = (callId: string): CallState => ({
  status: 'proposed',
  call: { callId, providerCallId: callId, name: 'n', arguments: {} },
});

describe('a tally', () => {
  test('counts settled calls by tool and outcome; what meant no tool is not counted', () => {
    const nameless = { ...call('t1.c9', 'denied'), judgement: undefined } as unknown as CallState;
    const states = [
      call('t1.c0', 'succeeded'),
      call('t1.c1', 'succeeded'),
      call('t1.c2', 'rejected', 'drop'),
      nameless,
    ];
    expect(tallied(EMPTY_TALLY, [...states, proposed('t1.c8'), call('t1.c7', 'open')])).toEqual({
      tools: { 'mail/send': { succeeded: 2 }, 'mail/drop': { rejected: 1 } },
    });
  });

  test('is kept by a run only where it is asked for', () => {
    const run = { ...startRun(0), calls: [call('t1.c0', 'succeeded')] };
    expect(closeTurn(run)).not.toHaveProperty('tally');
    const counted = closeTurn(run, true);
    expect(closeTurn({ ...counted, calls: run.calls }, true).tally).toEqual({
      tools: { 'mail/send': { succeeded: 2 } },
    });
  });

  test('of more tools than have a place says that it is not whole, and stays small', () => {
    const states = Array.from({ length: 200 }, (_, index) => call('t1.c0', 'succeeded', `${'x'.repeat(20)}${index}`));
    const tally = tallied(EMPTY_TALLY, states);
    expect(tally.beyond).toBe(200 - Object.keys(tally.tools).length);
    expect(byteLength(canonicalJson(tally))).toBeLessThan(TALLY_BYTES);
    expect(tallied(tally, [call('t1.c0', 'denied', 'another-one-that-is-new')]).beyond).toBe((tally.beyond ?? 0) + 1);
  });

  test('has room for every kind with as many calls as a run may have', () => {
    const most = Limits.shape.calls.unwrap().maxValue;
    const counts = Object.fromEntries(COUNTED.map((kind) => [kind, most]));
    // With the quotes, the colon and the comma of its name.
    expect(byteLength(canonicalJson(counts)) + 4).toBeLessThanOrEqual(160);
  });

  test('counts a tool that is called as every object has it', () => {
    expect(withOpen(EMPTY_TALLY, ['constructor/toString'])).toEqual({ tools: { 'constructor/toString': { open: 1 } } });
  });
});

test('INV-G3: of the same turn what stands before a call is open, whatever became of it, and what was denied is not there', () => {
  const before = { tools: { 'mail/send': { succeeded: 1 } } };
  const states = [
    call('t2.c0', 'succeeded'),
    call('t2.c1', 'denied'),
    call('t2.c2', 'rejected'),
    proposed('t2.c3'),
    call('t2.c4', 'open'),
    call('t2.c5', 'open'),
  ];
  expect(earlierThan(before, states, 't2.c4')).toEqual({ tools: { 'mail/send': { succeeded: 1, open: 2 } } });
  expect(earlierThan(before, states, 't2.c0')).toEqual(before);
});
