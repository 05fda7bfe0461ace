// A change of what waiting runs do passes only with the very values of its decision (INV-D1).
import { expect, test } from '@jest/globals';
import { type WantedChange, withWantedChanges } from '../../../../workers/replay/replay.ts';

const deed = (what: string, parts: object) => ({ key: what, what, parts: { input: ['as it was'], ...parts } });

/** A call may take a minute more than it did. */
const MORE_TIME: WantedChange = {
  what: 'activity callTool',
  part: 'startToCloseMs',
  adopt: (before, now) => (typeof now === 'number' && before === now - 60_000 ? now : before),
  decision: 'none: a test',
};

test('passes with its values', () => {
  const planned = deed('activity callTool', { startToCloseMs: 150_000 });
  const recorded = deed('activity callTool', { startToCloseMs: 90_000 });
  expect(withWantedChanges(recorded, planned, [MORE_TIME])).toEqual(planned.parts);
  expect(withWantedChanges(recorded, planned)).toEqual(recorded.parts);
});

test.each([
  ['more than that', 'activity callTool', 'startToCloseMs', 90_000, 150_001],
  ['less', 'activity callTool', 'startToCloseMs', 150_000, 90_000],
  ['no limit', 'activity callTool', 'startToCloseMs', 90_000, undefined],
  ['a second attempt', 'activity callTool', 'maximumAttempts', 1, 2],
  ['the same of another activity', 'activity modelStep', 'startToCloseMs', 90_000, 150_000],
  ['other arguments', 'activity callTool', 'input', ['as it was'], ['otherwise']],
])('is a difference: %s', (_, what, part, before, now) => {
  const recorded = deed(what, { [part]: before });
  expect(withWantedChanges(recorded, deed(what, { [part]: now }), [MORE_TIME])).toEqual(recorded.parts);
});
