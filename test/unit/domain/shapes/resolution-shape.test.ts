/** What the sandbox takes for a word on what became of a call (S2.3). */
import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { Resolution } from '../../../../contracts/schemas/answer.ts';
import { parseResolution } from '../../../../domain/shapes/messages.ts';
import { recorded, recordedFailure, retry } from '../../../support/builders/pause.ts';
import { describeShape } from '../../../support/shape-suite.ts';

const valid = fc.constantFrom(
  retry(),
  retry({ comment: 'seen' }),
  recorded(),
  recordedFailure({ approver: { id: 'ann', groups: ['ops'] } }),
);
const odd = fc.constantFrom<unknown>(undefined, null, '', 'retry', 'constructor', [], {}, 1, 'x'.repeat(16_385));
const field = fc.constantFrom(
  'kind',
  'result',
  'message',
  'comment',
  'digest',
  'callId',
  'decisionId',
  'runId',
  'note',
);

describeShape({
  name: 'a resolution',
  parse: parseResolution,
  schema: Resolution,
  valid,
  nearly: fc.tuple(valid, field, odd).map(([value, key, wrong]) => ({ ...value, [key]: wrong })),
});

test.each([
  ['a result that comes with a retry', { ...retry(), result: 'x' }, 'result'],
  ['no result', { ...recorded(), result: undefined }, 'result'],
  ['no message', { ...recordedFailure(), message: '' }, 'message'],
  ['an approval in its place', { ...retry(), kind: 'approve' }, 'kind'],
  ['nothing', undefined, ''],
])('%s is refused by name', (_what, value, path) => {
  expect(parseResolution(value)).toMatchObject({ kind: 'bad', path });
});
