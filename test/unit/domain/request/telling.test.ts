/**
 * Who is told what of requests (I-1, F-4, INV-D3, INV-S1), by the state of the run alone. One file, because all of it
 * is told from the same few runs.
 */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { MessageEvent, NotifyRoute } from '../../../../contracts/schemas/notify.ts';
import type { ApproverRule } from '../../../../contracts/schemas/policy.ts';
import type { PreparedNotify } from '../../../../contracts/wire/notify.ts';
import { tell } from '../../../../domain/request/deadline.ts';
import {
  follow,
  messagesOf,
  nextWarning,
  type Open,
  type Told,
  withoutPassing,
} from '../../../../domain/request/telling.ts';
import { accept } from '../../../../domain/request/decision.ts';
import { dispatched, ended } from '../../../../domain/request/transitions.ts';
import { callOf, requestStatusOf, type Run } from '../../../../domain/state/run.ts';
import { identicalCalls, proposedCall } from '../../../support/builders/call.ts';
import { answer, askingOf, rejection, shown } from '../../../support/builders/decision.ts';
import { approverRule, askVerdict, clauseFor } from '../../../support/builders/judgement.ts';
import { approvedBy, pausedRun } from '../../../support/builders/pause.ts';
import { judgedRun, proposedRun, runIds, START } from '../../../support/builders/run.ts';
import { forAll } from '../../../support/for-all.ts';

const HOUR = 3_600_000;
const ALL: PreparedNotify = { routes: [{ channel: 'all' }] };
const identity = {
  namespace: 'default',
  workflowId: 'run/1',
  initiator: { id: 'ida', tenant: 'default', groups: [] },
  specHash: 'b'.repeat(64),
};

function asking(over: Partial<ReturnType<typeof askVerdict>> = {}, count = 1): Run {
  return judgedRun(identicalCalls(count), () => ({ verdict: askVerdict({ deadlineSeconds: 7_200, ...over }) }));
}

/** Follows a run from state to state. */
function followed(states: readonly (readonly [Run, number])[], notify = ALL): readonly MessageEvent[][] {
  let open: Open = {};
  return states.map(([run, at]) => {
    const next = follow(open, run, notify, at);
    ({ open } = next);
    return next.told.map(({ event }) => event);
  });
}

function told(run: Run, notify = ALL, now = START): readonly Told[] {
  return follow({}, run, notify, now).told;
}

function messages(all: readonly Told[], notify = ALL, wanted = (_channel: string): boolean => true) {
  return messagesOf(all, notify, { identity, ids: runIds() }, wanted);
}

const escalating: ApproverRule = {
  allOf: [clauseFor(['ann'], { escalate: { afterSeconds: 1_800, replace: { ids: ['dora'], groups: ['leads'] } } })],
  remindAfterSeconds: 900,
};

