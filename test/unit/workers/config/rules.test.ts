/** Rules of a policy: what is refused, and what is said to be never of use (S4.1, G-5). */
import { describe, expect, test } from '@jest/globals';
import { Config, type ConfigInput } from '../../../../contracts/schemas/config.ts';
import type { PolicyRuleInput } from '../../../../contracts/schemas/policy.ts';
import { checkConfig } from '../../../../workers/config/checks.ts';
import { approverWarnings, ruleWarnings } from '../../../../workers/config/warnings.ts';

function warnings(policy: NonNullable<ConfigInput['policy']>, servers = ['bank', 'files']): string[] {
  return ruleWarnings(Config.parse({ policy }).policy, servers);
}

function rules(...each: Omit<PolicyRuleInput, 'id'>[]): string[] {
  return warnings({ rules: each.map((rule, index) => ({ ...rule, id: `r${index}` })) });
}

describe('a rule that can never match is named with the one before it', () => {
  test.each<[string, Omit<PolicyRuleInput, 'id'>[]]>([
    [
      'the same',
      [
        { match: { tool: 'a' }, then: 'ask' },
        { match: { tool: 'a' }, then: 'deny' },
      ],
    ],
    ['one about everything', [{ then: 'ask' }, { match: { server: 'bank' }, when: 'true', then: 'deny' }]],
    [
      'a wider star',
      [
        { match: { server: 'b*' }, then: 'ask' },
        { match: { server: 'bank*', tool: 'x' }, then: 'deny' },
      ],
    ],
    [
      'the same hints',
      [
        { match: { annotations: { readOnlyHint: true } }, then: 'ask' },
        { match: { annotations: { readOnlyHint: true } }, then: 'allow' },
      ],
    ],
  ])('%s', (_, each) => {
    expect(rules(...each)).toEqual([
      'policy.rules[1] never matches: policy.rules[0] stands before it and matches all of it.',
    ]);
  });

  test.each<[string, Omit<PolicyRuleInput, 'id'>[]]>([
    ['one with a condition', [{ when: 'true', then: 'ask' }, { then: 'deny' }]],
    [
      'a narrower star',
      [
        { match: { server: 'bank' }, then: 'ask' },
        { match: { server: 'b*' }, then: 'deny' },
      ],
    ],
    ['hints, which may not hold', [{ match: { annotations: { readOnlyHint: true } }, then: 'ask' }, { then: 'deny' }]],
    [
      'an allowance by hints that nobody may trust',
      [
        { match: { annotations: { readOnlyHint: true } }, then: 'allow' },
        { match: { annotations: { readOnlyHint: true } }, then: 'deny' },
      ],
    ],
  ])('not behind %s', (_, each) => {
    expect(rules(...each)).toEqual([]);
  });

  test('so is an entry of a list or of a server', () => {
    expect(
      warnings({
        rules: [{ id: 'a', match: { server: 'bank' }, then: 'ask' }],
        always: ['bank/pay', 'files/write'],
        never: ['files/*'],
        servers: { files: { tools: { read: 'deny' } }, bank: { tools: { look: { action: 'allow' } } } },
      }),
    ).toEqual([
      'policy.always[0] never matches: policy.rules[0] stands before it and matches all of it.',
      'policy.servers.files.tools.read never matches: policy.never[0] stands before it and matches all of it.',
      'policy.servers.bank.tools.look never matches: policy.rules[0] stands before it and matches all of it.',
    ]);
  });
});

test('a rule or entry about a server that nobody configured is named', () => {
  expect(
    warnings({ rules: [{ id: 'a', match: { server: 'bnk*' }, then: 'ask' }], always: ['x/y'], never: ['*/z', 'f*/*'] }),
  ).toEqual([
    expect.stringMatching(/^policy\.rules\[0\]\.match\.server applies only where/),
    expect.stringMatching(/^policy\.always\[0\] applies only where/),
  ]);
});

test('approvers of a rule that asks nobody are named, and lists that nobody can meet', () => {
  expect(rules({ then: 'allow', approvers: { ids: ['ann'] } })).toEqual([
    'policy.rules[0] says who decides or until when, and asks nobody: it says allow.',
  ]);
  const policy = { rules: [{ id: 'a', then: 'ask' as const, approvers: { ids: ['ann'], need: 2 } }] };
  expect(approverWarnings(Config.parse({ policy }))).toEqual([
    expect.stringMatching(/^policy\.rules\[0\]\.approvers needs 2 people and names 1/),
  ]);
});

