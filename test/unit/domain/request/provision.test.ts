/** A call whose server asks people before it goes on. */
import { provisionProof } from '../../../../domain/request/pause.ts';
import { describe, expect, test } from '@jest/globals';
import { LedgerFact } from '../../../../contracts/schemas/ledger.ts';
import { PauseAck } from '../../../../contracts/schemas/request.ts';
import { refuseRight } from '../../../../domain/request/decision.ts';
import { answersOf, askedForInput, forgotten, provide, refuseProvision } from '../../../../domain/request/provision.ts';
import { dispatched, ended, reopened } from '../../../../domain/request/transitions.ts';
import { parseProvision } from '../../../../domain/shapes/inputs.ts';
import { callOf, type Run } from '../../../../domain/state/run.ts';
import { hashOf } from '../../../../domain/text/canonical.ts';
import { markdown } from '../../../../domain/text/escape.ts';
import { currentDetails } from '../../../../domain/views/temporal-ui.ts';
import { approval, edit } from '../../../support/builders/decision.ts';
import { flyingRun, pausing } from '../../../support/builders/pause.ts';
import {
  ANN,
  askedOf,
  askedRun,
  NAME,
  PAGE,
  providedRun,
  provisionIn,
  serverAsks,
} from '../../../support/builders/provision.ts';
import { runIds, START } from '../../../support/builders/run.ts';
import { withCode } from '../../../support/refusal.ts';

const CALL = 't1.c0';
const STATE = { protected: 'p', iv: 'i', ciphertext: 'c', tag: 't' };

function flownAgain(run: Run): Run {
  const flying = dispatched(run, CALL)?.run;
  if (flying === undefined) throw new Error('the call is not sent');
  return flying;
}

describe('a server that asks', () => {
  test('makes a request about its questions; the call keeps the consent with which it left', () => {
    const run = askedRun({ state: STATE }, flyingRun('approved'));
    expect(askedOf(run)).toMatchObject({
      status: 'waiting-for-answer',
      request: { generation: 2, about: { kind: 'input', round: 1, requests: { who: NAME } } },
      consent: { request: { generation: 1 } },
      input: { leg: { round: 1, requests: { who: { hash: NAME.hash } }, used: [], state: STATE }, provided: [] },
    });
    // What people are shown has nothing of the state, sealed as it is.
    expect(JSON.stringify(askedOf(run).request)).not.toContain('ciphertext');
  });

  test('the ledger says that it asks, with a hash of what', () => {
    const { facts } = askedForInput(flyingRun(), CALL, serverAsks(), pausing(), runIds());
    expect(facts).toMatchObject([{ kind: 'request.opened', about: { kind: 'input' } }]);
    expect(facts.map((fact) => LedgerFact.parse(fact))).toEqual(facts);
    expect(JSON.stringify(facts)).not.toContain('For whom?');
  });

  test('whose call is not in flight changes nothing', () => {
    const run = ended(flyingRun(), CALL, { kind: 'cancelled', reason: 'x' }).run;
    expect(askedForInput(run, CALL, serverAsks(), pausing(), runIds())).toEqual({ run, facts: [] });
    expect(forgotten(run, CALL)).toEqual({ run, facts: [] });
  });

  test('is shown inert, and at most five of its questions', () => {
    const requests = Object.fromEntries(
      ['a', 'b', 'c', 'd', 'e', 'f'].map((key) => [key, { ...NAME, message: '<b>**now**</b>' }]),
    );
    const text = currentDetails('waiting', askedRun({ requests: { page: PAGE, ...requests } }));
    expect(text).toContain('the server asks');
    expect(text).toContain('open a page of ` id.example `');
    expect(text).toContain(markdown('<b>**now**</b>'));
    expect(text).not.toContain('<b>');
    // Our words first: a question called `host` is no word of ours, and no text of it stands before what is to be
    // opened.
    expect(text).toContain('    - open a page of ` id.example `; question ` page `: ');
    expect(text).toMatch(/^ {4}- fill in ` name `; question ` a `: /m);
    expect(text).toContain('and 2 more');
    expect(text).toContain('countersign answer');
    expect(currentDetails('waiting', askedRun())).not.toContain('more');
  });
});

