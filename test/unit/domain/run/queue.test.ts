/** Messages that wait for the end of a turn: bounded, because continue-as-new carries them; and each what its id says. */
import { describe, expect, test } from '@jest/globals';
import {
  admitSaid,
  comparing,
  heard,
  MOST_QUEUED,
  otherThanHeard,
  unqueued,
} from '../../../../domain/run/message-queue.ts';
import { MOST_ANSWERED, type Run } from '../../../../domain/state/run.ts';
import { say } from '../../../support/builders/decision.ts';
import { askingRun } from '../../../support/builders/run.ts';

const full = heard(askingRun(), say({ messageId: 'm-1', text: 'x'.repeat(MOST_QUEUED) })).run;
const FULL = { kind: 'refuse', code: 'LIMIT_REACHED', facts: { limit: 'queue' } };

test('one message may be as long as all that may wait', () => {
  expect(admitSaid(askingRun(), say({ text: 'x'.repeat(MOST_QUEUED) }))).toBeUndefined();
});

test('there is no room beyond that, until the turn is over', () => {
  expect(admitSaid(full, say({ messageId: 'm-2', text: 'x' }))).toMatchObject(FULL);
  expect(admitSaid(unqueued(full), say({ messageId: 'm-2', text: 'x' }))).toBeUndefined();
});

test('a message that was heard before takes no room', () => {
  expect(admitSaid(full, say({ messageId: 'm-1', text: 'x'.repeat(MOST_QUEUED) }))).toBeUndefined();
});

test('room is counted in bytes: that is what continue-as-new carries', () => {
  expect(admitSaid(askingRun(), say({ text: '印'.repeat(MOST_QUEUED / 3) }))).toBeUndefined();
  expect(admitSaid(askingRun(), say({ text: '印'.repeat(MOST_QUEUED / 3 + 1) }))).toMatchObject(FULL);
});

describe('a message id stands for one message (INV-D3)', () => {
  const OTHER = { kind: 'refuse', code: 'MESSAGE_INVALID', facts: { path: 'messageId' } };
  const both = (run: Run, message = say()) => [admitSaid(run, message), otherThanHeard(run, message)];
  const known = heard(comparing(askingRun()), say()).run;

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

  test('also of what was said before the run was prepared', () => {
    const early = comparing(heard(askingRun(), say()).run);
    expect(both(early)).toEqual([undefined, undefined]);
    expect(both(early, say({ text: 'Something else.' }))).toMatchObject([OTHER, OTHER]);
  });

  test('of the newest, and by a short hash: so much is carried', () => {
    let run = comparing(askingRun());
    for (let n = 0; n <= MOST_ANSWERED; n += 1) run = unqueued(heard(run, say({ messageId: `m${n}` })).run);
    expect(run.heardHashes).toHaveLength(MOST_ANSWERED);
    expect(run.heardHashes?.[0]).toHaveLength(32);
    expect(both(run, say({ messageId: 'm1', text: 'x' }))).toMatchObject([OTHER, OTHER]);
    expect(both(run, say({ messageId: 'm0', text: 'x' }))).toEqual([undefined, undefined]);
  });

  test('a run that was prepared before takes another text for the first, as it did', () => {
    const { run } = heard(askingRun(), say());
    expect(both(run, say({ text: 'Something else.' }))).toEqual([undefined, undefined]);
    expect(run).not.toHaveProperty('heardHashes');
  });
});
