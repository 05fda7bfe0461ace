// A refused update makes no condition true, and a replay evaluates conditions where the live run did (INV-D1).
import fc from 'fast-check';
import { expect, test } from '@jest/globals';
import type { ActivateInput, UpdateInput } from '@temporalio/workflow';
import { interceptors, onRecord } from '../../../../workflows/interceptors/condition.ts';

type Kind = 'signal' | 'accepted' | 'refused' | 'answer';

const JOBS = {
  signal: { signalWorkflow: {} },
  accepted: { doUpdate: { name: 'accepted' } },
  refused: { doUpdate: { name: 'refused' } },
  answer: { resolveActivity: {} },
} as const;

const isTrue = onRecord(() => true);

/** Activates as the SDK does: all conditions are evaluated after each job, and once more at the end. */
function evaluated(kinds: readonly Kind[]): readonly [after: Kind | 'end', isMet: boolean][] {
  const { internals: [activation] = [], inbound: [messages] = [] } = interceptors();
  const seen: [Kind | 'end', boolean][] = [];
  const next = ({ activation: { jobs } }: ActivateInput): void => {
    for (const job of jobs ?? []) {
      const update = job.doUpdate?.name;
      // Sound: nobody reads the message, and nobody waits for its answer.
      if (update === 'accepted') void messages?.handleUpdate?.({} as UpdateInput, async () => undefined);
      seen.push([kinds[seen.length] ?? 'end', isTrue()]);
    }
  };
  activation?.activate?.({ activation: { jobs: kinds.map((kind) => JOBS[kind]) }, batchIndex: 0 }, next);
  seen.push(['end', isTrue()]);
  return seen;
}

test.each<[readonly Kind[], readonly boolean[]]>([
  [['refused'], [false, false]],
  [
    ['refused', 'refused'],
    [false, false, false],
  ],
  [
    ['refused', 'accepted'],
    [false, true, true],
  ],
  [
    ['accepted', 'refused'],
    [true, true, true],
  ],
  [
    ['refused', 'answer'],
    [false, true, true],
  ],
  [
    ['signal', 'refused'],
    [true, true, true],
  ],
  [['answer'], [true, true]],
  [[], [true]],
])('%j', (kinds, met) => expect(evaluated(kinds).map(([, isMet]) => isMet)).toEqual(met));

test('what comes after a refused update is evaluated again', () => {
  evaluated(['refused']);
  expect(evaluated(['answer'])).toEqual([
    ['answer', true],
    ['end', true],
  ]);
});

const activations = fc
  .tuple(
    fc.array(fc.constant<Kind>('signal'), { maxLength: 2 }),
    fc.array(fc.constantFrom<Kind>('accepted', 'refused'), { maxLength: 4 }),
    fc.array(fc.constant<Kind>('answer'), { maxLength: 2 }),
  )
  .map((parts) => parts.flat());

test('no condition is true before the first job on record, and every later job has them evaluated', () => {
  fc.assert(
    fc.property(activations, (kinds) => {
      const first = kinds.findIndex((kind) => kind !== 'refused');
      const met = evaluated(kinds).map(([, isMet]) => isMet);
      if (kinds.length > 0 && first < 0) expect(new Set(met)).toEqual(new Set([false]));
      else expect(met).toEqual([...kinds, 'end'].map((_, index) => index >= first));
    }),
  );
});

test('a replay, which knows no refused update, evaluates at the same jobs', () => {
  const onHistory = (kinds: readonly Kind[]) =>
    evaluated(kinds).filter(([after, isMet]) => isMet && after !== 'refused');
  fc.assert(
    fc.property(activations, (kinds) => {
      const recorded = kinds.filter((kind) => kind !== 'refused');
      if (recorded.length > 0) expect(onHistory(kinds)).toEqual(onHistory(recorded));
    }),
  );
});
