/** How standing decisions end: taken back, over, or of a tool that is another one now (G-1, H-7, INV-D3, INV-G2). */
import { describe, expect, test } from '@jest/globals';
import {
  admitForget,
  callsApprovedBy,
  forget,
  lost,
  MOST_FORGOTTEN,
  remembered,
  standingOf,
} from '../../../../domain/request/standing.ts';
import { dispatched } from '../../../../domain/request/transitions.ts';
import { startRun } from '../../../../domain/state/run.ts';
import { askingOf } from '../../../support/builders/decision.ts';
import { allowVerdict } from '../../../support/builders/judgement.ts';
import { runIds, START } from '../../../support/builders/run.ts';
import { ARGS, decidedIn, nextTurn, remembering, rememberRule, statuses } from '../../../support/builders/standing.ts';
import { toolTarget } from '../../../support/builders/tool.ts';

const first = nextTurn(startRun(START), [ARGS]);
const run = decidedIn(first, remembering(first, 't1.c0', { scope: 'tool' }), START + 1_000, 'g'.repeat(64)).run;
const [standing] = run.standing ?? [];
if (standing === undefined) throw new Error('it stands');
const { id } = standing;
const ann = { id: 'ann', groups: [] };

describe('taken back', () => {
  const message = { standing: id, by: ann, comment: 'too much' };

  test('by whoever may decide such a call, once; whoever says it again hears the same', () => {
    expect(admitForget(run, { ...message, by: { id: 'mallory', groups: [] } })).toMatchObject({
      code: 'APPROVER_NOT_ENTITLED',
    });
    expect(admitForget(run, { ...message, standing: 'none' })).toMatchObject({ code: 'STANDING_UNKNOWN' });
    expect(admitForget(startRun(START), message)).toMatchObject({ code: 'STANDING_UNKNOWN' });
    expect(admitForget(run, { standing: id, by: { id: 'bob', groups: [] } })).toMatchObject({ kind: 'accept' });
    const { run: after, ack, facts } = forget(run, standing, message, runIds(), START + 2_000);
    expect(facts).toEqual([{ kind: 'standing.forgotten', standing: id, by: 'ann', because: 'too much' }]);
    expect(after.standing).toEqual([]);
    expect(admitForget(after, message)).toEqual({ kind: 'repeat', ack });
    expect(statuses(nextTurn(after, [ARGS]))).toEqual(['waiting-for-consent']);
  });

  test('INV-G1: what it has let through and is not sent yet is asked after all; what is sent, is sent', () => {
    const next = nextTurn(run, [ARGS, ARGS]);
    const flying = dispatched(next, 't2.c1')?.run ?? next;
    const { run: after, facts } = forget(flying, standing, { standing: id, by: ann }, runIds(), START + 2_000);
    expect(after.calls).toMatchObject([
      { status: 'waiting-for-consent', request: { generation: 2, because: expect.stringMatching(/^STANDING_LOST/) } },
      { status: 'in-flight' },
    ]);
    expect(facts).toMatchObject([{ kind: 'standing.forgotten' }, { kind: 'request.opened', callId: 't2.c0' }]);
    // Somebody let it leave once more, though it may have run: whoever is asked now reads that, too.
    const unsure = { kind: 'unknown', code: 'OUTCOME_UNKNOWN', message: 'lost' } as const;
    const retried = { ...next, calls: next.calls.map((state) => ({ ...state, unsure, asked: 1 })) };
    const { facts: told } = forget(retried, standing, { standing: id, by: ann }, runIds(), START + 2_000);
    expect(told[1]).toMatchObject({ because: expect.stringMatching(/may have run\. STANDING_LOST/) });
    expect(standingOf(after, id, START)).toBeUndefined();
    expect(standingOf(startRun(START), id, START)).toBeUndefined();
    expect(standingOf(flying, id, START)).toBe(standing);
  });

  test('whoever is asked after all has the whole time, however long the call has waited for its server', () => {
    const next = nextTurn(run, [ARGS]);
    expect(callsApprovedBy(next, standing).map(({ call }) => call.callId)).toEqual(['t2.c0']);
    const late = START + 86_400_000;
    const deadlineOf = (isAnew?: boolean) =>
      askingOf(forget(next, standing, message, runIds(), late, isAnew).run, 't2.c0').request.deadline - late;
    const seconds = deadlineOf() / 1_000;
    expect(seconds).toBeGreaterThan(1);
    expect(next.calls).toMatchObject([{ judgement: { verdict: { kind: 'ask', deadlineSeconds: seconds } } }]);
    // Runs of older builds go on as they were recorded.
    expect(deadlineOf(false)).toBe(1_000);
  });

  test('of those that were taken back, the newest are known', () => {
    const many = Array.from({ length: MOST_FORGOTTEN }, (_, index) => ({
      standing: `old-${index}`,
      forgottenBy: 'ann',
      forgottenAt: '',
    }));
    const { run: after } = forget({ ...run, forgotten: many }, standing, message, runIds(), START);
    expect(after.forgotten).toHaveLength(MOST_FORGOTTEN);
    expect(after.forgotten?.at(-1)?.standing).toBe(id);
    // Nothing stands any more: what is told of it is told all the same.
    const { standing: _, ...none } = run;
    expect(forget(none, standing, message, runIds(), START).run.standing).toEqual([]);
  });
});

