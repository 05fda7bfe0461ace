/** What a digest of several runs tells, and to whom (I-1, INV-D3, INV-S1): by what the runs themselves say. */
import { describe, expect, test } from '@jest/globals';
import type { LedgerFact } from '../../../../contracts/schemas/ledger.ts';
import type { Gathered, MessageEvent } from '../../../../contracts/schemas/notify.ts';
import { OrganisationPolicy } from '../../../../contracts/schemas/policy.ts';
import type { ApprovalRequest } from '../../../../contracts/schemas/request.ts';
import { judge } from '../../../../domain/policy/judge.ts';
import {
  closingIn,
  digestIdOf,
  mayBeTold,
  newsIn,
  type News,
  type NotifyPolicy,
  requestIn,
} from '../../../../domain/request/gathering.ts';
import { approvalRequest } from '../../../support/builders/approval-request.ts';
import { approverRule } from '../../../support/builders/judgement.ts';
import { acceptedFact, ledgerOf, openedFact, verdictFact } from '../../../support/builders/ledger.ts';
import { bounded } from '../../../../domain/text/escape.ts';
import { judgedTool, policyLayers } from '../../../support/builders/policy.ts';
import { START } from '../../../support/builders/run.ts';

const HEX = 'a'.repeat(64);

function gathered(event: MessageEvent, run = 'run/1', ...calls: readonly string[]): Gathered {
  const all = calls.length === 0 ? ['t1.c0'] : calls;
  return { key: HEX, run, event, calls: all.map((callId) => ({ callId, generation: 1 })) };
}

function news(event: MessageEvent = 'opened', over: Partial<News> = {}): News {
  return { run: 'run/1', callId: 't1.c0', generation: 1, event, ...over };
}

test('the id of a digest names tenant and channel, and people by a hash alone', () => {
  const id = digestIdOf({ tenant: 'acme/eu', channel: 'desk', to: { ids: ['ann'], groups: ['ops'] } });
  expect(id).toMatch(/^digest\/acme%2Feu\/desk\/[0-9a-f]{64}$/);
  expect(digestIdOf({ tenant: 'acme/eu', channel: 'desk', to: { ids: ['ben'], groups: ['ops'] } })).not.toBe(id);
});

describe('news', () => {
  test('requests stand in the order in which they came, each once', () => {
    const all = [gathered('opened', 'run/1', 't1.c0', 't1.c1'), gathered('opened', 'run/2'), gathered('reminder')];
    expect(newsIn(all)).toEqual([news(), news('opened', { callId: 't1.c1' }), news('opened', { run: 'run/2' })]);
  });

  test('INV-D3: each generation of a request is news of its own', () => {
    const again = { ...gathered('opened'), calls: [{ callId: 't1.c0', generation: 2 }] };
    expect(newsIn([gathered('closed'), again])).toEqual([news('closed'), news('opened', { generation: 2 })]);
  });

  test.each<[readonly MessageEvent[], MessageEvent | undefined]>([
    [['opened', 'reminder', 'escalation'], 'opened'],
    [['unknown', 'expiring'], 'unknown'],
    [['reminder', 'expiring'], 'expiring'],
    [['reminder', 'closed'], 'closed'],
    [['opened', 'closed'], undefined],
    [['unknown', 'reminder', 'closed'], undefined],
  ])('%p is told as %p', (events, as) =>
    expect(newsIn(events.map((event) => gathered(event))).map(({ event }) => event)).toEqual(
      as === undefined ? [] : [as],
    ),
  );
});