test('what is meant to be for a while is named as long as it is there', () => {
  const breakGlass = { reason: 'Pager down.', until: '2026-06-01T00:00:00.000Z' };
  const policy = Config.parse({
    policy: {
      halt: { reason: 'Mail is hacked.', servers: ['mail'] },
      rules: [
        { id: 'glass', match: { server: 'bank' }, then: 'allow', breakGlass },
        { id: 'pay', match: { server: 'bank' }, then: 'ask' },
      ],
    },
  }).policy;
  const before = Date.parse(breakGlass.until) - 1;
  expect(ruleWarnings(policy, ['bank', 'mail'], before)).toEqual([
    'policy.halt is in force and denies every call of mail: Mail is hacked.',
    'policy.rules[0].breakGlass is in force until 2026-06-01T00:00:00.000Z: Pager down.',
  ]);
  expect(ruleWarnings({ ...policy, halt: { reason: 'All.' } }, ['bank'], before + 1)).toEqual([
    'policy.halt is in force and denies every call: All.',
    'policy.rules[0].breakGlass has ended at 2026-06-01T00:00:00.000Z: remove the rule.',
  ]);
});

test('a server that a halt names and that is not configured is named, with what may be meant', () => {
  const { policy } = Config.parse({ policy: { halt: { reason: 'Now.', servers: ['ledgr', 'bank', 'far'] } } });
  expect(ruleWarnings(policy, ['ledger', 'bank'])).toEqual([
    expect.stringContaining('policy.halt is in force'),
    'policy.halt.servers[0] halts ledgr only where a run or a catalog has a server of that name: none is configured. Did you mean ledger?',
    'policy.halt.servers[2] halts far only where a run or a catalog has a server of that name: none is configured.',
  ]);
});

describe('refused', () => {
  test('with the path: two rules of one id', () => {
    const twice = [
      { id: 'a', then: 'ask' },
      { id: 'a', then: 'deny' },
    ];
    expect(Config.safeParse({ policy: { rules: twice } }).error?.issues).toMatchObject([
      { path: ['policy', 'rules', 1, 'id'], message: expect.stringContaining('stands in the list already') },
    ]);
  });

  test.each([
    ['that is not the language', 'args.x ==', 'cannot be read'],
    ['on what is no input', 'user.name == "ann"', 'Unknown variable: user'],
  ])('with the path: a condition %s', (_, when, reason) => {
    const config = Config.parse({
      policy: {
        rules: [
          { id: 'a', then: 'ask' },
          { id: 'b', when, then: 'deny' },
        ],
      },
    });
    expect(() => checkConfig(config, 'configuration')).toThrow(new RegExp(`policy\\.rules\\[1\\]\\.when .*${reason}`));
  });

  test('with the path: the rule that uses more patterns than a policy may', () => {
    const two = { when: 'args.s.matches("a") || args.s.matches("b")', then: 'ask' as const };
    const all = Array.from({ length: 251 }, (_, index) => ({ id: `r${index}`, ...two }));
    const config = (count: number) => Config.parse({ policy: { rules: all.slice(0, count) } });
    expect(() => checkConfig(config(250), 'configuration')).not.toThrow();
    expect(() => checkConfig(config(251), 'configuration')).toThrow(
      /policy\.rules\[250\]\.when uses `matches` beyond the 500 times/,
    );
  });

  test.each([
    ['a list entry without a server', { always: ['pay'] }],
    ['a halt without a reason', { halt: {} }],
    ['glass without an end', { rules: [{ id: 'a', then: 'allow', breakGlass: { reason: 'x' } }] }],
    [
      'glass that asks',
      { rules: [{ id: 'a', then: 'ask', breakGlass: { reason: 'x', until: '2026-06-01T00:00:00.000Z' } }] },
    ],
    ['a hint that is no hint', { rules: [{ id: 'a', match: { annotations: { title: true } }, then: 'ask' }] }],
    ['more rules than there may be', { rules: Array.from({ length: 501 }, (_, n) => ({ id: `r${n}`, then: 'ask' })) }],
    ['a condition that is too long', { rules: [{ id: 'a', when: 'x'.repeat(1_001), then: 'ask' }] }],
  ])('%s', (_, policy) => {
    expect(Config.safeParse({ policy }).success).toBe(false);
  });
});
