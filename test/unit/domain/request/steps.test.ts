/** Reminders and escalations: told once, in time, and shown (F-3, F-4, F-7, INV-D3). */
import { describe, expect, test } from '@jest/globals';
import type { ApproverRule } from '../../../../contracts/schemas/policy.ts';
import { nextStep, shownOf, tell, tellDue } from '../../../../domain/request/deadline.ts';
import { accept } from '../../../../domain/request/decision.ts';
import { askedAgain, dispatched, ended } from '../../../../domain/request/transitions.ts';
import type { Run } from '../../../../domain/state/run.ts';
import { currentDetails, pendingAttributes, pendingMemo } from '../../../../domain/views/temporal-ui.ts';
import { identicalCalls } from '../../../support/builders/call.ts';
import { approval, askingOf, shown } from '../../../support/builders/decision.ts';
import { askVerdict } from '../../../support/builders/judgement.ts';
import { outcomes } from '../../../support/builders/outcome.ts';
import { judgedRun, runIds, START } from '../../../support/builders/run.ts';

const clause = (group: string, afterSeconds: number) => ({
  layer: 'organisation' as const,
  ids: ['ann'],
  groups: [group],
  escalate: { afterSeconds, replace: { ids: [], groups: [`${group}-heads`] } },
});
/** Reminded after 10 s; one clause escalates after 20, the other after 30; the deadline is at 60. */
const rule: ApproverRule = { allOf: [clause('ops', 20), clause('law', 30)], together: true, remindAfterSeconds: 10 };
const asked = (approvers = rule, deadlineSeconds = 60): Run =>
  judgedRun(identicalCalls(1), () => ({ verdict: askVerdict({ approvers, deadlineSeconds }) }));
const at = (seconds: number): number => START + seconds * 1_000;
const kindsOf = (facts: readonly { readonly kind: string }[]): string[] => facts.map(({ kind }) => kind);
const requestOf = (run: Run) => askingOf(run, 't1.c0').request;

describe('the next step', () => {
  test('is the nearest that was not told, and none after the last', () => {
    let run = asked();
    const seen: (string | undefined)[] = [];
    for (let times = 0; times < 4; times += 1) {
      const step = nextStep(requestOf(run));
      seen.push(step === undefined ? undefined : `${step.kind} ${(step.at - START) / 1_000}`);
      run = tell(run, 't1.c0', step?.at ?? START).run;
    }
    expect(seen).toEqual(['reminder 10', 'escalation 20', 'escalation 30', undefined]);
  });

  test('is none where nothing was planned, or only for the deadline and later', () => {
    expect(nextStep(requestOf(asked({ allOf: [{ layer: 'run', ids: ['ann'], groups: [] }] })))).toBeUndefined();
    expect(nextStep(requestOf(asked(rule, 10)))).toBeUndefined();
    expect(nextStep(requestOf(asked(rule, 11)))).toMatchObject({ at: at(10) });
  });
});

describe('telling', () => {
  test('says each thing once, at its time and not a millisecond before', () => {
    expect(tell(asked(), 't1.c0', at(10) - 1).facts).toEqual([]);
    const first = tell(asked(), 't1.c0', at(10));
    expect(first.facts).toEqual([
      { kind: 'request.reminded', callId: 't1.c0', generation: 1, deadline: '2026-01-01T00:01:00.000Z' },
    ]);
    expect(tell(first.run, 't1.c0', at(19)).facts).toEqual([]);
    // Carried to the next execution, as JSON.
    const carried = JSON.parse(JSON.stringify(first.run)) as Run;
    expect(kindsOf(tell(carried, 't1.c0', at(40)).facts)).toEqual(['request.escalated', 'request.escalated']);
  });

  test('names whom it waits on from then, and what is still to come', () => {
    const [, escalated] = tell(asked(), 't1.c0', at(20)).facts;
    expect(escalated).toMatchObject({
      kind: 'request.escalated',
      approvers: {
        allOf: [
          { ids: [], groups: ['ops-heads'] },
          { ids: ['ann'], groups: ['law'], escalate: { afterSeconds: 30 } },
        ],
      },
    });
  });

  test('says nothing at the deadline and after it', () => {
    expect(kindsOf(tellDue(askingOf(asked(rule, 20), 't1.c0'), at(99)).facts)).toEqual(['request.reminded']);
  });

  test('two clauses that escalate at the same time do so once', () => {
    const same = { allOf: [clause('ops', 20), clause('law', 20)], together: true as const };
    expect(kindsOf(tell(asked(same), 't1.c0', at(20)).facts)).toEqual(['request.escalated']);
  });

  test('is about calls that wait', () => {
    const gone = ended(asked(), 't1.c0', outcomes().cancelled).run;
    expect(tell(gone, 't1.c0', at(20))).toEqual({ run: gone, facts: [] });
  });

  test('begins anew where the call is asked again', () => {
    const run = tell(asked(), 't1.c0', at(10)).run;
    const one = { ...approval(shown(run, 't1.c0')), approver: { id: 'ann', groups: [] } };
    const sent = dispatched(accept(run, askingOf(run, 't1.c0'), one, at(11)).run, 't1.c0')?.run ?? run;
    const reopen = { kind: 'reopen', code: 'VERDICT_STRICTER', message: 'm' } as const;
    const again = askedAgain(sent, 't1.c0', reopen, runIds(), { approverId: 'a', deadlineSeconds: 60 }, at(100)).run;
    expect(nextStep(requestOf(again))).toEqual({ kind: 'reminder', at: at(110) });
  });
});

/** As a browser shows it. */
function plainDetails(run: Run): string {
  return currentDetails('waiting', run).replaceAll('&#58;', ':').replaceAll('&#45;', '-');
}

describe('what people see', () => {
  test('before, nothing of it; the rule says what will come', () => {
    expect(shownOf(requestOf(asked()))).toEqual({ approvers: rule });
    expect(plainDetails(asked())).toMatch(/who: .*after 20 s only group:ops-heads/);
    expect(pendingMemo(asked(), runIds()).requests[0]).not.toHaveProperty('reminded');
    expect(pendingAttributes(asked()).approverGroups).toEqual(['ops', 'law']);
  });

  test('afterwards, that it was reminded, since when others are asked, and who by now', () => {
    const { run } = tell(asked(), 't1.c0', at(20));
    expect(shownOf(requestOf(run))).toMatchObject({ remindedAt: at(10), escalatedAt: at(20) });
    const details = plainDetails(run);
    expect(details).toContain('reminded at 2026-01-01T00:00:10.000Z');
    expect(details).toContain('others are asked since 2026-01-01T00:00:20.000Z');
    expect(details).toMatch(/who: group:ops-heads and ann or group:law, after 30 s only group:law-heads/);
    expect(pendingMemo(run, runIds()).requests).toMatchObject([{ reminded: true }]);
    expect(pendingAttributes(run).approverGroups).toEqual(['ops-heads', 'law']);
    expect(pendingAttributes(tell(run, 't1.c0', at(30)).run).approverGroups).toEqual(['ops-heads', 'law-heads']);
  });
});
