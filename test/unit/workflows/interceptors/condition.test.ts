// A refused update makes no condition true, and a replay evaluates conditions where the live run did (INV-D1).
import fc from 'fast-check';
import { afterEach, expect, test } from '@jest/globals';
import type { ActivateInput, UpdateInput } from '@temporalio/workflow';
import { interceptors, onRecord } from '../../../../workflows/interceptors/condition.ts';
import { forAll } from '../../../support/for-all.ts';

type Kind = 'signal' | 'accepted' | 'refused' | 'answer';

const JOBS = {
  signal: { signalWorkflow: { signalName: 'signal' } },
  accepted: { doUpdate: { name: 'accepted' } },
  refused: { doUpdate: { name: 'refused' } },
  answer: { resolveActivity: { seq: 1 } },
} as const;

const isTrue = onRecord(() => true);

type Evaluated = readonly [after: Kind | 'end', isMet: boolean];

// Sound: the one field of the SDK's state that is read.
const sdk = globalThis as { __TEMPORAL_ACTIVATOR__?: { randomnessSeed: readonly number[] } };
afterEach(() => void delete sdk.__TEMPORAL_ACTIVATOR__);

/** Activates as the SDK does: all conditions are evaluated after each job, and once more at the end. */
function evaluated(kinds: readonly Kind[], isReset = false): readonly Evaluated[] {
  sdk.__TEMPORAL_ACTIVATOR__ = { randomnessSeed: [] };
  const { internals: [activation] = [], inbound: [messages] = [] } = interceptors();
  if (isReset) sdk.__TEMPORAL_ACTIVATOR__.randomnessSeed = [];
  const seen: Evaluated[] = [];
  const next = ({ activation: { jobs } }: ActivateInput): void => {
    for (const job of jobs ?? []) {
      const update = job.doUpdate?.name;
      // Sound: nobody reads the message, and nobody waits for its answer.
      if (update === 'accepted') void messages?.handleUpdate?.({} as UpdateInput, async () => undefined);
      const kind = update === 'accepted' || update === 'refused' ? update : job.signalWorkflow ? 'signal' : 'answer';
      seen.push([kind, isTrue()]);
    }
  };
  activation?.activate?.({ activation: { jobs: kinds.map((kind) => JOBS[kind]) }, batchIndex: 0 }, next);
  seen.push(['end', isTrue()]);
  return seen;
}

test.each<[string, readonly Kind[], readonly boolean[]]>([
  ['nothing after a refused update', ['refused'], [false, false]],
  ['nothing after two of them', ['refused', 'refused'], [false, false, false]],
  ['what an accepted update changes', ['refused', 'accepted'], [false, true, true]],
  ['what came before a refused update', ['accepted', 'refused'], [true, true, true]],
  ['an answer behind a refused update, and nothing before it', ['refused', 'answer'], [false, true, true]],
  ['a signal before a refused update', ['signal', 'refused'], [true, true, true]],
  ['an answer', ['answer'], [true, true]],
  ['a task that brings the workflow nothing', [], [true]],
])('conditions notice %s', (_name, kinds, met) =>
  expect(evaluated(kinds)).toEqual(met.map((isMet, index) => [kinds[index] ?? 'end', isMet])),
);

test('the first task after a reset is evaluated at its end, as a replay does that knows of no refused update', () => {
  expect(evaluated(['refused'], true)).toEqual([
    ['refused', false],
    ['end', true],
  ]);
  expect(evaluated([], true)).toEqual([['end', true]]);
});

const activations = fc
  .tuple(
    fc.array(fc.constant<Kind>('signal'), { maxLength: 2 }),
    fc.array(fc.constantFrom<Kind>('accepted', 'refused'), { maxLength: 4 }),
    fc.array(fc.constant<Kind>('answer'), { maxLength: 2 }),
  )
  .map((parts) => parts.flat());

test('every job comes in its order; no condition is true before the first one on record, and all are after it', () => {
  forAll(activations, (kinds) => {
    const first = kinds.findIndex((kind) => kind !== 'refused');
    const isNothing = kinds.length > 0 && first === -1;
    const met = [...kinds, 'end' as const].map((kind, index): Evaluated => [kind, !isNothing && index >= first]);
    expect(evaluated(kinds)).toEqual(met);
  });
});

test('a replay, which knows of no refused update, evaluates at the same jobs', () => {
  const onHistory = (kinds: readonly Kind[], isReset: boolean) =>
    evaluated(kinds, isReset).filter(([after, isMet]) => isMet && after !== 'refused');
  forAll(activations, fc.boolean(), (kinds, isReset) => {
    const recorded = kinds.filter((kind) => kind !== 'refused');
    // A replay has no such task.
    fc.pre(isReset || recorded.length > 0);
    expect(onHistory(kinds, isReset)).toEqual(onHistory(recorded, isReset));
  });
});