describe('what the run shows', () => {
  const shown = (over: Partial<ApprovalRequest> = {}, values = { iban: 'DE02', amount: 5 }): ApprovalRequest => ({
    ...approvalRequest(values),
    ...over,
  });

  test('INV-S1: a request as lists show it, without what policy redacts', () => {
    const explain = [{ rule: 'organisation/rules/pay', text: 'x'.repeat(301) }];
    const found = requestIn([shown({ redact: ['iban'], explain, reopenedBecause: 'changed' })], news(), START);
    expect(found?.told).toEqual({
      callId: 't1.c0',
      generation: 1,
      server: 'files',
      tool: shown().tool,
      arguments: '{"amount":5,"iban":"[redacted]"}',
      who: 'ann',
      deadline: '2026-01-01T01:00:00.000Z',
      rules: ['organisation/default'],
      explain: [bounded('x'.repeat(301), 300)],
      because: 'changed',
    });
  });

  test('those who may decide by then are named, and what is asked', () => {
    const clause = { layer: 'organisation' as const, ids: ['ann'], groups: [] };
    const escalate = { afterSeconds: 60, replace: { ids: ['ben'], groups: [] } };
    const about = { kind: 'outcome' as const, message: 'lost', attempt: 1 };
    const request = shown({ approvers: { allOf: [{ ...clause, escalate }] }, about });
    expect(requestIn([request], news(), START + 60_000)?.told).toMatchObject({ who: 'ben', about: 'outcome' });
  });

  test('INV-D3: what was decided, asked anew or never asked is not told as if it waited', () => {
    expect(requestIn([shown({ status: 'approved' })], news(), START)).toBeUndefined();
    expect(requestIn([shown({ generation: 2 })], news(), START)).toBeUndefined();
    expect(requestIn([shown()], news('opened', { callId: 't1.c1' }), START)).toBeUndefined();
    expect(requestIn([shown()], news('closed'), START)).toBeUndefined();
  });

  test('a closed request says how, and by whom', () => {
    const closed = { status: 'rejected' as const, decidedBy: { id: 'ben', groups: [] }, reopenedBecause: 'changed' };
    expect(requestIn([shown(closed)], news('closed'), START)?.told).toMatchObject({
      closed: { status: 'rejected', by: 'ben' },
    });
    const expired = requestIn([shown({ status: 'expired' })], news('closed'), START)?.told;
    expect(expired?.closed).toEqual({ status: 'expired' });
    expect(expired).not.toHaveProperty('because');
  });
});

describe('how a request closed in a run that has gone on', () => {
  const given = { approver: { id: 'ben', groups: [] }, digest: HEX, runId: 'first' };
  const answer = { callId: 't1.c0', generation: 1, decisionId: 'd-1', ...given };
  const verdict = verdictFact({ rules: ['organisation/rules/pay'] });
  const opened = openedFact();
  const approved = acceptedFact(answer);
  const closing = (...facts: readonly LedgerFact[]) => closingIn(ledgerOf(facts), news('closed'));

  test('the ledger tells it, without arguments', () => {
    const said: LedgerFact = { kind: 'said', messageId: 'm', from: 'ann', textHash: HEX };
    expect(closing(said, verdict, opened, { kind: 'dispatched', callId: 't1.c0', attempt: 1 }, approved)).toEqual({
      approvers: approverRule(['ann']),
      told: {
        callId: 't1.c0',
        generation: 1,
        server: 'bank',
        tool: 'pay',
        arguments: '',
        who: 'ann',
        deadline: '2026-01-01T01:00:00.000Z',
        rules: ['organisation/rules/pay'],
        closed: { status: 'approved', by: 'ben' },
      },
    });
  });

  test.each<[string, LedgerFact, object | undefined]>([
    ['a rejection', { ...approved, decision: 'reject' }, { status: 'rejected', by: 'ben' }],
    ['an answer in the place of the tool', { ...approved, decision: 'respond' }, { status: 'answered', by: 'ben' }],
    ['a postponement does not', { ...approved, decision: 'extend' }, undefined],
    ['the first of two approvals does not', { ...approved, counted: true }, undefined],
    ['an authorization', { kind: 'authorization.given', answer: 'consent', ...answer }, { status: 'answered' }],
    [
      'the first of two consents does not',
      { kind: 'authorization.given', answer: 'consent', counted: true, ...answer },
      undefined,
    ],
    ['what became of the call', { kind: 'outcome.resolved', answer: 'retry', ...answer }, { status: 'answered' }],
    ['answers to a server', { kind: 'input.provided', answer: 'provide', ...answer }, { status: 'answered' }],
    [
      'its deadline',
      { kind: 'request.closed', callId: 't1.c0', generation: 1, status: 'expired' },
      { status: 'expired' },
    ],
    [
      'the end of another request does not',
      { kind: 'request.closed', callId: 't1.c0', generation: 2, status: 'expired' },
      undefined,
    ],
    [
      'the end of another call does not',
      { kind: 'request.closed', callId: 't1.c1', generation: 1, status: 'expired' },
      undefined,
    ],
  ])('closed by: %s', (_, fact, closed) => expect(closing(verdict, opened, fact)?.told.closed).toEqual(closed));

  test('after an edit, the rules are those that asked last', () => {
    const edited: LedgerFact = { ...verdict, rules: ['organisation/rules/big'] };
    expect(closing(verdict, opened, edited, approved)?.told.rules).toEqual(['organisation/rules/big']);
  });

  test('what the entries do not hold is not told', () => {
    expect(closing(verdict, approved)).toBeUndefined();
    expect(closing(opened, approved)).toBeUndefined();
    const about = { kind: 'input' as const, hash: HEX };
    const { server: _, ...nowhere } = verdict;
    expect(closing(nowhere, { ...opened, about }, approved)?.told).toMatchObject({ server: '', about: 'input' });
  });
});

