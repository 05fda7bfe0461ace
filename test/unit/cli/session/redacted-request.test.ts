/** What a list shows of a request whose arguments are kept back (G-6), before and after somebody changed them. */
import { expect, test } from '@jest/globals';
import { plain } from '../../../../cli/session/terminal.ts';
import { requestText, shownTo } from '../../../../cli/views/request.ts';
import type { ApprovalRequest } from '../../../../contracts/schemas/request.ts';
import { approvalRequest } from '../../../support/builders/approval-request.ts';

const request: ApprovalRequest = {
  ...approvalRequest({ iban: 'DE-canary-1', amount: 8 }),
  redact: ['iban'],
  edited: { by: 'bob', at: '2026-01-01T00:00:00.000Z', proposed: { iban: 'DE-canary-2', amount: 7 } },
};

test('neither the arguments nor those that were proposed show what is kept back', () => {
  const text = requestText(request, { full: true, now: 0 }, plain);
  expect(text).not.toContain('canary');
  expect(text).toContain('iban [--reveal shows them]');
  expect(JSON.stringify(shownTo(request, false))).not.toContain('canary');
  expect(shownTo(request, false)).toMatchObject({ arguments: { amount: 8 }, edited: { proposed: { amount: 7 } } });
});

test('whoever asks for them sees them, and a request without such a rule is as it was', () => {
  expect(requestText(request, { full: true, reveal: true, now: 0 }, plain)).toMatch(/canary-1[\s\S]*canary-2/);
  const { redact: _, ...open } = request;
  expect(shownTo(open, false)).toBe(open);
});