describe('events of a request', () => {
  test('F-4: opened, reminded, escalated, near its deadline, closed: each once', () => {
    const run = asking({ approvers: escalating });
    const reminded = tell(run, 't1.c0', START + 900_000).run;
    const escalated = tell(reminded, 't1.c0', START + 1_800_000).run;
    const closed = ended(escalated, 't1.c0', { kind: 'expired', deadline: '2026-01-01T02:00:00.000Z' }).run;
    const events = followed([
      [proposedRun(identicalCalls(1)), START],
      [run, START],
      [run, START],
      [reminded, START + 900_000],
      [reminded, START + 900_001],
      [escalated, START + 1_800_000],
      [escalated, START + HOUR - 1],
      [escalated, START + HOUR],
      [escalated, START + HOUR + 1],
      [closed, START + 2 * HOUR],
      [closed, START + 2 * HOUR],
    ]);
    const each = ['', 'opened', '', 'reminder', '', 'escalation', '', 'expiring', '', 'closed', ''];
    expect(events.map((names) => names.join())).toEqual(each);
  });

  test('a reminder that was due when a request was first seen is not told beside it', () => {
    const late = tell(asking({ approvers: escalating }), 't1.c0', START + 1_800_000).run;
    expect(followed([[late, START + 1_800_000]])).toEqual([['opened']]);
  });

  test('a call that may have run is told as such, and its answer closes the request', () => {
    const run = pausedRun();
    const settled = ended(run, 't1.c0', { kind: 'cancelled', reason: 'over' }).run;
    expect(followed([run, settled].map((each) => [each, START]))).toEqual([['unknown'], ['closed']]);
  });

  test('of a call that is not there any more nothing is told', () => {
    const gone = { ...asking(), calls: [] };
    expect(followed([asking(), gone].map((each) => [each, START]))).toEqual([['opened'], []]);
  });

  test('what opened and closed in one look is told to nobody, and nothing else is lost', () => {
    const run = asking({}, 2);
    const opened = told(run);
    const { told: closed, open } = follow(follow({}, run, ALL, START).open, approvedBy(run), ALL, START);
    const news = withoutPassing([...opened, ...closed], open);
    expect(news.map(({ event, state }) => [event, state.call.callId])).toEqual([['opened', 't1.c1']]);
    expect(withoutPassing(closed, open)).toEqual(closed);
  });

  test('of what was gathered, nothing is told of a request that closed meanwhile, whether that is told or not', () => {
    const run = asking({ approvers: escalating });
    const before = follow({}, run, ALL, START);
    const later = tell(run, 't1.c0', START + 1_800_000).run;
    const reminded = follow(before.open, later, ALL, START + 1_800_000);
    const over = ended(later, 't1.c0', { kind: 'cancelled', reason: 'over' }).run;
    const closed = follow(reminded.open, over, ALL, START + 1_800_000);
    expect(reminded.told.map(({ event }) => event)).toEqual(['reminder', 'escalation']);
    expect(withoutPassing([...before.told, ...reminded.told], closed.open)).toEqual([]);
    expect(withoutPassing([...reminded.told, ...closed.told], closed.open)).toEqual(closed.told);
    const again = { ...reminded.open['t1.c0'], generation: 2 };
    // Sound: only the number differs.
    expect(withoutPassing(before.told, { 't1.c0': again } as Open)).toEqual([]);
  });

  test('INV-D3: whenever one looks, and however often, nothing is told twice', () => {
    const times = fc.array(fc.integer({ min: 0, max: 8_000 }), { maxLength: 30 });
    forAll(times, (seconds) => {
      const run = asking({ approvers: escalating });
      const states = seconds
        .toSorted((one, other) => one - other)
        .map((second) => [tell(run, 't1.c0', START + second * 1_000).run, START + second * 1_000] as const);
      const events = followed([[run, START], ...states]).flat();
      expect(new Set(events).size).toBe(events.length);
    });
  });
});

describe('a deadline that comes near', () => {
  test.each<readonly [string, readonly NotifyRoute[], number | undefined]>([
    ['an hour before, if nothing is said', [{ channel: 'all' }], START + HOUR],
    ['as a route says', [{ channel: 'all', on: ['expiring'], expiringSeconds: 60 }], START + 2 * HOUR - 60_000],
    ['never, if nobody wants to know', [{ channel: 'all', on: ['opened'] }], undefined],
    ['never, if it was near at the opening', [{ channel: 'all', expiringSeconds: 7_200 }], undefined],
  ])('%s', (_, routes, at) => {
    const run = asking();
    const { open } = follow({}, run, { routes }, START);
    expect(nextWarning(open, run, { routes })).toBe(at);
    const near = follow(open, run, { routes }, START + 2 * HOUR - 1);
    expect(near.told.map(({ event }) => event)).toEqual(at === undefined ? [] : ['expiring']);
    expect(nextWarning(near.open, run, { routes })).toBeUndefined();
  });

  const twice: PreparedNotify = { routes: [{ channel: 'all' }, { channel: 'late', expiringSeconds: 600 }] };
  const LATE = START + 2 * HOUR - 600_000;

  test('each route is told at its own time', () => {
    const run = asking();
    const opened = follow({}, run, twice, START);
    const early = follow(opened.open, run, twice, START + HOUR);
    const late = follow(early.open, run, twice, LATE);
    expect([opened, early, late].map(({ open }) => nextWarning(open, run, twice))).toEqual([
      START + HOUR,
      LATE,
      undefined,
    ]);
    const channels = [early, late].map(({ told: each }) => messages(each, twice).map(({ channel }) => channel));
    expect(channels).toEqual([['all'], ['late']]);
  });

  test('the later of two is told though the earlier one was over at the opening', () => {
    const run = asking({ deadlineSeconds: 1_800 });
    const { open } = follow({}, run, twice, START);
    expect(nextWarning(open, run, twice)).toBe(START + 1_200_000);
    const near = follow(open, run, twice, START + 1_200_000).told;
    expect(messages(near, twice).map(({ channel }) => channel)).toEqual(['late']);
  });

  test('two times that are over at once are one message of a channel', () => {
    const routes = [{ channel: 'all' }, { channel: 'all', expiringSeconds: 600 }];
    const run = asking();
    const near = follow(follow({}, run, { routes }, START).open, run, { routes }, LATE).told;
    expect(near.map(({ event }) => event)).toEqual(['expiring', 'expiring']);
    const [message, ...others] = messages(near, { routes });
    expect([message?.requests.length, others]).toEqual([1, []]);
  });
});

