/** A drill passes only if every run is over, and its servers have executed its calls once each. */
import { expect, test } from '@jest/globals';
import { judge, type Seen, tableOf } from '../../drill/table.ts';

function seen(over: Partial<Seen> = {}): Seen {
  const counts = { executed: 1, expected: 1, lost: undefined };
  return { id: 'approval-1', kind: 'approval', answeredOn: 'old', isOver: true, ...counts, ...over };
}

test('runs whose calls were executed once each are as they must be', () => {
  const { rows, faults } = judge([seen(), seen({ id: 'approval-2', answeredOn: 'new' })]);
  expect(faults).toEqual([]);
  const none = { lost: 0, doubled: 0, stuck: 0 };
  expect(rows).toEqual([{ kind: 'approval', runs: 2, old: 1, new: 1, executed: 2, expected: 2, ...none }]);
});

test.each<[keyof ReturnType<typeof judge>['total'], Partial<Seen>]>([
  ['doubled', { executed: 2 }],
  ['lost', { executed: 0 }],
  ['lost', { lost: 'the message' }],
  ['stuck', { isOver: false, answeredOn: undefined, executed: 0 }],
])('a run that is %s is named', (column, over) => {
  const { total, faults } = judge([seen({ id: 'approval-2' }), seen(over)]);
  expect(total).toMatchObject({ lost: 0, doubled: 0, stuck: 0, [column]: 1 });
  expect(faults).toEqual([expect.stringMatching(new RegExp(`^approval-1 is ${column}: `))]);
});

test('a call too many of one run and one too few of another do not make up for each other', () => {
  const { total } = judge([seen({ executed: 0 }), seen({ id: 'approval-2', executed: 2 })]);
  expect(total).toMatchObject({ executed: 2, expected: 2, lost: 1, doubled: 1 });
});

test('the table has a line for each kind, and one for all', () => {
  const lines = tableOf(judge([seen(), seen({ id: 'message-1', kind: 'message' })])).split('\n');
  expect(lines.map((line) => line.split(/ {2,}/)[0])).toEqual(['waits for', 'approval', 'message', 'all', '']);
});
