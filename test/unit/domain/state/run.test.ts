/** The run as a whole: turns, messages and its first entry (INV-D3). */
import fc from 'fast-check';
import { describe, expect, test } from '@jest/globals';
import { callIdOf } from '../../../../contracts/names.ts';
import type { AssistantPart } from '../../../../contracts/schemas/transcript.ts';
import { startedFact } from '../../../../domain/request/digest.ts';
import { ended } from '../../../../domain/request/transitions.ts';
import { heard, stopped, unqueued } from '../../../../domain/run/message-queue.ts';
import { closeTurn } from '../../../../domain/run/turn.ts';
import {
  askingCalls,
  callsOf,
  carriedExecutions,
  decidedIn,
  isSettled,
  proposed,
  repaired,
  startRun,
  statusOf,
  waitOf,
} from '../../../../domain/state/run.ts';
import { sha256Hex } from '../../../../domain/text/canonical.ts';
import { identicalCalls, proposedCall } from '../../../support/builders/call.ts';
import { say, stop } from '../../../support/builders/decision.ts';
import { allowVerdict, askVerdict } from '../../../support/builders/judgement.ts';
import { outcomes } from '../../../support/builders/outcome.ts';
import { preparedRun } from '../../../support/builders/prepared-run.ts';
import { askingRun, judgedRun, POLICY_VERSION, START } from '../../../support/builders/run.ts';
import { forAll } from '../../../support/for-all.ts';

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
      heardHashes: [],
      refusals: [],
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

// The calls of a model step (B-17: no call is lost, none is made up).

function part(call = proposedCall()): AssistantPart {
  return { type: 'call', ...call };
}

describe('calls of a step', () => {
  test('are its call parts, in the order of the proposal, whatever stands between them', () => {
    const [first, second] = identicalCalls(2);
    const parts: AssistantPart[] = [
      { type: 'reasoning', text: 'hm' },
      part(second),
      { type: 'text', text: 'and' },
      part(first),
    ];
    expect(callsOf({ parts })).toEqual([second, first]);
  });

  test('a call whose arguments were no JSON object keeps the reason, and only that call', () => {
    const parts = identicalCalls(2).map(part);
    expect(callsOf({ parts, malformed: { 't1.c1': 'no JSON' } })).toEqual([
      proposedCall(),
      proposedCall({ callId: 't1.c1', providerCallId: 'call_1', malformed: 'no JSON' }),
    ]);
  });

  test('what a provider keeps beside a part is no part of the call', () => {
    expect(callsOf({ parts: [{ type: 'call', ...proposedCall(), provider: { signature: 'x' } }] })).toEqual([
      proposedCall(),
    ]);
  });

  test('a step without calls has none', () => {
    expect(callsOf({ parts: [{ type: 'text', text: 'done' }] })).toEqual([]);
  });
});

// In which Temporal runs a decision may have been made (INV-G2, INV-D3).

interface Execution {
  readonly runId: string;
  readonly originalRunId: string;
  readonly earlier: readonly string[];
}

const first: Execution = { runId: 'r1', originalRunId: 'r1', earlier: [] };

const countingIn = ({ runId, originalRunId, earlier }: Execution) => decidedIn(runId, originalRunId, earlier);
const carriedBy = (execution: Execution) => carriedExecutions(countingIn(execution));

/** The execution that follows by continue-as-new. */
function continued(from: Execution, runId: string): Execution {
  return { runId, originalRunId: runId, earlier: carriedBy(from) };
}

/** The execution that a reset makes of it: what was carried in is still there, the run id is new. */
function reset(from: Execution, runId: string): Execution {
  return { ...from, runId };
}

