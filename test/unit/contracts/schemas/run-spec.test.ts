/** What a backend may send to start a run, and what is refused, by path. */
import { describe, expect, test } from '@jest/globals';
import { z } from 'zod';
import { CountersignError } from '../../../../contracts/errors.ts';
import { parseAs } from '../../../../contracts/schemas/parse.ts';
import { RunSpec } from '../../../../contracts/schemas/run-spec.ts';
import { runSpecInput } from '../../../support/builders/run-spec.ts';

const jwe = { protected: 'p', encrypted_key: 'k', iv: 'i', ciphertext: 'c', tag: 't', aad: 'a' };

function parsed(over: Record<string, unknown> = {}): RunSpec {
  return parseAs(RunSpec, { ...runSpecInput(), ...over }, 'SPEC_INVALID', 'run spec');
}

function refusedAt(over: Record<string, unknown>): unknown {
  try {
    parsed(over);
  } catch (error) {
    if (error instanceof CountersignError && error.code === 'SPEC_INVALID') return error.facts.path;
    throw error;
  }
  throw new Error('the spec was accepted');
}

describe('defaults', () => {
  test('the least that a caller may send is a whole spec', () => {
    expect(parsed()).toEqual({
      agent: { name: 'clerk', model: 'scripted', instructions: '' },
      input: 'Tidy the notes.',
      initiator: { id: 'ann', groups: [], tenant: 'default' },
      servers: [],
      grants: [],
      limits: {
        turns: 100,
        calls: 1_000,
        callsPerTurn: 16,
        argumentBytes: 65_536,
        argumentBytesPerTurn: 262_144,
        resultBytes: 65_536,
        tokens: 5_000_000,
        wallClockSeconds: 2_592_000,
        turnsPerExecution: 40,
        callTimeoutSeconds: 120,
      },
    });
  });

  test('a stated limit leaves the others at their defaults', () => {
    expect(parsed({ limits: { turns: 5 } }).limits).toMatchObject({ turns: 5, calls: 1_000 });
  });

  test('approvers may name ids or groups alone', () => {
    expect(parsed({ policy: { approvers: { groups: ['ops'] } } }).policy).toEqual({
      approvers: { ids: [], groups: ['ops'] },
    });
  });

  test('a parsed spec is parsed to itself', () => {
    const spec = parsed({ servers: [{ name: 'files', allowedTools: ['read_file'] }], policy: { strategy: 'always' } });
    expect(RunSpec.parse(spec)).toEqual(spec);
  });
});

test.each<[string, Record<string, unknown>]>([
  ['extra', { extra: 1 }],
  ['agent.temperature', { agent: { name: 'a', model: 'b', temperature: 1 } }],
  ['initiator.email', { initiator: { id: 'ann', email: 'x' } }],
  ['input[0].name', { input: [{ role: 'user', content: 'x', name: 'y' }] }],
  ['servers[0].headers', { servers: [{ name: 'a', headers: {} }] }],
  ['policy.default', { policy: { default: 'ask' } }],
  ['policy.approvers.roles', { policy: { approvers: { roles: [] } } }],
  ['policy.servers.files.allow', { policy: { servers: { files: { allow: [] } } } }],
  [
    'policy.servers.files.tools.write_file.timeout',
    { policy: { servers: { files: { tools: { write_file: { action: 'ask', timeout: 1 } } } } } },
  ],
  ['limits.turn', { limits: { turn: 1 } }],
  ['grants[0].jwe.header', { grants: [{ server: 'a', jwe: { ...jwe, header: {} } }] }],
])('unknown fields: %s is refused with its path', (path, over) => {
  expect(refusedAt(over)).toBe(path);
});

describe('values out of range', () => {
  test.each<[string, Record<string, unknown>]>([
    ['agent', { agent: undefined }],
    ['agent.name', { agent: { name: 'a b', model: 'm' } }],
    ['agent.name', { agent: { name: 'x'.repeat(65), model: 'm' } }],
    ['agent.output', { agent: { name: 'a', model: 'm', output: [] } }],
    ['input', { input: '' }],
    ['input', { input: [] }],
    ['input[0].role', { input: [{ role: 'assistant', content: 'x' }] }],
    ['initiator.id', { initiator: { id: '' } }],
    ['initiator.id', { initiator: { id: 'ann smith' } }],
    ['servers[1].name', { servers: [{ name: 'a' }, { name: '../b' }] }],
    ['servers[0].url', { servers: [{ name: 'a', url: 'ftp://x' }] }],
    ['servers[0].url', { servers: [{ name: 'a', url: 'file:///etc/passwd' }] }],
    ['servers[0].allowedTools[0]', { servers: [{ name: 'a', allowedTools: [''] }] }],
    ['policy.strategy', { policy: { strategy: 'sometimes' } }],
    ['policy.deadlineSeconds', { policy: { deadlineSeconds: 0 } }],
    ['policy.deadlineSeconds', { policy: { deadlineSeconds: 31_536_001 } }],
    ['policy.servers.files.default', { policy: { servers: { files: { default: 'permit' } } } }],
    ['limits.turns', { limits: { turns: 0 } }],
    ['limits.turns', { limits: { turns: 1.5 } }],
    ['limits.turns', { limits: { turns: '5' } }],
    ['limits.argumentBytes', { limits: { argumentBytes: 262_145 } }],
  ])('%s is refused', (path, over) => {
    expect(refusedAt(over)).toBe(path);
  });

  test('a grant is sealed or a reference, never a clear token, and never both', () => {
    expect(
      parsed({
        grants: [
          { server: 'a', jwe },
          { server: 'b', ref: 'vault/1' },
        ],
      }).grants,
    ).toHaveLength(2);
    for (const grant of [
      { server: 'a', token: 't' },
      { server: 'a', jwe: 'e30.a.b.c.d' },
      { server: 'a' },
      { server: 'a', jwe, ref: 'x' },
    ]) {
      expect(refusedAt({ grants: [grant] })).toMatch(/^grants\[0\]/);
    }
  });
});

test.each([
  ['policy.servers.__proto__', '{"policy": {"servers": {"__proto__": {"tools": {"pay": "deny"}}}}}'],
  ['policy.servers.bank.tools.__proto__', '{"policy": {"servers": {"bank": {"tools": {"__proto__": "deny"}}}}}'],
  [
    'agent.output.properties.__proto__',
    '{"agent": {"name": "a", "model": "m", "output": {"properties": {"__proto__": {}}}}}',
  ],
])('a name that a map would lose without a word is refused, and with it no rule is lost: %s', (path, over) => {
  // Sound: the texts above are objects.
  expect(refusedAt(JSON.parse(over) as Record<string, unknown>)).toBe(path);
});

test('input that nests deeper than a stack is refused in words', () => {
  const nested = (levels: number): unknown => JSON.parse(`${'['.repeat(levels)}{"__proto__":1}${']'.repeat(levels)}`);
  expect(() => parseAs(z.unknown(), nested(999), 'SPEC_INVALID', 'spec')).toThrow(/__proto__/);
  expect(() => parseAs(z.unknown(), nested(50_000), 'SPEC_INVALID', 'spec')).toThrow(/nests deeper than 1000 levels/);
});
