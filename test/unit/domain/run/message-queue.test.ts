/** Messages that wait for the end of a turn: bounded, because continue-as-new carries them; and each what its id says. */
import { initiatorRule } from '../../../../domain/policy/approvers.ts';
import { describe, expect, test } from '@jest/globals';
import { accept } from '../../../../domain/request/decision.ts';
import { askedAgain, dispatched, ended, returned } from '../../../../domain/request/transitions.ts';
import {
  admitSaid,
  heard,
  interrupted,
  MOST_MESSAGES,
  MOST_QUEUED,
  otherThanHeard,
  unqueued,
} from '../../../../domain/run/message-queue.ts';
import { MOST_ANSWERED, type Run } from '../../../../domain/state/run.ts';
import { modelText } from '../../../../domain/views/model-text.ts';
import { approval, askingOf, say, shown } from '../../../support/builders/decision.ts';
import { outcomes } from '../../../support/builders/outcome.ts';
import { askingRun, runIds, START } from '../../../support/builders/run.ts';

const full = heard(askingRun(), say({ messageId: 'm-1', text: 'x'.repeat(MOST_QUEUED) })).run;
const FULL = { kind: 'refuse', code: 'LIMIT_REACHED', facts: { limit: 'queue' } };

test('there is no room beyond that, until the turn is over', () => {
  expect(admitSaid(full, say({ messageId: 'm-2', text: 'x' }))).toMatchObject(FULL);
  expect(admitSaid(unqueued(full), say({ messageId: 'm-2', text: 'x' }))).toBeUndefined();
});

test('a message that was heard before takes no room', () => {
  expect(admitSaid(full, say({ messageId: 'm-1', text: 'x'.repeat(MOST_QUEUED) }))).toBeUndefined();
});

test.each([
  ['letters of three bytes', '印', 3],
  ['control characters, of six bytes in JSON', '\u0001', 6],
])('room is counted in the bytes that continue-as-new carries: %s', (_what, letter, bytes) => {
  const waiting = heard(askingRun(), say({ messageId: 'm-1', text: '' })).run;
  const most = MOST_QUEUED / bytes;
  expect(admitSaid(waiting, say({ messageId: 'm-2', text: letter.repeat(Math.floor(most)) }))).toBeUndefined();
  expect(admitSaid(waiting, say({ messageId: 'm-2', text: letter.repeat(Math.floor(most) + 1) }))).toMatchObject(FULL);
});

test('room is counted in messages, too', () => {
  const waiting = Array.from({ length: MOST_MESSAGES }, (_, n) => say({ messageId: `m${n}`, text: 'x' }));
  const run = { ...askingRun(), queue: waiting.slice(1) };
  expect(admitSaid(run, say({ messageId: 'one', text: 'x' }))).toBeUndefined();
  expect(admitSaid({ ...run, queue: waiting }, say({ messageId: 'one', text: 'x' }))).toMatchObject(FULL);
});

test('a message that waits alone is taken in any case: it could never be sent again in less', () => {
  expect(admitSaid(askingRun(), say({ text: '\u0001'.repeat(131_072) }))).toBeUndefined();
});

describe('a message id stands for one message (INV-D3)', () => {
  const OTHER = { kind: 'refuse', code: 'MESSAGE_INVALID', facts: { path: 'messageId' } };
  const both = (run: Run, message = say()) => [admitSaid(run, message), otherThanHeard(run, message)];
  const known = heard(askingRun(), say()).run;

  test.each<[string, Partial<ReturnType<typeof say>>]>([
    ['text', { text: 'Something else.' }],
    ['sender', { from: 'bob' }],
    ['urgency', { interrupt: true }],
  ])('another %s under it is refused, also once the first was read', (_what, over) => {
    expect(both(known, say(over))).toMatchObject([OTHER, OTHER]);
    expect(both(unqueued(known), say(over))).toMatchObject([OTHER, OTHER]);
  });

  test('the same again is taken, and changes nothing', () => {
    expect(both(known)).toEqual([undefined, undefined]);
    expect(heard(known, say())).toEqual({ run: known, facts: [] });
    expect(both(known, say({ messageId: 'm-2' }))).toEqual([undefined, undefined]);
  });

  test('of the newest, and by a short hash: so much is carried', () => {
    let run = askingRun();
    for (let n = 0; n <= MOST_ANSWERED; n += 1) run = unqueued(heard(run, say({ messageId: `m${n}` })).run);
    expect(run.heardHashes).toHaveLength(MOST_ANSWERED);
    expect(run.heardHashes[0]).toHaveLength(32);
    expect(both(run, say({ messageId: 'm1', text: 'x' }))).toMatchObject([OTHER, OTHER]);
    expect(both(run, say({ messageId: 'm0', text: 'x' }))).toEqual([undefined, undefined]);
  });
});

/** A message that interrupts: what waits for people is withdrawn for it, and nothing else is touched (B-15, INV-G3). */
describe('interruptions', () => {
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
      const fallback = { approvers: initiatorRule('ann'), deadlineSeconds: 60 };
      const reopened = askedAgain(before, 't1.c1', refusal, runIds(), fallback, START).run;
      expect(statusesOf(reopened)).toEqual(['settled', 'waiting-for-consent', 'settled']);
      expect(statusesOf(interrupted(reopened).run)).toEqual(['settled', 'settled', 'settled']);
      expect(interrupted(unqueued(reopened))).toEqual({ run: unqueued(reopened), facts: [] });
    });
  });

  describe('a call that waits to be sent again', () => {
    /** One that was not sent, and one that may have run. */
    function waiting(): Run {
      const sent = ['t1.c0', 't1.c1'].reduce((run, callId) => {
        const approved = accept(run, askingOf(run, callId), approval(shown(run, callId)), START).run;
        return dispatched(approved, callId)?.run ?? approved;
      }, askingRun(2));
      return returned(returned(sent, 't1.c0').run, 't1.c1', outcomes().unknown, true).run;
    }
    const retried = new Set(['t1.c0', 't1.c1']);

    test('is withdrawn with what is true of it: its server may want a day, and the message is to be read now', () => {
      const { run } = interrupted(heard(waiting(), urgent).run, retried);
      expect(run.calls).toMatchObject([{ outcome: { kind: 'cancelled' } }, { outcome: { kind: 'unknown' } }]);
    });

    test('stays in a run of an older build, and where no message interrupts', () => {
      expect(statusesOf(heard(waiting(), urgent).run)).toEqual(['approved', 'approved']);
      expect(statusesOf(interrupted(waiting(), retried).run)).toEqual(['approved', 'approved']);
    });
  });

  test('any other message lets requests wait', () => {
    expect(statusesOf(heard(mixed(), say()).run)).toEqual(['waiting-for-consent', 'in-flight', 'settled']);
  });
});
