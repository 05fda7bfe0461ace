/** What policy says of one call inside one layer (S2.1, S4.1, INV-G4). */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { Policy } from '../../../../contracts/schemas/policy.ts';
import { judge, type JudgedTool } from '../../../../domain/policy/judge.ts';
import { jsonValue, policy } from '../../../support/builders/arbitraries.ts';
import { judgedTool, policyLayers } from '../../../support/builders/policy.ts';

function kindOf(organisation: Policy, tool: Partial<JudgedTool> = {}): string {
  return judge(policyLayers({ organisation }), judgedTool(tool), 'ann').kind;
}

/** What a stored policy of another version may hold. */
function odd(value: unknown): Policy {
  // Sound for the test: the judge is asked about a value that its type forbids.
  return value as Policy;
}

describe('strategies', () => {
  test('S2.1: always asks, never allows', () => {
    expect(kindOf({ strategy: 'always' })).toBe('ask');
    expect(kindOf({ strategy: 'never' })).toBe('allow');
  });

  test('INV-G4: without a policy every call is asked', () => {
    expect(kindOf({})).toBe('ask');
  });

  test('S2.1, INV-G4: a strategy that nobody knows asks', () => {
    for (const strategy of ['sometimes', '', 'Never', 'allow', null, 7]) expect(kindOf(odd({ strategy }))).toBe('ask');
  });

  test('S2.1: annotations exempt a call only by a boolean `readOnlyHint: true` of a trusted server', () => {
    const strategy = { strategy: 'annotations' } as const;
    const annotations = { readOnlyHint: true };
    expect(kindOf(strategy, { annotations, serverTrusted: true })).toBe('allow');
    expect(kindOf(strategy, { annotations, serverTrusted: false })).toBe('ask');
    expect(kindOf(strategy, { annotations: undefined, serverTrusted: true })).toBe('ask');
  });

  test('S2.1, INV-G4: any other annotation asks', () => {
    const annotations = fc.oneof(
      fc.record({ readOnlyHint: jsonValue.filter((value) => value !== true) }),
      fc.constantFrom(
        {},
        { readOnlyHint: 'true' },
        { readOnlyHint: 1 },
        { readOnlyHint: [true] },
        { readonlyhint: true },
        { destructiveHint: false },
      ),
    );
    fc.assert(
      fc.property(
        annotations,
        (given) => kindOf({ strategy: 'annotations' }, { annotations: given, serverTrusted: true }) === 'ask',
      ),
    );
  });

  test('INV-G4: a hint that the annotations only inherit asks', () => {
    // What JSON holds under `__proto__` may end up as a prototype in a careless copy.
    const annotations = Object.create({ readOnlyHint: true }) as Record<string, never>;
    expect(kindOf({ strategy: 'annotations' }, { annotations, serverTrusted: true })).toBe('ask');
  });

  test('annotations count under no other strategy', () => {
    const tool = { annotations: { readOnlyHint: true }, serverTrusted: true };
    expect(kindOf({ strategy: 'always' }, tool)).toBe('ask');
    expect(kindOf({}, tool)).toBe('ask');
  });
});

describe('rules of one layer', () => {
  const files = { default: 'allow', tools: { write_file: 'deny', read_file: { action: 'ask' } } } as const;

  test('the first that matches wins: tool, then server, then strategy', () => {
    const layer: Policy = { strategy: 'always', servers: { files } };
    expect(kindOf(layer)).toBe('deny');
    expect(kindOf(layer, { tool: 'read_file' })).toBe('ask');
    expect(kindOf(layer, { tool: 'list' })).toBe('allow');
    expect(kindOf(layer, { server: 'mail' })).toBe('ask');
  });

  test('S4.1: a tool of a listed server that no list names falls to the strategy, without one it is asked', () => {
    expect(kindOf({ strategy: 'never', servers: { files: { tools: files.tools } } }, { tool: 'list' })).toBe('allow');
    expect(kindOf({ servers: { files: { tools: files.tools } } }, { tool: 'list' })).toBe('ask');
    expect(kindOf({ servers: { files: {} } })).toBe('ask');
  });

  test('INV-G4: an action that nobody knows asks, also where the strategy would allow', () => {
    for (const action of ['permit', '', 'ALLOW', null]) {
      expect(kindOf(odd({ strategy: 'never', servers: { files: { default: action } } }))).toBe('ask');
      expect(kindOf(odd({ strategy: 'never', servers: { files: { tools: { write_file: { action } } } } }))).toBe('ask');
    }
    expect(kindOf(odd({ strategy: 'never', servers: { files: { tools: { write_file: 'permit' } } } }))).toBe('ask');
  });

  test.each(['constructor', '__proto__', 'toString', 'hasOwnProperty'])(
    'a tool or server named %s is a name like any other',
    (name) => {
      expect(kindOf({ strategy: 'never', servers: { files: { tools: {} } } }, { tool: name })).toBe('allow');
      expect(kindOf({ strategy: 'never', servers: {} }, { server: name })).toBe('allow');
      const stated = { [name]: 'deny' } as const;
      expect(kindOf({ strategy: 'never', servers: { files: { tools: stated } } }, { tool: name })).toBe('deny');
      expect(kindOf({ strategy: 'never', servers: { [name]: { default: 'deny' } } }, { server: name })).toBe('deny');
    },
  );

  test('S3.5: tools are known by their original names', () => {
    const layer: Policy = { strategy: 'never', servers: { files: { tools: { 'issue.get': 'deny' } } } };
    expect(kindOf(layer, { tool: 'issue.get' })).toBe('deny');
    expect(kindOf(layer, { tool: 'issue_get' })).toBe('allow');
  });

  test('every verdict names the rule that gave it', () => {
    const rules = (organisation: Policy, tool: Partial<JudgedTool> = {}): readonly string[] =>
      judge(policyLayers({ organisation }), judgedTool(tool), 'ann').rules;
    expect(rules({ servers: { files } })).toEqual(['organisation/servers/files/tools/write_file']);
    expect(rules({ servers: { files } }, { tool: 'list' })).toEqual(['organisation/servers/files/default']);
    expect(rules({ strategy: 'never' })).toEqual(['organisation/strategy/never']);
    expect(rules({ strategy: 'always' })).toEqual(['organisation/strategy/always']);
    expect(rules({ strategy: 'annotations' })).toEqual(['organisation/strategy/annotations']);
    expect(rules({ strategy: 'annotations' }, { annotations: { readOnlyHint: true }, serverTrusted: true })).toEqual([
      'organisation/strategy/annotations/read-only',
    ]);
    expect(rules({})).toEqual(['organisation/default']);
    fc.assert(fc.property(policy, (given) => rules(given).length > 0));
  });

  test('a denial says which tool and which rule, for the model and the caller', () => {
    expect(judge(policyLayers({ organisation: { servers: { files } } }), judgedTool(), 'ann')).toEqual({
      kind: 'deny',
      code: 'POLICY_DENIED',
      rules: ['organisation/servers/files/tools/write_file'],
      message: 'files/write_file is denied by organisation/servers/files/tools/write_file.',
    });
  });
});