describe('who is told', () => {
  test.each<readonly [string, NotifyRoute['to'], readonly string[], readonly string[]]>([
    ['whoever may decide', undefined, ['ann', 'bob'], ['ops']],
    ['the same, said', 'approvers', ['ann', 'bob'], ['ops']],
    ['who started the run', 'initiator', ['ida'], []],
    ['named people', { ids: ['zoe'], groups: ['desk'] }, ['zoe'], ['desk']],
  ])('%s', (_, to, ids, groups) => {
    const approvers = { allOf: [clauseFor(['bob', 'ann', 'ida'], { groups: ['ops'], not: ['ida'] })] };
    const notify = { routes: [{ channel: 'all', ...(to === undefined ? {} : { to }) }] };
    expect(messages(told(asking({ approvers }), notify), notify)).toMatchObject([{ to: { ids, groups } }]);
  });

  test('who may not decide by one list, and may by another, is told; ids are compared as policy says', () => {
    const first = clauseFor(['ida', 'ann'], { not: ['IDA'] });
    const both = [first, clauseFor(['ida'], { layer: 'run' })];
    const to = (rule: ApproverRule) => messages(told(asking({ approvers: rule }))).map((each) => each.to.ids);
    expect(to({ allOf: both, together: true, idCase: 'ignored' })).toEqual([['ann', 'ida']]);
    expect(to({ allOf: [first], idCase: 'ignored' })).toEqual([['ann']]);
    expect(to({ allOf: [first] })).toEqual([['ann', 'ida']]);
  });

  test('who has agreed is not reminded, and hears that the request is closed', () => {
    const allOf = [clauseFor(['Ann', 'ben', 'cleo'], { need: 2 })];
    const run = asking({ approvers: { ...escalating, idCase: 'ignored', allOf } });
    const { open } = follow({}, run, ALL, START);
    const once = tell(approvedBy(run), 't1.c0', START + 900_000).run;
    const reminded = follow(open, once, ALL, START + 900_000);
    expect(messages(reminded.told)).toMatchObject([{ event: 'reminder', to: { ids: ['ben', 'cleo'] } }]);
    const closed = follow(reminded.open, approvedBy(once, 'ben', 'd-1'), ALL, START + 900_000);
    expect(messages(closed.told)).toMatchObject([{ event: 'closed', to: { ids: ['Ann', 'ben', 'cleo'] } }]);
  });

  test('F-4: from an escalation on, those who may decide by then', () => {
    const later = told(asking({ approvers: escalating }), ALL, START + 1_800_000);
    expect(messages(later)).toMatchObject([{ to: { ids: ['dora'], groups: ['leads'] } }]);
  });

  test("a rule's own routes take the place of those of the policy, also none", () => {
    const verdicts: readonly NotifyRoute[][] = [[], [{ channel: 'own' }]];
    const all = verdicts.map((notify) => messages(told(asking({ notify }))).map(({ channel }) => channel));
    expect(all).toEqual([[], ['own']]);
    expect(messages(told(pausedRun())).map(({ channel }) => channel)).toEqual(['all']);
  });

  test('routes to one channel are one message, and only what a route is about is told', () => {
    const routes: NotifyRoute[] = [
      { channel: 'all', on: ['opened'], to: { ids: ['zoe'], groups: [] } },
      { channel: 'all' },
      { channel: 'other', on: ['closed'] },
      { channel: 'unwanted' },
    ];
    const all = messages(told(asking(), { routes }), { routes }, (channel) => channel !== 'unwanted');
    expect(all).toMatchObject([{ channel: 'all', event: 'opened', to: { ids: ['ann', 'zoe'] } }]);
  });
});

