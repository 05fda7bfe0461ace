/** Lists that nobody can meet are said when a worker starts (E-2, E-4). */
import { expect, test } from '@jest/globals';
import { Config, type ConfigInput } from '../../../contracts/schemas/config.ts';
import { approverWarnings } from '../../../workers/approver-warnings.ts';

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
