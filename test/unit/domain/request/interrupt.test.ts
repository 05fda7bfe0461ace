/** A message that interrupts: what waits for people is withdrawn for it, and nothing else is touched (B-15, INV-G3). */
import { describe, expect, test } from '@jest/globals';
import { accept } from '../../../../domain/request/decision.ts';
import { askedAgain, dispatched, ended } from '../../../../domain/request/transitions.ts';
import { heard, interrupted, unqueued } from '../../../../domain/run/message-queue.ts';
import type { Run } from '../../../../domain/state/run.ts';
import { modelText } from '../../../../domain/views/model-text.ts';
import { approval, askingOf, say, shown } from '../../../support/builders/decision.ts';
import { outcomes } from '../../../support/builders/outcome.ts';
import { askingRun, runIds, START } from '../../../support/builders/run.ts';

const urgent = say({ from: 'bob', interrupt: true });
const statusesOf = (run: Run): string[] => run.calls.map(({ status }) => status);

/** Three calls: one asks, one is in flight, one has ended. */
function mixed(): Run {
  const run = askingRun(3);
  const approved = accept(run, askingOf(run, 't1.c1'), approval(shown(run, 't1.c1')), START).run;
  const away = dispatched(approved, 't1.c1')?.run ?? approved;
  return ended(away, 't1.c2', outcomes().expired).run;
}

describe('a message that interrupts', () => {
  test('withdraws what asks, and says for whom; what is in flight or has ended stays', () => {
    const { run, facts } = heard(mixed(), urgent);
    expect(statusesOf(run)).toEqual(['settled', 'in-flight', 'settled']);
    expect(run.calls[0]).toMatchObject({ outcome: { kind: 'cancelled' } });
    expect(run.calls[2]).toMatchObject({ outcome: { kind: 'expired' } });
    expect(facts).toMatchObject([
      { kind: 'said', messageId: 'm-1', from: 'bob', interrupt: true },
      { kind: 'request.closed', callId: 't1.c0', status: 'cancelled' },
      { kind: 'outcome', callId: 't1.c0', outcome: 'cancelled' },
    ]);
  });

  test('INV-X2: the model reads who interrupted, with which message, and no invitation to try again', () => {
    const [call] = heard(askingRun(), urgent).run.calls;
    const { text } = modelText(call?.status === 'settled' ? call.outcome : outcomes().succeeded);
    expect(text).toMatch(/^Not executed: the call was cancelled\. bob interrupted with message m-1, which follows/);
    expect(text).not.toMatch(/again|retry/);
  });

  test('closes at once what is asked while it waits, and nothing after it was read', () => {
    const before = heard(mixed(), urgent).run;
    const refusal = { kind: 'reopen', code: 'VERDICT_STRICTER', message: 'Ask.' } as const;
    const fallback = { approverId: 'ann', deadlineSeconds: 60 };
    const reopened = askedAgain(before, 't1.c1', refusal, runIds(), fallback, START).run;
    expect(statusesOf(reopened)).toEqual(['settled', 'waiting-for-consent', 'settled']);
    expect(statusesOf(interrupted(reopened).run)).toEqual(['settled', 'settled', 'settled']);
    expect(interrupted(unqueued(reopened))).toEqual({ run: unqueued(reopened), facts: [] });
  });

  test('sent again, it withdraws nothing more', () => {
    const { run } = heard(askingRun(), say());
    expect(heard(run, say())).toEqual({ run, facts: [] });
    expect(interrupted(run)).toEqual({ run, facts: [] });
  });
});

test('any other message lets requests wait', () => {
  expect(statusesOf(heard(mixed(), say()).run)).toEqual(['waiting-for-consent', 'in-flight', 'settled']);
});
