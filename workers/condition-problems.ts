/** Conditions of a policy that cannot be evaluated: a configuration with one is refused as a whole. */
import { compileCondition } from '../activities/policy/condition.ts';
import { pathText } from '../contracts/schemas/issues.ts';
import type { PolicyInput } from '../contracts/schemas/policy.ts';

/** @returns where, and a reason that continues it */
export function conditionProblems(
  policy: PolicyInput,
  at: readonly (string | number)[] = ['policy'],
): { readonly path: string; readonly reason: string }[] {
  return (policy.rules ?? []).flatMap(({ when }, index) => {
    if (when === undefined) return [];
    try {
      compileCondition(when);
      return [];
    } catch (error) {
      // Sound: it throws nothing else.
      return [{ path: pathText([...at, 'rules', index, 'when']), reason: (error as Error).message }];
    }
  });
}
