// A change of what waiting runs do passes only with the very values of its decision (INV-D1, docs/adr/0019).
import { expect, test } from '@jest/globals';
import { withWantedChanges } from '../../../../workers/replay/replay.ts';

const deed = (what: string, parts: object) => ({ key: what, what, parts: { input: ['as it was'], ...parts } });

test.each([
  ['a call with 60 s more', 'activity callTool', 'startToCloseMs', 90_000, 150_000],
  ['a segment stored as often as it takes', 'activity storeSegment', 'maximumAttempts', 20, 0],
  ['a call whose answer may be asked for', 'activity callTool', 'input', [{ a: 1 }], [{ a: 1, resumable: true }]],
])('passes: %s', (_, what, part, before, now) => {
  const planned = deed(what, { [part]: now });
  expect(withWantedChanges(deed(what, { [part]: before }), planned)).toEqual(planned.parts);
});

test.each([
  ['a call with more than that', 'activity callTool', 'startToCloseMs', 90_000, 150_001],
  ['a call with less', 'activity callTool', 'startToCloseMs', 150_000, 90_000],
  ['a call without a limit', 'activity callTool', 'startToCloseMs', 90_000, undefined],
  ['a second attempt of a call', 'activity callTool', 'maximumAttempts', 1, 2],
  ['another activity with 60 s more', 'activity modelStep', 'startToCloseMs', 90_000, 150_000],
  ['a segment stored once', 'activity storeSegment', 'maximumAttempts', 20, 1],
  ['another activity without end', 'activity prepareRun', 'maximumAttempts', 20, 0],
  ['a call whose answer may not be asked for', 'activity callTool', 'input', [{ a: 1, resumable: true }], [{ a: 1 }]],
  ['another activity with that', 'activity judge', 'input', [{ a: 1 }], [{ a: 1, resumable: true }]],
  ['other arguments', 'activity callTool', 'input', ['as it was'], ['otherwise']],
])('is a difference: %s', (_, what, part, before, now) => {
  const recorded = deed(what, { [part]: before });
  expect(withWantedChanges(recorded, deed(what, { [part]: now }))).toEqual(recorded.parts);
});

test('what else differs of such a call is a difference all the same', () => {
  const recorded = deed('activity callTool', { input: [{ a: 1 }, 'b'] });
  const planned = deed('activity callTool', { input: [{ a: 2, resumable: true }, 'b'] });
  expect(withWantedChanges(recorded, planned)['input']).toEqual([{ a: 1, resumable: true }, 'b']);
});
