/** Whoever approves several requests at once reads what the page of each would warn of. */
import { expect, test } from '@jest/globals';
import { inboxView } from '../../../../gateway/page/inbox.ts';
import type { Listed, Viewer } from '../../../../gateway/page/kit/port.ts';
import { reviewView } from '../../../../gateway/page/review.ts';
import { approvalRequest } from '../../../support/builders/approval-request.ts';
import { asker, known } from '../../../support/scenes/asking.ts';

const NOW = Date.parse(approvalRequest().openedAt);
const viewer: Viewer = { ...asker({ id: 'ann' }), csrf: 'token' };

function listed(over: Partial<Listed['request']>): Listed {
  return { request: { ...approvalRequest(), ...over }, run: known().row };
}

test.each<[Partial<Listed['request']>, string, string]>([
  [{ reopenedBecause: 'OUTCOME_UNKNOWN: it may have run.' }, 'OUTCOME_UNKNOWN: it may have run.', 'Asked again'],
  [{ duplicateOf: 't1.c9' }, 'was asked for in call t1.c9', 'Like call t1.c9'],
  [
    { edited: { by: 'ben', at: '2026-01-01T00:00:00.000Z', proposed: {} } },
    'the model proposed other arguments',
    'Changed',
  ],
])('of a request with %j', (over, words, mark) => {
  const one = listed(over);
  expect(reviewView([one], 0, viewer, NOW).text).toContain(words);
  const inbox = { requests: [one], mine: 1, asOf: new Date(NOW).toISOString() };
  expect(inboxView(inbox, viewer, false, NOW).text).toContain(mark);
});

test('nothing is warned of where there is nothing', () => {
  const { text } = reviewView([listed({})], 0, viewer, NOW);
  expect(text).not.toContain('banner');
});

test('an inbox that counts no further names the number as the least', () => {
  const inbox = { requests: [listed({})], mine: 200, mineIsMore: true, asOf: new Date(NOW).toISOString() } as const;
  const { text } = inboxView({ ...inbox, more: 199, moreIsMore: true }, viewer, false, NOW);
  expect(text.match(/<span class="count">200\+<\/span>/g)).toHaveLength(2);
  expect(text).toContain('At least 199 more are not shown');
  expect(inboxView({ ...inbox, mine: 1 }, viewer, true, NOW).text).toContain('<span class="count">1</span>');
});
