/** Lists that nobody can meet are said when a worker starts (E-2, E-4). */
import { expect, test } from '@jest/globals';
import { Config, type ConfigInput } from '../../../../contracts/schemas/config.ts';
import { approverWarnings } from '../../../../workers/config/warnings.ts';

type List = NonNullable<NonNullable<ConfigInput['policy']>['approvers']>;

function warnings(approvers: List): string[] {
  const tools = { pay: { action: 'ask' as const, approvers }, look: 'allow' as const };
  return approverWarnings(Config.parse({ policy: { approvers, servers: { bank: { tools } } } }));
}

test.each<[string, List, string]>([
  ['of nobody', {}, 'names nobody'],
  ['of fewer than are needed', { ids: ['ann'], need: 2 }, 'needs 2 people and names 1'],
  ['of the same person twice', { ids: ['ann', 'ann'], need: 2 }, 'needs 2 people and names 1'],
  [
    'of just as many, one of whom may have started the run',
    { ids: ['ann', 'ben'], need: 2, notInitiator: true },
    'not who started',
  ],
])('a list %s is named where it stands', (_, list, reason) => {
  expect(warnings(list)).toEqual([
    expect.stringMatching(new RegExp(`^policy\\.approvers .*${reason}`)),
    expect.stringMatching(new RegExp(`^policy\\.servers\\.bank\\.tools\\.pay\\.approvers .*${reason}`)),
  ]);
});

test.each<List>([
  { ids: ['ann'] },
  { groups: ['ops'], need: 9 },
  { ids: ['ann', 'ben', 'zoe'], need: 2, notInitiator: true },
])('one that can be met is not: %j', (list) => {
  expect(warnings(list)).toEqual([]);
});

test.each<[string, ConfigInput['policy'], string[]]>([
  [
    'as long as the deadline',
    { deadlineSeconds: 60, extendableToSeconds: 60 },
    ['policy.extendableToSeconds is not after the deadline (60 s)'],
  ],
  [
    'no longer than 24 hours, where nothing is said',
    { extendableToSeconds: 60 },
    ['policy.extendableToSeconds is not after'],
  ],
  [
    'no longer than the deadline of a tool',
    { extendableToSeconds: 90_000, servers: { bank: { tools: { pay: { action: 'ask', deadlineSeconds: 90_000 } } } } },
    ['policy.servers.bank.tools.pay.extendableToSeconds is not after'],
  ],
  [
    'longer',
    { deadlineSeconds: 60, extendableToSeconds: 61, servers: { bank: { tools: { pay: { action: 'ask' } } } } },
    [],
  ],
])('F-4: a request that may wait %s', (_, policy, told) => {
  expect(approverWarnings(Config.parse({ policy }))).toEqual(told.map((text) => expect.stringContaining(text)));
});

test('and none where nothing is said', () => {
  expect(approverWarnings(Config.parse({}))).toEqual([]);
});

const directors = { groups: ['directors'] };
test.each<[string, List, string[]]>([
  [
    'that escalates to nobody',
    { ids: ['ann'], escalate: { afterSeconds: 60, add: {} } },
    ['approvers.escalate names nobody: nobody else is asked.'],
  ],
  [
    'whose place nobody takes',
    { groups: ['ops'], escalate: { afterSeconds: 60, replace: {} } },
    ['whoever was may not decide any more'],
  ],
  [
    'of nobody, ever',
    { escalate: { afterSeconds: 60, add: {} } },
    ['approvers names nobody: every request would expire'],
  ],
  [
    'too short, also with those who come later',
    { ids: ['ann'], need: 3, escalate: { afterSeconds: 60, add: { ids: ['ben'] } } },
    ['needs 3 people and names 2'],
  ],
  [
    'that those who come later can meet',
    { ids: ['ann'], need: 2, escalate: { afterSeconds: 60, add: { ids: ['ben'] } } },
    [],
  ],
  ['of nobody, until it escalates', { escalate: { afterSeconds: 60, add: directors } }, []],
  ['of the initiator', { onlyInitiator: true }, []],
])('a list %s', (_, approvers, told) => {
  expect(approverWarnings(Config.parse({ policy: { approvers } }))).toEqual(
    told.map((text) => expect.stringContaining(text)),
  );
});

const escalate = { afterSeconds: 60, add: directors };
test.each<[string, ConfigInput['policy'], string[]]>([
  [
    'at the deadline',
    { deadlineSeconds: 60, remindAfterSeconds: 60, approvers: { ids: ['ann'], escalate } },
    ['policy.remindAfterSeconds is not before', 'policy.approvers.escalate.afterSeconds is not before'],
  ],
  ['before it', { deadlineSeconds: 61, remindAfterSeconds: 60, approvers: { ids: ['ann'], escalate } }, []],
  [
    'before a postponed deadline',
    { deadlineSeconds: 60, extendableToSeconds: 90, remindAfterSeconds: 60, approvers: { ids: ['ann'], escalate } },
    [],
  ],
  [
    'after the deadline of one tool',
    {
      remindAfterSeconds: 60,
      servers: { bank: { tools: { pay: { action: 'ask', deadlineSeconds: 30 }, read: { action: 'ask' } } } },
    },
    ['policy.servers.bank.tools.pay.remindAfterSeconds is not before'],
  ],
])('F-4: what is planned %s', (_, policy, told) => {
  expect(approverWarnings(Config.parse({ policy }))).toEqual(told.map((text) => expect.stringContaining(text)));
});

test('a group that nobody can be in is named wherever it is asked, once all groups are stated', () => {
  const people = { groups: ['ops', 'financee'] };
  const policy: ConfigInput['policy'] = {
    approvers: { groups: ['ops'] },
    rules: [
      {
        id: 'pay',
        match: { tool: 'pay*' },
        then: 'ask',
        approvers: { ids: ['ann'], escalate: { afterSeconds: 60, add: { groups: ['oops'] } } },
      },
    ],
    servers: { bank: { tools: { groups: { action: 'ask', approvers: people } } } },
  };
  const told = (groups?: string[]) => approverWarnings(Config.parse({ policy: { ...policy, groups } }));
  expect(told()).toEqual([]);
  expect(told(['ops', 'financee', 'oops'])).toEqual([]);
  expect(told(['ops', 'finance'])).toEqual([
    'policy.rules[0].approvers.escalate.add.groups names oops, which is none of policy.groups: nobody can be in it.',
    'policy.servers.bank.tools.groups.approvers.groups names financee, which is none of policy.groups: nobody can be in it.',
  ]);
});