describe('an answer', () => {
  test('INV-G1: lets the call leave again with the consent that it had, and with nothing else', () => {
    const approved = callOf(providedRun(askedRun({}, flyingRun('approved'))), CALL);
    expect(approved).toMatchObject({ status: 'approved', consent: { request: { generation: 1 } }, asked: 2 });
    expect(callOf(providedRun(askedRun()), CALL)).toMatchObject({ status: 'cleared', asked: 1 });
  });

  test('is told to the ledger as a hash: it may be personal data', () => {
    const run = askedRun();
    const provision = provisionIn(run, { comment: 'by phone', signature: 'a.b.c' } as object);
    const { ack, facts } = provide(run, askedOf(run), provision, START);
    expect(PauseAck.parse(ack)).toEqual({
      callId: CALL,
      decisionId: 'p-1',
      answer: 'provide',
      decidedBy: 'ann',
      decidedAt: new Date(START).toISOString(),
    });
    expect(facts).toMatchObject([
      { kind: 'input.provided', answer: 'provide', comment: 'by phone', responsesHash: hashOf({ who: ANN }) },
    ]);
    expect(facts.map((fact) => LedgerFact.parse(fact))).toEqual(facts);
    expect(JSON.stringify(facts)).not.toContain('Ann');
  });

  test.each(['decline', 'cancel'] as const)('%s is one to each question', (kind) => {
    const run = askedRun({ requests: { who: NAME, page: PAGE } });
    const state = callOf(providedRun(run, { kind, responses: undefined } as object), CALL);
    if (state?.status !== 'cleared') throw new Error('it leaves');
    expect(answersOf(state.input?.provided ?? [])).toEqual([
      { hash: NAME.hash, response: { action: kind } },
      { hash: PAGE.hash, response: { action: kind } },
    ]);
  });

  test('is forgotten with the call', () => {
    const flying = flownAgain(providedRun(askedRun()));
    expect(JSON.stringify(flying)).toContain('Ann');
    expect(JSON.stringify(ended(flying, CALL, { kind: 'cancelled', reason: 'x' }).run.calls)).not.toContain('Ann');
  });

  test('does not fit by the name of its field, and is never quoted', () => {
    const asked = askedOf(askedRun());
    const refusal = refuseProvision(
      askedRun(),
      asked,
      provisionIn(askedRun(), { responses: { who: { action: 'accept', content: { name: 'Z' } } } }),
    );
    expect(refusal).toMatchObject({ code: 'DECISION_INVALID', facts: { path: 'responses.who.content.name' } });
    expect(refusal?.message).not.toContain('Z');
    // The name is the server's, and shown to people as it is in errors.
    const odd = askedRun({ requests: { 'who\n': NAME } });
    const missing = provisionIn(odd, { responses: {} });
    expect(refuseProvision(odd, askedOf(odd), missing)?.message).toBe(
      'responses.who\\u{a} has no answer; nothing was changed.',
    );
    expect(refuseProvision(askedRun(), asked, provisionIn(askedRun(), { responses: [] } as object))?.message).toContain(
      'responses',
    );
    expect(refuseProvision(askedRun(), asked, provisionIn(askedRun(), { responses: 7 } as object))).toMatchObject({
      facts: { path: 'responses' },
    });
    expect(refuseProvision(askedRun(), asked, provisionIn(askedRun(), { kind: 'decline' }))).toBeUndefined();
    expect(refuseProvision(askedRun(), asked, provisionIn(askedRun()))).toBeUndefined();
  });

  test('has a bound together with those before: they are carried as long as the call is open', () => {
    const asked = askedOf(askedRun());
    const long = provisionIn(askedRun(), {
      responses: { who: { action: 'accept', content: { name: 'x'.repeat(9_000) } } },
    });
    const { request } = asked;
    const before = { provision: long, decidedAt: START, request, definitionHash: 'd' };
    const holding = (times: number): typeof asked => {
      const provided = Array.from({ length: times }, () => before);
      return { ...asked, input: { leg: { round: 1, requests: {}, used: [] }, provided } };
    };
    expect(refuseProvision(askedRun(), holding(6), long)).toBeUndefined();
    expect(refuseProvision(askedRun(), holding(7), long)).toMatchObject({
      code: 'LIMIT_REACHED',
      facts: { limit: 'input' },
    });
    // To decline is always possible.
    expect(refuseProvision(askedRun(), holding(7), { ...long, kind: 'decline' })).toBeUndefined();
  });
});