describe('ends by itself', () => {
  test.each([
    ['where the tool has changed (H-7)', { target: { ...toolTarget(), definitionHash: 'e'.repeat(64) } }],
    ['where the server has moved', { target: { ...toolTarget(), serverUrl: 'https://else.example/' } }],
    ['where it is reached otherwise', { connection: 'c'.repeat(64) }],
  ])('%s, also when that is taken back', (_, over) => {
    const changed = nextTurn(run, [ARGS], over);
    expect(changed.standing).toEqual([]);
    expect(statuses(nextTurn(changed, [ARGS]))).toEqual(['waiting-for-consent']);
  });

  test('not where a call is allowed, is of another tool, or means none', () => {
    const other = { ...toolTarget(), tool: 'read_file', definitionHash: 'e'.repeat(64) };
    for (const over of [{ verdict: allowVerdict() }, { target: other }])
      expect(nextTurn(run, [ARGS], over).standing).toHaveLength(1);
    const { target: _, ...unknown } = { target: undefined };
    expect(nextTurn(run, [ARGS], unknown).standing).toHaveLength(1);
  });

  test('at its end, also where nothing is asked of it before', () => {
    const until = new Date(START + 5_000).toISOString();
    const short = decidedIn(first, remembering(first, 't1.c0', { scope: 'tool', until })).run;
    expect(statuses(nextTurn(short, [ARGS], {}, START + 4_999))).toEqual(['approved']);
    const over = nextTurn(short, [ARGS], {}, START + 5_000);
    expect(statuses(over)).toEqual(['waiting-for-consent']);
    expect(over.standing).toEqual([]);
    const [known] = short.standing ?? [];
    expect(standingOf(short, known?.id, START + 4_999)).toBe(known);
    expect(standingOf(short, known?.id, START + 5_000)).toBeUndefined();
  });

  test('and is told of in the ledger when another one begins', () => {
    const until = new Date(START + 5_000).toISOString();
    const short = decidedIn(first, remembering(first, 't1.c0', { scope: 'call', until })).run;
    const next = nextTurn(short, [{ path: 'b' }], {}, START + 2_000);
    const { run: after, facts } = decidedIn(next, remembering(next, 't2.c0', { scope: 'call' }), START + 6_000);
    expect(after.standing).toHaveLength(1);
    expect(facts.map(({ kind }) => kind)).toEqual(['decision.accepted', 'standing.forgotten', 'standing.made']);
  });

  test('F-6: when the approval itself no longer holds', () => {
    const brief = nextTurn(startRun(START), [ARGS], {
      verdict: { kind: 'ask', rules: ['r'], approvers: { ...rememberRule(), validForSeconds: 2 }, deadlineSeconds: 60 },
    });
    const short = decidedIn(brief, remembering(brief, 't1.c0', { scope: 'tool' })).run;
    expect(statuses(nextTurn(short, [ARGS], {}, START + 2_999))).toEqual(['approved']);
    expect(statuses(nextTurn(short, [ARGS], {}, START + 3_000))).toEqual(['waiting-for-consent']);
  });

  test('where a dispatch did not take it as consent', () => {
    const { run: after, facts } = lost(run, id, 'DECISION_STALE_RUN');
    expect(after.standing).toEqual([]);
    expect(facts).toEqual([{ kind: 'standing.forgotten', standing: id, because: 'DECISION_STALE_RUN' }]);
    expect(lost(after, id, 'x')).toEqual({ run: after, facts: [] });
    expect(lost(startRun(START), id, 'x').facts).toEqual([]);
  });
});

describe('does not begin', () => {
  test('with a call that is not approved, or was answered by one that stands', () => {
    expect(remembered(first, 't1.c0', START).facts).toEqual([]);
    expect(remembered(first, 't9.c9', START).facts).toEqual([]);
    expect(remembered(nextTurn(run, [ARGS]), 't2.c0', START).facts).toEqual([]);
  });

  test('where as many stand as may', () => {
    const full = { ...first, standing: Array.from({ length: 20 }, (_, index) => ({ ...standing, id: `s-${index}` })) };
    const decision = remembering(full, 't1.c0', undefined);
    const made = decidedIn(full, decision).run;
    const [call] = made.calls;
    if (call?.status !== 'approved') throw new Error('it is approved');
    // Agreed to before the last place was taken, by one of two.
    const { consent } = call;
    const told = { ...decision, remember: { scope: 'tool' as const } };
    const late = { ...call, consent: { ...consent, made: { ...consent.made, decision: told } } };
    // Sound: an approval with one field more.
    expect(remembered({ ...made, calls: [late as typeof call] }, 't1.c0', START + 1_000).facts).toEqual([]);
  });
});