describe('what a message holds', () => {
  test('requests that open together are one message, and of many the first twenty', () => {
    const [two] = messages(told(asking({}, 2)));
    expect(two?.requests.map(({ callId }) => callId)).toEqual(['t1.c0', 't1.c1']);
    expect(two).not.toHaveProperty('more');
    const [many] = messages(told(asking({}, 23)));
    expect([many?.requests.length, many?.more]).toEqual([20, 3]);
  });

  test('those that other people decide are messages of their own', () => {
    const run = judgedRun(identicalCalls(2), ({ callId }) => ({
      verdict: askVerdict({ approvers: approverRule([callId === 't1.c0' ? 'ann' : 'ben']) }),
    }));
    expect(messages(told(run)).map(({ to }) => to.ids)).toEqual([['ann'], ['ben']]);
  });

  test('INV-S1: nothing redacted, and not more than a reader wants', () => {
    const call = proposedCall({ arguments: { iban: 'canary', text: 'x'.repeat(2_000), to: 'acme' } });
    const verdict = askVerdict({ explain: [{ rule: 'r', text: 'y'.repeat(400) }] });
    const run = judgedRun([call], () => ({ verdict, redact: ['iban'] }));
    const [message] = messages(told(run));
    expect(JSON.stringify(message)).not.toContain('canary');
    expect(message?.requests[0]?.arguments).toMatch(
      /^\{"iban":"\[redacted\]","text":"x{120}"…\(2000 characters, sha256 [0-9a-f]{12}\),"to":"acme"\}$/,
    );
    expect(message?.requests[0]?.explain?.[0]).toMatch(/y… \(100 more characters\)$/);
  });

  test('who may decide is cut as every text is', () => {
    const ids = Array.from({ length: 100 }, (_, index) => `person-${index}`);
    const [message] = messages(told(asking({ approvers: approverRule(ids) })));
    expect(message?.requests[0]?.who).toMatch(/^person-0, person-1, .+… \(\d+ more characters\)$/);
    expect(message?.requests[0]?.who.length).toBeLessThan(340);
  });

  test('why it is asked again', () => {
    const run = asking();
    const again = run.calls.map((state) =>
      'request' in state ? { ...state, request: { ...state.request, because: 'again' } } : state,
    );
    // Sound: only a field of the open request is added.
    const [message] = messages(told({ ...run, calls: again } as Run));
    expect(message?.requests[0]?.because).toBe('again');
  });

  const opened = (run: Run): Open => follow({}, run, ALL, START).open;
  const closedAs = (before: Run, after: Run) =>
    messages(follow(opened(before), after, ALL, START).told)[0]?.requests[0];

  test('how a request closed, and who did it', () => {
    const approved = approvedBy(asking());
    expect(closedAs(asking(), approved)?.closed).toEqual({ status: 'approved', by: 'ann' });
    const expired = ended(asking(), 't1.c0', { kind: 'expired', deadline: '2026-01-01T02:00:00.000Z' }).run;
    expect(closedAs(asking(), expired)?.closed).toEqual({ status: 'expired' });
    const over = ended(pausedRun(), 't1.c0', { kind: 'cancelled', reason: 'over' }).run;
    expect(closedAs(pausedRun(), over)).toMatchObject({ about: 'outcome', closed: { status: 'cancelled' } });
  });

  test.each([
    ['rejected', rejection()],
    ['answered', answer()],
  ] as const)('%s by a person', (status, decision) => {
    const run = asking({ approvers: { allOf: [{ layer: 'run', ids: ['ann'], groups: [], may: ['respond'] }] } });
    const state = askingOf(run, 't1.c0');
    const after = accept(run, state, { ...decision, ...shown(run, 't1.c0') }, START).run;
    expect(closedAs(run, after)?.closed).toEqual({ status, by: 'ann' });
  });

  test('withdrawn, or let go and then ended', () => {
    const over = ended(asking(), 't1.c0', { kind: 'cancelled', reason: 'over' }).run;
    expect(closedAs(asking(), over)?.closed).toEqual({ status: 'cancelled' });
    const gone = ended(approvedBy(asking()), 't1.c0', { kind: 'cancelled', reason: 'over' }).run;
    expect(closedAs(asking(), gone)?.closed).toEqual({ status: 'approved', by: 'ann' });
    const [state] = over.calls;
    const made = { decision: { ...rejection(), ...shown(asking(), 't1.c0') }, decidedAt: START };
    const calls = state?.status === 'settled' ? [{ ...state, made }] : [];
    expect(closedAs(asking(), { ...over, calls })?.closed).toEqual({ status: 'rejected', by: 'ann' });
  });

  test('of a request that is open again under another number, only the new one is told', () => {
    const state = askingOf(asking(), 't1.c0');
    expect(requestStatusOf(state)).toBe('open');
    const again = { ...asking(), calls: [{ ...state, request: { ...state.request, generation: 2 } }] };
    expect(follow(opened(asking()), again, ALL, START).told).toMatchObject([{ event: 'opened', generation: 2 }]);
  });

  test('an answer after which the call goes on, and one that settles it', () => {
    const paused = pausedRun();
    const state = callOf(paused, 't1.c0');
    const { run: flying } = dispatched(
      judgedRun(identicalCalls(1), () => ({ verdict: { kind: 'allow', rules: ['r'] } })),
      't1.c0',
    ) ?? { run: paused };
    expect(closedAs(paused, flying)?.closed).toEqual({ status: 'answered' });
    const over = ended(paused, 't1.c0', { kind: 'cancelled', reason: 'over' }).run;
    const pause = { status: 'resolved' as const, by: { id: 'ben', groups: [] }, at: START };
    const resolved = over.calls.map((each) => (each.status === 'settled' ? { ...each, pause } : each));
    expect(state?.status).toBe('waiting-for-answer');
    expect(closedAs(paused, { ...over, calls: resolved })?.closed).toEqual({ status: 'resolved', by: 'ben' });
  });

  test('a call whose tool nobody knows is told by the name that the model used', () => {
    const [each] = told(asking());
    const state = proposedRun(identicalCalls(1)).calls[0];
    if (each === undefined || state === undefined) throw new Error('nothing is told');
    expect(messages([{ ...each, state }])).toMatchObject([
      { requests: [{ server: '', tool: 'files__write_file', rules: [] }] },
    ]);
  });
});

describe('the key of a message', () => {
  const keys = (ids: Partial<ReturnType<typeof runIds>>, all: readonly Told[], channel = 'all') =>
    messagesOf(all, { routes: [{ channel }] }, { identity, ids: runIds(ids) }, () => true).map(({ key }) => key);

  test('F16: is the same for the same news, and another for any other', () => {
    const all = told(asking());
    const [one] = keys({}, all);
    expect(keys({}, told(asking()))).toEqual([one]);
    const others = [
      ...keys({ workflowId: 'run/2' }, all),
      ...keys({ runId: 'run-2' }, all),
      ...keys({ namespace: 'other' }, all),
      ...keys({}, all, 'other'),
      ...keys({}, told(asking({}, 2))),
      ...keys(
        {},
        all.map((each) => ({ ...each, generation: 2 })),
      ),
      ...keys(
        {},
        all.map((each) => ({ ...each, event: 'reminder' as const })),
      ),
      ...keys(
        {},
        all.map((each) => ({ ...each, at: 1 })),
      ),
    ];
    expect(new Set([one, ...others]).size).toBe(others.length + 1);
  });
});
