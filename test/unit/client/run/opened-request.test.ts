/** The event of an opened request says what it is about, and no more than lists may (INV-S1). */
import fc from 'fast-check';
import { expect, test } from '@jest/globals';
import { OpenedRequest, type RunEvent } from '../../../../contracts/schemas/http/opened-request.ts';
import type { JsonObject } from '../../../../contracts/schemas/json.ts';
import type { LedgerFact } from '../../../../contracts/schemas/ledger.ts';
import type { ApprovalRequest } from '../../../../contracts/schemas/request.ts';
import { eventFor, type OpenedFact, openedRequest, openedRequests } from '../../../../client/run/opened-request.ts';
import { hashOf } from '../../../../domain/text/canonical.ts';
import { approvalRequest } from '../../../support/builders/approval-request.ts';
import { ledgerOf, openedFact, saidFact, verdictFact } from '../../../support/builders/ledger.ts';
import { forAll } from '../../../support/for-all.ts';

function opened(args?: JsonObject, more: Partial<ApprovalRequest> = {}): ApprovalRequest {
  return { ...approvalRequest(args), ...more };
}

function factOf({ callId, generation, digest, approvers, deadline }: ApprovalRequest): OpenedFact {
  return { kind: 'request.opened', callId, generation, digest, approvers, deadline };
}

const verdict = verdictFact({ definitionHash: 'b'.repeat(64) });

test('it has server, tool, description and hints, and the arguments by hash and without what policy redacts', () => {
  const args = { path: 'notes.txt', pin: 'CANARY-PIN', deep: { pin: 'CANARY-DEEP' } };
  const annotations = { readOnlyHint: false };
  const request = opened(args, { redact: ['pin', '/deep/pin'], description: 'Writes a file', annotations });
  expect(openedRequest(factOf(request), [request])).toEqual({
    server: request.server,
    tool: request.tool,
    definitionHash: request.definitionHash,
    argumentsHash: hashOf(args),
    arguments: '{"deep":{"pin":"[redacted]"},"path":"notes.txt","pin":"[redacted]"}',
    description: 'Writes a file',
    annotations,
  });
});

test('no redacted value stands in it, whatever the arguments are, and it is bounded', () => {
  const names = fc.string({ minLength: 1, maxLength: 20 }).filter((name) => !name.startsWith('/') && name !== '*');
  const others = fc.dictionary(
    names,
    fc.jsonValue().map((value) => JSON.parse(JSON.stringify(value)) as never),
  );
  forAll(names, others, (secret, rest) => {
    const request = opened({ ...rest, [secret]: { value: 'CANARY-VALUE' } }, { redact: [secret] });
    const said = openedRequest(factOf(request), [request]);
    expect(OpenedRequest.safeParse(said).success).toBe(true);
    expect(JSON.stringify(said)).not.toContain('CANARY-VALUE');
    expect([...(said?.arguments ?? '')].length).toBeLessThanOrEqual(600);
  });
});

test('once the turn is over, the verdict tells which tool it was, and of a request that was opened again nothing', () => {
  const request = opened();
  const { server, tool, definitionHash, argumentsHash } = verdict;
  expect(openedRequest(factOf(request), [], verdict)).toEqual({ server, tool, definitionHash, argumentsHash });
  expect(openedRequest({ ...factOf(request), generation: 2 }, [request], verdict)).toBeUndefined();
  expect(openedRequest(factOf(request), [], undefined)).toBeUndefined();
  const { server: _, ...unknownTool } = verdict;
  expect(openedRequest(factOf(request), [], unknownTool)).toBeUndefined();
});

test('who may not see the request gets the entry alone', () => {
  const request = opened(undefined, { approvers: { allOf: [{ layer: 'organisation', ids: ['bob'], groups: [] }] } });
  const [entry] = ledgerOf([factOf(request)]);
  const about = openedRequest(factOf(request), [request]);
  // Sound: the ledger was made of one fact, and the request is there.
  const event = { ...entry, request: about } as RunEvent;
  const run = { tenant: 'acme', initiator: 'zoe' };
  const person = (id: string, tenant = 'acme') => ({ id, groups: [], tenant, seesAll: false });
  expect(eventFor(event, run, person('bob'))).toEqual(event);
  expect(eventFor(event, run, person('zoe'))).toEqual(event);
  expect(eventFor(event, run, person('eve'))).toEqual(entry);
  expect(eventFor(event, run, person('bob', 'other'))).toEqual(entry);
  // Sound: as above.
  expect(eventFor(entry as RunEvent, run, person('bob'))).toEqual(entry);
});

// Events of opened requests cost one question for all entries that were read together.

const request = approvalRequest();
const { callId, generation, digest, approvers, deadline } = request;
const opening = openedFact({ callId, generation, digest, approvers, deadline });
const read = verdictFact({ callId, tool: 'read', definitionHash: 'a'.repeat(64) });
const proposed: LedgerFact = { kind: 'turn.proposed', turn: 2, calls: 1, usage: { inputTokens: 1, outputTokens: 1 } };

async function joinedBy(facts: readonly LedgerFact[], answers: readonly (readonly ApprovalRequest[])[]) {
  let asked = 0;
  const joining = openedRequests(async () => await Promise.resolve(answers[asked++] ?? []));
  const events = [];
  for (const entry of ledgerOf(facts)) events.push(await joining.joined(entry));
  return { joining, events, asked: () => asked };
}

test('the run is asked only if a request was opened, and once until more is read', async () => {
  const none = await joinedBy([saidFact(), read], []);
  expect(none.asked()).toBe(0);
  const { joining, events, asked } = await joinedBy([read, opening, opening], [[request], [request]]);
  expect(asked()).toBe(1);
  expect(events.map(({ request: about }) => about?.tool)).toEqual([undefined, request.tool, request.tool]);
  joining.forget();
  // Sound: the ledger was made of one fact.
  await joining.joined(ledgerOf([opening])[0] as never);
  expect(asked()).toBe(2);
});

test('of a turn that is over the verdict of that very turn counts', async () => {
  const { events } = await joinedBy([read, opening, proposed, opening], []);
  expect(events.map(({ request: about }) => about?.tool)).toEqual([undefined, 'read', undefined, undefined]);
});
