/** Where a run queues: as early as its operator lets it, and always as its tenant. */
import { expect, test } from '@jest/globals';
import { priorityOf } from '../../../../activities/run/prepare-run.ts';
import { defined } from '../../../../contracts/defined.ts';
import { Fairness } from '../../../../contracts/schemas/run-spec.ts';
import { runSpec } from '../../../support/builders/run-spec.ts';

function of(fairness: (typeof Fairness)['_zod']['input'], tenant: string, priority?: number) {
  const initiator = { id: 'ann', groups: [], tenant };
  return priorityOf(Fairness.parse(fairness), {
    ...runSpec(),
    initiator,
    ...defined({ priority }),
  });
}

test('who says nothing is in the middle, as its tenant', () => {
  expect(of({}, 'acme')).toEqual({ priorityKey: 3, fairnessKey: 'acme', fairnessWeight: 1 });
});

test('a run may step back, and comes before others only as far as the operator lets it', () => {
  expect(of({}, 'acme', 5).priorityKey).toBe(5);
  expect(of({}, 'acme', 1).priorityKey).toBe(3);
  expect(of({ highest: 2 }, 'acme', 1).priorityKey).toBe(2);
  expect(of({ highest: 1, priority: 4 }, 'acme').priorityKey).toBe(4);
  expect(of({ priority: 1 }, 'acme').priorityKey).toBe(3);
});

test('what stands for a tenant counts for it alone', () => {
  const tenants = { acme: { weight: 2.5, highest: 1, priority: 2 }, 'constructor-like': { weight: 9 } };
  expect(of({ tenants }, 'acme')).toEqual({ priorityKey: 2, fairnessKey: 'acme', fairnessWeight: 2.5 });
  expect(of({ tenants }, 'acme', 1).priorityKey).toBe(1);
  expect(of({ tenants }, 'other', 1)).toEqual({ priorityKey: 3, fairnessKey: 'other', fairnessWeight: 1 });
  expect(of({ tenants }, 'constructor').fairnessWeight).toBe(1);
  expect(of({ tenants: { acme: {} } }, 'acme')).toEqual({ priorityKey: 3, fairnessKey: 'acme', fairnessWeight: 1 });
});

test('a tenant whose name is longer than a key of Temporal has a key of its own all the same', () => {
  const [one, other] = ['a', 'b'].map((end) => of({}, `${'x'.repeat(100)}${end}`).fairnessKey);
  expect(one).not.toBe(other);
  expect(one).toHaveLength(64);
});
