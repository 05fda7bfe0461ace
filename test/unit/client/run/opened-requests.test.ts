/** Events of opened requests cost one question for all entries that were read together. */
import { expect, test } from '@jest/globals';
import { openedRequests } from '../../../../client/run/opened-request.ts';
import type { LedgerFact } from '../../../../contracts/schemas/ledger.ts';
import type { ApprovalRequest } from '../../../../contracts/schemas/request.ts';
import { approvalRequest } from '../../../support/builders/approval-request.ts';
import { ledgerOf, openedFact, saidFact, verdictFact } from '../../../support/builders/ledger.ts';

const request = approvalRequest();
const { callId, generation, digest, approvers, deadline } = request;
const opening = openedFact({ callId, generation, digest, approvers, deadline });
const verdict = verdictFact({ callId, tool: 'read', definitionHash: 'a'.repeat(64) });
const proposed: LedgerFact = { kind: 'turn.proposed', turn: 2, calls: 1, usage: { inputTokens: 1, outputTokens: 1 } };

async function joinedBy(facts: readonly LedgerFact[], answers: readonly (readonly ApprovalRequest[])[]) {
  let asked = 0;
  const opened = openedRequests(async () => await Promise.resolve(answers[asked++] ?? []));
  const events = [];
  for (const entry of ledgerOf(facts)) events.push(await opened.joined(entry));
  return { opened, events, asked: () => asked };
}

test('the run is asked only if a request was opened, and once until more is read', async () => {
  const none = await joinedBy([saidFact(), verdict], []);
  expect(none.asked()).toBe(0);
  const { opened, events, asked } = await joinedBy([verdict, opening, opening], [[request], [request]]);
  expect(asked()).toBe(1);
  expect(events.map(({ request: about }) => about?.tool)).toEqual([undefined, request.tool, request.tool]);
  opened.forget();
  // Sound: the ledger was made of one fact.
  await opened.joined(ledgerOf([opening])[0] as never);
  expect(asked()).toBe(2);
});

test('of a turn that is over the verdict of that very turn counts', async () => {
  const { events } = await joinedBy([verdict, opening, proposed, opening], []);
  expect(events.map(({ request: about }) => about?.tool)).toEqual([undefined, 'read', undefined, undefined]);
});