describe('nobody is told whom the run would not have told', () => {
  const escalate = { afterSeconds: 60, add: { ids: ['ben'], groups: ['leads'] } };
  const approvers = {
    idCase: 'ignored' as const,
    allOf: [{ layer: 'organisation' as const, ids: ['ann'], groups: ['ops'], escalate }],
  };
  const policy = (over: Partial<NotifyPolicy> = {}): NotifyPolicy => ({ notify: [{ channel: 'desk' }], ...over });
  const rule = (id: string, notify?: NotifyPolicy['notify']): NonNullable<NotifyPolicy['rules']>[number] => ({
    id,
    then: 'ask',
    ...(notify === undefined ? {} : { notify }),
  });
  interface Case {
    readonly by?: NotifyPolicy;
    readonly event?: MessageEvent;
    readonly about?: boolean;
    readonly channel?: string;
    /** As the judge names the rule that asked. */
    readonly asking?: string;
  }
  const may = (
    ids: readonly string[],
    groups: readonly string[] = [],
    { by = policy(), event = 'opened', about = false, channel = 'desk', asking = 'pay' }: Case = {},
  ): boolean => {
    const told = requestIn([approvalRequest()], news(), START)?.told;
    if (told === undefined) throw new Error('there is no request');
    const asked = { ...told, rules: [`organisation/rules/${asking}`], ...(about ? { about: 'outcome' as const } : {}) };
    return mayBeTold(
      { told: asked, approvers },
      { event },
      { channel, to: { ids: [...ids], groups: [...groups] } },
      by,
      'ida',
    );
  };

  test('approvers are told, also those to whom it escalates, and compared as policy says', () => {
    expect([may(['ann']), may(['ANN', 'ben']), may([], ['ops', 'leads']), may([])]).toEqual([true, true, true, true]);
    expect([may(['eve']), may(['ann', 'eve']), may([], ['everybody']), may(['ida'])]).toEqual([
      false,
      false,
      false,
      false,
    ]);
  });

  test('a channel to which nothing of it goes tells nobody, and neither does an event that is not told', () => {
    expect(may(['ann'], [], { channel: 'other' })).toBe(false);
    const by = policy({ notify: [{ channel: 'desk', on: ['closed'] }] });
    expect([may(['ann'], [], { by }), may(['ann'], [], { by, event: 'closed' })]).toEqual([false, true]);
    expect(may(['ann'], [], { by: {} })).toBe(false);
  });

  test('a rule whose condition failed tells whom it tells otherwise (INV-G4)', () => {
    const organisation = OrganisationPolicy.parse({
      rules: [{ ...rule('pay', [{ channel: 'desk' }]), when: 'arguments.sum > 5' }],
    });
    for (const holds of ['failed', 'unknown'] as const) {
      const { rules } = judge(policyLayers({ organisation }), judgedTool(), 'ida', () => holds);
      const [asking = ''] = rules.map((each) => each.replace('organisation/rules/', ''));
      expect(asking).toMatch(/^pay \(/);
      expect(may(['ann'], [], { by: organisation, asking })).toBe(true);
    }
  });

  test('initiators and others are told where a route says so', () => {
    const by = policy({
      notify: [
        { channel: 'desk', to: 'initiator' },
        { channel: 'desk', to: { ids: ['zoe'], groups: [] } },
      ],
    });
    expect([may(['ida'], [], { by }), may(['zoe'], [], { by }), may(['ann'], [], { by })]).toEqual([true, true, false]);
  });

  test('the routes of a rule take the place of those of the policy, save for what is asked later', () => {
    const silent = policy({ rules: [rule('pay', []), rule('other', [{ channel: 'desk', to: 'initiator' }])] });
    expect([may(['ann'], [], { by: silent }), may(['ida'], [], { by: silent })]).toEqual([false, false]);
    expect(may(['ann'], [], { by: silent, about: true })).toBe(true);
    expect(may(['ann'], [], { by: policy({ rules: [rule('pay')] }) })).toBe(true);
    const own = policy({ rules: [rule('pay', [{ channel: 'desk', to: 'initiator' }])] });
    expect([may(['ida'], [], { by: own }), may(['ann'], [], { by: own })]).toEqual([true, false]);
  });
});