describe('executions of a run', () => {
  test('a decision counts in the run in which it was made', () => {
    expect(countingIn(first)).toEqual(['r1']);
  });

  test('INV-D3: it still counts after the run continued as new', () => {
    expect(countingIn(continued(continued(first, 'r2'), 'r3'))).toEqual(['r1', 'r2', 'r3']);
  });

  test('INV-G2: after a reset only decisions made in the reset run count', () => {
    const second = continued(first, 'r2');
    expect(countingIn(reset(second, 'r2-reset'))).toEqual(['r2-reset']);
    expect(countingIn(reset(first, 'r1-reset'))).toEqual(['r1-reset']);
  });

  test('INV-G2: what a reset left behind does not come back when the run continues as new', () => {
    expect(countingIn(continued(reset(continued(first, 'r2'), 'r2-reset'), 'r3'))).toEqual(['r2-reset', 'r3']);
  });

  test('over any history of continuing and resetting, exactly the runs since the last reset count', () => {
    forAll(fc.array(fc.constantFrom('continue', 'reset'), { maxLength: 30 }), (steps) => {
      let execution = first;
      let counting = ['r1'];
      for (const [index, step] of steps.entries()) {
        const runId = `r${index + 2}`;
        execution = step === 'continue' ? continued(execution, runId) : reset(execution, runId);
        counting = step === 'continue' ? [...counting, runId] : [runId];
      }
      expect(countingIn(execution)).toEqual(counting);
    });
  });

  test('what is carried stays small: the newest 200 runs', () => {
    let execution = first;
    for (let index = 2; index <= 250; index += 1) execution = continued(execution, `r${index}`);
    expect(carriedBy(execution)).toHaveLength(200);
    expect(carriedBy(execution).at(-1)).toBe('r250');
    expect(carriedBy(execution)[0]).toBe('r51');
    expect(countingIn(execution)).toContain('r250');
  });
});

// Where a run is, in one word.

const verdicts = [askVerdict({ deadlineSeconds: 7_200 }), askVerdict({ deadlineSeconds: 60 }), allowVerdict()];
const mixed = judgedRun(identicalCalls(3), (_call, index) => ({ verdict: verdicts[index] ?? askVerdict() }));

describe('status', () => {
  test('waits only where nothing can happen until somebody decides', () => {
    expect(statusOf('acting', askingRun(2))).toBe('waiting');
    expect(statusOf('acting', mixed)).toBe('acting');
    const siblingDone = ended(mixed, 't1.c2', outcomes().succeeded).run;
    expect(statusOf('acting', siblingDone)).toBe('waiting');
  });

  test('acts while a call is proposed, and between turns', () => {
    expect(
      statusOf('acting', proposed(startRun(START), identicalCalls(1), { inputTokens: 0, outputTokens: 0 }).run),
    ).toBe('acting');
    expect(statusOf('acting', startRun(START))).toBe('acting');
    expect(statusOf('acting', ended(askingRun(), 't1.c0', outcomes().cancelled).run)).toBe('acting');
  });

  test.each(['preparing', 'thinking', 'completed', 'stopped', 'limited', 'cancelled', 'failed'] as const)(
    'a run that is %s says so, whatever its calls',
    (phase) => {
      expect(statusOf(phase, askingRun(2))).toBe(phase);
    },
  );
});

describe('what waits', () => {
  test('is the open requests, with the earliest deadline and the longest wait', () => {
    expect(askingCalls(mixed).map(({ call }) => call.callId)).toEqual(['t1.c0', 't1.c1']);
    expect(waitOf(mixed)).toEqual({ nextDeadline: START + 60_000, waitingSince: START });
  });

  test('counts the longest wait from the request that was opened first', () => {
    const later = mixed.calls.map((state) =>
      state.status === 'waiting-for-consent' && state.call.callId === 't1.c0'
        ? { ...state, request: { ...state.request, openedAt: START + 5 } }
        : state,
    );
    expect(waitOf({ ...mixed, calls: later }).waitingSince).toBe(START);
  });

  test('is nothing where no request is open', () => {
    expect(waitOf(startRun(START))).toEqual({});
    expect(askingCalls(startRun(START))).toEqual([]);
  });

  test('a settled call is told from the others', () => {
    const run = ended(mixed, 't1.c1', outcomes().cancelled).run;
    expect(run.calls.map(isSettled)).toEqual([false, true, false]);
  });
});