describe('a second round', () => {
  const one = flownAgain(providedRun(askedRun()));

  test('asks only what has no answer that may be given again', () => {
    const again = askedOf(askedRun({ round: 2, requests: { who: NAME, page: PAGE } }, one));
    expect(Object.keys(again.request.about.requests)).toEqual(['page']);
    expect(Object.keys(again.input?.leg.requests ?? {})).toEqual(['who', 'page']);
    // The server has had that answer, and asks all the same.
    const used = askedOf(askedRun({ round: 2, requests: { who: NAME, page: PAGE }, used: [NAME.hash] }, one));
    expect(Object.keys(used.request.about.requests)).toEqual(['who', 'page']);
  });

  test('keeps what was answered before, and the newest answer to each question', () => {
    const second = askedRun({ round: 2, requests: { page: PAGE } }, one);
    const both = providedRun(second, { decisionId: 'p-2', responses: { page: { action: 'accept' } } });
    const state = callOf(both, CALL);
    if (state?.status !== 'cleared') throw new Error('it leaves');
    const proofs = (state.input?.provided ?? []).map(provisionProof);
    // A worker reads the same answers from the proofs as the run from what it holds.
    expect(answersOf(proofs)).toEqual(answersOf(state.input?.provided ?? []));
    expect(proofs.map(({ provision, generation }) => [provision.decisionId, generation])).toEqual([
      ['p-1', 1],
      ['p-2', 2],
    ]);
    const third = askedRun({ round: 3, used: [NAME.hash] }, flownAgain(both));
    const anew = callOf(providedRun(third, { decisionId: 'p-3', responses: { who: { action: 'decline' } } }), CALL);
    if (anew?.status !== 'cleared') throw new Error('it leaves');
    expect(anew.input?.provided.map(({ provision }) => provision.decisionId)).toEqual(['p-2', 'p-3']);
  });

  test('what does not hold any more is forgotten: the call begins anew', () => {
    expect(callOf(one, CALL)).toHaveProperty('input');
    const anew = callOf(forgotten(one, CALL).run, CALL);
    expect(anew).toMatchObject({ status: 'cleared' });
    expect(anew).not.toHaveProperty('input');
  });
});

test('while the server waits: whoever is asked for consent again approves or rejects the call as it was begun', () => {
  const provided = callOf(providedRun(askedRun({}, flyingRun('approved'))), CALL);
  if (provided?.status !== 'approved') throw new Error('it leaves');
  const approvers = {
    allOf: [{ layer: 'organisation' as const, ids: ['ann'], groups: [], may: ['edit' as const, 'respond' as const] }],
  };
  const again = reopened(provided, { at: START, because: 'x', approvers, deadlineSeconds: 60 });
  expect(again.input).toEqual(provided.input);
  expect(refuseRight(again, edit({ x: 1 }))).toMatchObject(withCode('DECISION_NOT_PERMITTED', 'has begun'));
  expect(refuseRight(again, approval())).toBeUndefined();
});

test('a call of which nothing is known cannot be answered: that is a fault of ours', () => {
  const run = askedRun();
  const { input: _, ...unknown } = askedOf(run);
  expect(refuseProvision(run, unknown, provisionIn(run))).toBeUndefined();
  expect(() => provide(run, unknown, provisionIn(run), START)).toThrow('nothing is known');
});

describe('its shape', () => {
  const right = provisionIn(askedRun());

  test.each<[string, unknown]>([
    ['answers', right],
    ['a page', { ...right, responses: { page: { action: 'accept' } } }],
    ['a no', { ...right, kind: 'decline', responses: undefined }],
    ['none, with a comment', { ...right, kind: 'cancel', responses: undefined, comment: 'later' }],
    [
      'every kind of value',
      { ...right, responses: { w: { action: 'accept', content: { a: 'x', b: 1.5, c: true, d: ['x'] } } } },
    ],
  ])('%s: is taken as it is', (_, given) => {
    const value: unknown = JSON.parse(JSON.stringify(given));
    expect(parseProvision(value)).toEqual({ kind: 'ok', value });
  });

  test.each<[string, unknown]>([
    ['no object', 7],
    ['another kind', { ...right, kind: 'approve' }],
    ['no answers', { ...right, responses: undefined }],
    ['answers with a no', { ...right, kind: 'decline' }],
    ['answers that are a list', { ...right, responses: [] }],
    ['a text for an answer', { ...right, responses: { who: 'yes' } }],
    ['another action', { ...right, responses: { who: { action: 'approve' } } }],
    ['content with a no', { ...right, responses: { who: { action: 'decline', content: {} } } }],
    ['content that is no object', { ...right, responses: { who: { action: 'accept', content: 'x' } } }],
    ['a value that is an object', { ...right, responses: { who: { action: 'accept', content: { a: {} } } } }],
    ['a value that is a list of numbers', { ...right, responses: { who: { action: 'accept', content: { a: [1] } } } }],
    ['a long comment', { ...right, comment: 'x'.repeat(4_097) }],
    ['a field too many', { ...right, more: 1 }],
  ])('%s: is refused', (_, given) => {
    const value: unknown = JSON.parse(JSON.stringify(given));
    expect(parseProvision(value)).toMatchObject({ kind: 'bad' });
  });

  test('__proto__ is the name of nothing', () => {
    const value: unknown = JSON.parse(JSON.stringify(right).replace('"who"', '"__proto__"'));
    expect(parseProvision(value)).toMatchObject({ kind: 'bad', path: 'responses' });
  });
});
