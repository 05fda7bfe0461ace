import fc from 'fast-check';
import type { DigestParts } from '../../../domain/request/digest.ts';
import { approverList, hex64, jsonObject, toolName } from './arbitraries.ts';

const text = fc.string({ maxLength: 8 });

export const arbitraryDigestParts: fc.Arbitrary<DigestParts> = fc.record({
  namespace: text,
  tenant: text,
  workflowId: text,
  callId: fc.constantFrom('t1.c0', 't1.c1', 't12.c3'),
  runId: text,
  generation: fc.integer({ min: 1, max: 9 }),
  target: fc.record({ server: text, serverUrl: text, tool: toolName, definitionHash: hex64 }),
  // Tests change `path` and add `extra`, so every value has the first and none has the second.
  arguments: jsonObject.map(({ extra: _, ...rest }) => ({ ...rest, path: 'here' })),
  approvers: fc.record({
    allOf: fc.array(
      approverList.map(({ ids, groups }) => ({ layer: 'organisation' as const, ids, groups })),
      { minLength: 1, maxLength: 3 },
    ),
  }),
});

/** Returns the same value with the fields of every object in reverse order. */
export function reversedFields<T>(value: T): T {
  if (Array.isArray(value)) {
    const items: readonly unknown[] = value;
    // Sound: the same array shape with equal items.
    return items.map((item) => reversedFields(item)) as T;
  }
  if (value === null || typeof value !== 'object') return value;
  const entries = Object.entries(value).map(([key, inner]): [string, unknown] => [key, reversedFields(inner)]);
  // Sound: the same fields with equal values.
  return Object.fromEntries(entries.reverse()) as T;
}
