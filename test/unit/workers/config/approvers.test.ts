/** Lists that nobody can meet are said when a worker starts (E-2, E-4). */
import { expect, test } from '@jest/globals';
import { Config, type ConfigInput } from '../../../../contracts/schemas/config.ts';
import { approverWarnings } from '../../../../workers/config/warnings.ts';

type List = NonNullable<NonNullable<ConfigInput['policy']>['approvers']>;

const warningsOf = (policy: ConfigInput['policy']): string[] => approverWarnings(Config.parse({ policy }));

function warnings(approvers: List): string[] {
  const tools = { pay: { action: 'ask' as const, approvers }, look: 'allow' as const };
  return warningsOf({ approvers, servers: { bank: { tools } } });
}

test.each<[string, List, string]>([
  ['of nobody', {}, 'names nobody'],
  ['of fewer than are needed', { ids: ['ann'], need: 2 }, 'needs 2 people and names 1'],
  ['of the same person twice', { ids: ['ann', 'ann'], need: 2 }, 'needs 2 people and names 1'],
  ['of whom one may have started the run', { ids: ['ann', 'ben'], need: 2, notInitiator: true }, 'not who started'],
])('a list %s is named where it stands', (_, list, reason) => {
  expect(warnings(list)).toEqual([
    expect.stringMatching(new RegExp(`^policy\\.approvers .*${reason}`)),
    expect.stringMatching(new RegExp(`^policy\\.servers\\.bank\\.tools\\.pay\\.approvers .*${reason}`)),
  ]);
});

test('ids count as people as policy.idCase compares them', () => {
  const approvers = { ids: ['Ann', 'ann'], need: 2 };
  expect(warningsOf({ approvers })).toEqual([]);
  expect(warningsOf({ approvers, idCase: 'ignored' })).toEqual([
    'policy.approvers needs 2 people and names 1: every request would expire.',
  ]);
});

test.each<List>([
  { ids: ['ann'] },
  { groups: ['ops'], need: 9 },
  { ids: ['ann', 'ben', 'zoe'], need: 2, notInitiator: true },
])('one that can be met is not: %j', (list) => {
  expect(warnings(list)).toEqual([]);
});

const ann = { ids: ['ann'] };
const directors = { groups: ['directors'] };
const later = (escalated: { add: object } | { replace: object }) => ({ escalate: { afterSeconds: 60, ...escalated } });
const escalating = { approvers: { ...ann, ...later({ add: directors }) }, remindAfterSeconds: 60 };
const payTool = (over: object) => ({
  servers: { bank: { tools: { pay: { action: 'ask' as const, ...over }, read: { action: 'ask' as const } } } },
});
const planned = ['policy.remindAfterSeconds is not before', 'policy.approvers.escalate.afterSeconds is not before'];
const noLonger = 'policy.extendableToSeconds is not after the deadline (60 s)';
const payNoLonger = 'policy.servers.bank.tools.pay.extendableToSeconds is not after';
const payReminded = 'policy.servers.bank.tools.pay.remindAfterSeconds is not before';

test.each<[string, ConfigInput['policy'], string[]]>([
  ['nothing that is said', {}, []],
  ['F-4: a time as long as the deadline', { deadlineSeconds: 60, extendableToSeconds: 60 }, [noLonger]],
  [
    'F-4: a time within the 24 hours of silence',
    { extendableToSeconds: 60 },
    ['policy.extendableToSeconds is not after'],
  ],
  [
    'F-4: a time within the deadline of a tool',
    { extendableToSeconds: 90_000, ...payTool({ deadlineSeconds: 90_000 }) },
    [payNoLonger],
  ],
  ['F-4: a longer time', { deadlineSeconds: 60, extendableToSeconds: 61, ...payTool({}) }, []],
  ['F-4: what is planned at the deadline', { deadlineSeconds: 60, ...escalating }, planned],
  ['F-4: what is planned before it', { deadlineSeconds: 61, ...escalating }, []],
  ['F-4: what is planned before a postponed one', { deadlineSeconds: 60, extendableToSeconds: 90, ...escalating }, []],
  [
    'F-4: what is planned after that of a tool',
    { remindAfterSeconds: 60, ...payTool({ deadlineSeconds: 30 }) },
    [payReminded],
  ],
  [
    'a list that escalates to nobody',
    { approvers: { ...ann, ...later({ add: {} }) } },
    ['approvers.escalate names nobody: nobody else is asked.'],
  ],
  [
    'a list whose place nobody takes',
    { approvers: { groups: ['ops'], ...later({ replace: {} }) } },
    ['whoever was may not decide any more'],
  ],
  ['a list of nobody, ever', { approvers: later({ add: {} }) }, ['approvers names nobody: every request would expire']],
  [
    'a list too short, with those who come later',
    { approvers: { ...ann, need: 3, ...later({ add: { ids: ['ben'] } }) } },
    ['needs 3 people and names 2'],
  ],
  [
    'a list that those who come later can meet',
    { approvers: { ...ann, need: 2, ...later({ add: { ids: ['ben'] } }) } },
    [],
  ],
  ['a list of nobody, until it escalates', { approvers: later({ add: directors }) }, []],
  ['a list of the initiator', { approvers: { onlyInitiator: true } }, []],
])('of %s is told what nobody can have meant', (_, policy, told) => {
  expect(warningsOf(policy)).toEqual(told.map((text) => expect.stringContaining(text)));
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
