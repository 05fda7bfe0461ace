/** Messages that wait for the end of a turn: bounded, because continue-as-new carries them. */
import { expect, test } from '@jest/globals';
import { hasRoomFor, heard, MOST_QUEUED, unqueued } from '../../../domain/talk.ts';
import { say } from '../../support/builders/decision.ts';
import { askingRun } from '../../support/builders/run.ts';

const full = heard(askingRun(), say({ messageId: 'm-1', text: 'x'.repeat(MOST_QUEUED) })).run;

test('one message may be as long as all that may wait', () => {
  expect(hasRoomFor(askingRun(), say({ text: 'x'.repeat(MOST_QUEUED) }))).toBe(true);
});

test('there is no room beyond that, until the turn is over', () => {
  expect(hasRoomFor(full, say({ messageId: 'm-2', text: 'x' }))).toBe(false);
  expect(hasRoomFor(unqueued(full), say({ messageId: 'm-2', text: 'x' }))).toBe(true);
});

test('a message that was heard before takes no room', () => {
  expect(hasRoomFor(full, say({ messageId: 'm-1', text: 'x'.repeat(MOST_QUEUED) }))).toBe(true);
});

test('room is counted in bytes: that is what continue-as-new carries', () => {
  expect(hasRoomFor(askingRun(), say({ text: '印'.repeat(MOST_QUEUED / 3) }))).toBe(true);
  expect(hasRoomFor(askingRun(), say({ text: '印'.repeat(MOST_QUEUED / 3 + 1) }))).toBe(false);
});
