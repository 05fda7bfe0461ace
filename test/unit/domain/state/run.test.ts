/** The run as a whole: turns, messages and its first entry (INV-D3). */
import { describe, expect, test } from '@jest/globals';
import { callIdOf } from '../../../../contracts/names.ts';
import { startedFact } from '../../../../domain/request/digest.ts';
import { heard, stopped, unqueued } from '../../../../domain/run/message-queue.ts';
import { proposed, repaired, startRun } from '../../../../domain/state/run.ts';
import { sha256Hex } from '../../../../domain/text/canonical.ts';
import { identicalCalls } from '../../../support/builders/call.ts';
import { say, stop } from '../../../support/builders/decision.ts';
import { preparedRun } from '../../../support/builders/prepared-run.ts';
import { askingRun, POLICY_VERSION, START } from '../../../support/builders/run.ts';
import { closeTurn } from '../../../../domain/run/turn.ts';

describe('a run', () => {
  test('begins empty', () => {
    expect(startRun(START)).toEqual({
      startedAt: START,
      turn: 0,
      calls: [],
      totalCalls: 0,
      usage: { inputTokens: 0, outputTokens: 0 },
      repairs: 0,
      answered: [],
      expired: [],
      queue: [],
      heard: [],
    });
  });

  test('its first entry says who started what, under which policy', () => {
    const prepared = preparedRun();
    expect(startedFact(prepared, { name: 'clerk', model: 'scripted' })).toEqual({
      kind: 'run.started',
      agent: 'clerk',
      model: 'scripted',
      initiator: 'ann',
      tenant: 'default',
      specHash: prepared.specHash,
      policyVersion: POLICY_VERSION,
      servers: ['files'],
    });
  });

  test('a turn adds its calls and its usage to those before', () => {
    const first = proposed(startRun(START), identicalCalls(2), { inputTokens: 10, outputTokens: 1 });
    const second = proposed(closeTurn(first.run), identicalCalls(1, 2), { inputTokens: 20, outputTokens: 2 });
    expect(first.facts).toEqual([
      { kind: 'turn.proposed', turn: 1, calls: 2, usage: { inputTokens: 10, outputTokens: 1 } },
    ]);
    expect(second.run).toMatchObject({ turn: 2, totalCalls: 3, usage: { inputTokens: 30, outputTokens: 3 } });
    expect(second.run.calls).toEqual([{ status: 'proposed', call: identicalCalls(1, 2)[0] }]);
    expect(closeTurn(second.run).calls).toEqual([]);
  });

  test('call ids are made of turn and place', () => {
    expect(callIdOf(3, 12)).toBe('t3.c12');
  });

  test('one repair turn is counted', () => {
    expect(repaired(startRun(START)).repairs).toBe(1);
  });
});

describe('messages', () => {
  test('B-15: a user message waits in the order of arrival, and is recorded by hash', () => {
    const one = heard(askingRun(), say());
    const two = heard(one.run, say({ messageId: 'm-2', text: 'And quickly.' }));
    expect(two.run.queue.map(({ text }) => text)).toEqual(['Also the old ones.', 'And quickly.']);
    expect(two.run.calls).toBe(one.run.calls);
    expect(one.facts).toEqual([
      { kind: 'said', messageId: 'm-1', from: 'ann', textHash: sha256Hex('Also the old ones.') },
    ]);
    expect(unqueued(two.run).queue).toEqual([]);
  });

  test('INV-D3: one that is sent again is heard once, also after it was read', () => {
    const { run } = heard(askingRun(), say());
    const read = unqueued(run);
    expect(heard(run, say())).toEqual({ run, facts: [] });
    expect(heard(read, say({ text: 'Something else.' }))).toEqual({ run: read, facts: [] });
  });

  test('the last 1,000 message ids are remembered', () => {
    const run = { ...askingRun(), heard: Array.from({ length: 1_000 }, (_, index) => `old-${index}`) };
    const next = heard(run, say()).run;
    expect(next.heard).toHaveLength(1_000);
    expect(next.heard.at(-1)).toBe('m-1');
    expect(next.heard[0]).toBe('old-1');
  });

  test('the first stop counts, a second one changes nothing', () => {
    const first = stopped(askingRun(), stop());
    expect(first.facts).toEqual([{ kind: 'stop.requested', by: 'ann', reason: 'changed my mind', inFlight: 'finish' }]);
    expect(first.run.stop).toEqual(stop());
    expect(stopped(first.run, stop({ by: 'bob' }))).toEqual({ run: first.run, facts: [] });
  });

  test('a second stop may end what the first let finish, and says who wanted that', () => {
    const first = stopped(askingRun(), stop()).run;
    const harder = stopped(first, stop({ by: 'bob', inFlight: 'cancel' }));
    expect(harder.facts).toMatchObject([{ kind: 'stop.requested', by: 'bob', inFlight: 'cancel' }]);
    expect(harder.run.stop).toEqual(stop({ inFlight: 'cancel' }));
    expect(stopped(harder.run, stop({ by: 'zoe', inFlight: 'finish' }))).toEqual({ run: harder.run, facts: [] });
  });
});
