/** What a person says where a server wants another authorization: consent, a grant, or neither (INV-S2, INV-G2). */
import { describe, expect, test } from '@jest/globals';
import type { AuthorizationPause, SignedAuthorization } from '../../../../contracts/schemas/request.ts';
import { elicitationClosed } from '../../../../domain/legacy-2025/open-question.ts';
import { initiatorRule } from '../../../../domain/policy/approvers.ts';
import {
  authorizationPause,
  authorizationsOf,
  authorize,
  givenGrant,
  MOST_AUTHORIZATIONS,
  refuseAuthorization,
} from '../../../../domain/request/authorization.ts';
import { pausedFor } from '../../../../domain/request/pause.ts';
import { dispatched } from '../../../../domain/request/transitions.ts';
import { fromCarry, toCarry } from '../../../../domain/run/carry.ts';
import { parseAuthorization } from '../../../../domain/shapes/inputs.ts';
import { callOf, type InFlight, type Run } from '../../../../domain/state/run.ts';
import { currentDetails } from '../../../../domain/views/temporal-ui.ts';
import { heldRun } from '../../../support/builders/held-input.ts';
import { flyingRun, pausedOf, pausedRun, pausing } from '../../../support/builders/pause.ts';
import { runIds, START } from '../../../support/builders/run.ts';
import { withCode } from '../../../support/refusal.ts';
import { service, signedWith } from '../../../support/signing/people.ts';

const CALL = 't1.c0';
const need = { reason: 'TOOL_INSUFFICIENT_SCOPE', message: 'lacks a scope', wants: 'consent', scopes: ['a'] } as const;

function flightOf(run: Run, callId = CALL): InFlight {
  // Sound: the calls of these tests are under way.
  return callOf(run, callId) as InFlight;
}

function wanting(run = flyingRun(), over: Partial<AuthorizationPause> = {}): Run {
  const about = authorizationPause(flightOf(run), need);
  if (about === undefined) throw new Error('not asked');
  const { unsure: _, ...plain } = pausing();
  return pausedFor(run, CALL, { ...about, ...over }, plain, runIds()).run;
}

const base = {
  decisionId: 'a-1',
  callId: CALL,
  digest: 'a'.repeat(64),
  runId: 'run-1',
  approver: { id: 'ann', groups: [] },
};
const consent = (over: object = {}): SignedAuthorization => ({ kind: 'consent', ...base, ...over });
const longJwe = {
  protected: 'p',
  encrypted_key: 'k',
  iv: 'i',
  ciphertext: 'x'.repeat(16_384),
  tag: 't',
  aad: 'a',
};
const grant = (over: object = {}): SignedAuthorization => ({
  kind: 'grant',
  grant: { server: 'files', ref: 'fresh' },
  ...base,
  ...over,
});
const decline = (): SignedAuthorization => ({ kind: 'decline', reason: 'too much', ...base });
const said = (run: Run, answer: SignedAuthorization) => authorize(run, pausedOf(run), answer, START);
const resent = (run: Run): Run => dispatched(run, CALL)?.run ?? run;

describe('what is asked', () => {
  test('names server, reason, scopes and how often, and is bounded', () => {
    const about = authorizationPause(flightOf(flyingRun()), { ...need, message: 'x'.repeat(5_000) });
    expect(about).toMatchObject({ kind: 'authorization', wants: 'consent', scopes: ['a'], round: 1 });
    expect(about?.message).toHaveLength(1_000);
    const { scopes: _, ...unnamed } = need;
    expect(authorizationPause(flightOf(flyingRun()), unnamed)).not.toHaveProperty('scopes');
  });

  test('is asked so often and not more', () => {
    let run = flyingRun();
    for (let round = 1; round <= MOST_AUTHORIZATIONS; round += 1) {
      run = resent(said(wanting(run), consent({ decisionId: `a-${round}` })).run);
      expect(flightOf(run).authorized).toHaveLength(round);
    }
    expect(authorizationPause(flightOf(run), need)).toBeUndefined();
  });

  test('a grant is asked of whose grant it replaces', () => {
    expect(initiatorRule('ann')).toEqual({ allOf: [{ layer: 'default', ids: ['ann'], groups: [] }] });
  });
});

describe('consent', () => {
  test.each(['allowed', 'approved'] as const)(
    'lets a call that was %s leave again, with the consent that it had',
    (how) => {
      const { run, facts, ack } = said(wanting(flyingRun(how)), consent({ comment: 'once' }));
      expect(ack).toMatchObject({ callId: CALL, answer: 'consent', decidedBy: 'ann' });
      expect(facts).toMatchObject([{ kind: 'authorization.given', answer: 'consent', comment: 'once' }]);
      expect(facts[0]).not.toHaveProperty('grantHash');
      expect(callOf(run, CALL)).toMatchObject({
        status: how === 'allowed' ? 'cleared' : 'approved',
        authorized: [{ answer: { decisionId: 'a-1' }, request: { about: { scopes: ['a'] } } }],
      });
      expect(authorizationsOf(run, flightOf(resent(run)))).toHaveLength(1);
    },
  );

  test('a word that it is sent again is not used up by a server that turned the call away', () => {
    const run = flyingRun();
    const retry = { resolution: {}, request: {} };
    // Sound: what stands in it is carried on as it is.
    const flying = { ...run, calls: [{ ...flightOf(run), retry }] } as unknown as Run;
    expect(callOf(said(wanting(flying), consent()).run, CALL)).toMatchObject({ retry });
  });
});

test('a grant: stands for every call to its server from then on, the newest one', () => {
  const first = resent(said(wanting(flyingRun(), { wants: 'grant' }), grant()).run);
  expect(first.grants).toMatchObject([{ answer: { grant: { ref: 'fresh' } } }]);
  const newer = grant({ decisionId: 'a-2', grant: { server: 'files', ref: 'newer' } });
  const { run, facts } = said(wanting(first, { wants: 'grant' }), newer);
  expect(run.grants).toMatchObject([{ answer: { grant: { ref: 'newer' } } }]);
  expect(facts).toMatchObject([{ answer: 'grant', grantHash: expect.stringMatching(/^[0-9a-f]{64}$/) }]);
  const flight = flightOf(resent(run));
  expect(authorizationsOf(run, flight)).toHaveLength(1);
  const { judgement } = flight;
  const elsewhere = { ...flight, judgement: { ...judgement, target: { ...judgement.target, server: 'other' } } };
  expect(authorizationsOf(run, elsewhere)).toEqual([]);
  expect(authorizationsOf(flyingRun(), flightOf(flyingRun()))).toEqual([]);
});

test('declined, the call is over, by the name of whoever said so', () => {
  const { run, facts, ack } = said(wanting(flyingRun('approved')), { ...decline(), signature: 'e30.e30.sig' });
  expect(ack).toMatchObject({ answer: 'decline' });
  expect(callOf(run, CALL)).toMatchObject({
    status: 'settled',
    outcome: { kind: 'rejected', by: 'ann', reason: 'too much' },
    pause: { status: 'resolved', by: { id: 'ann' } },
  });
  expect(facts).toMatchObject([
    { answer: 'decline', comment: 'too much', signature: {} },
    { kind: 'outcome', outcome: 'rejected' },
  ]);
  expect(dispatched(run, CALL)).toBeUndefined();
});

describe('what is refused', () => {
  const refusal = (run: Run, answer: SignedAuthorization, initiator = 'ann') =>
    refuseAuthorization(pausedOf(run), answer, initiator, START);
  const server = pausedOf(wanting()).judgement.target.server;
  const forGrant = wanting(flyingRun(), { wants: 'grant' });

  test.each([
    ['consent where a grant is wanted', forGrant, consent(), 'DECISION_NOT_PERMITTED'],
    ['a grant where consent is wanted', wanting(), grant(), 'DECISION_NOT_PERMITTED'],
    ['a grant for another server', forGrant, grant({ grant: { server: 'other', ref: 'x' } }), 'DECISION_INVALID'],
    ['a grant of somebody else', forGrant, grant({ approver: { id: 'eve', groups: [] } }), 'APPROVER_NOT_ENTITLED'],
    [
      'a grant that is too long to go with each call',
      forGrant,
      grant({ grant: { server: 'files', jwe: longJwe } }),
      'DECISION_INVALID',
    ],
  ])('%s', (_what, run, answer, code) => expect(refusal(run, answer)).toMatchObject({ code }));

  test('not what fits, nor a refusal, nor what another kind of request is about', () => {
    expect(refusal(wanting(), consent())).toBeUndefined();
    expect(refusal(wanting(), decline())).toBeUndefined();
    expect(refusal(forGrant, grant({ grant: { server, ref: 'x' } }))).toBeUndefined();
    expect(refusal(pausedRun(), consent())).toBeUndefined();
  });
});

describe('consent that takes several people', () => {
  const clause = { layer: 'organisation' as const, ids: ['ann', 'bob'], groups: [], need: 2 };
  const by = (id: string, decisionId: string): SignedAuthorization =>
    consent({ decisionId, approver: { id, groups: [] } });
  const quorum = (run = flyingRun(), other: readonly (typeof clause)[] = []): Run => {
    const { unsure: _, ...plain } = pausing({ approvers: { allOf: [clause, ...other] } });
    const about = authorizationPause(flightOf(run), need);
    if (about === undefined) throw new Error('not asked');
    return pausedFor(run, CALL, about, plain, runIds()).run;
  };
  const refusal = (run: Run, answer: SignedAuthorization) => refuseAuthorization(pausedOf(run), answer, 'ann', START);

  test('E-1: in trust mode `signed`, one key is one voice', async () => {
    const [one, two] = [service('one', []), service('two', [])];
    const trust = {
      keys: [one, two].map(({ entry: { kid, x, countersign } }) => ({ kid, x, iss: countersign.iss, groups: [] })),
    };
    const claims = { iat: START / 1_000, exp: START / 1_000 + 300 };
    const signed = async (who: string, key: typeof one) => ({
      ...by(who, `a-${who}`),
      signature: await signedWith(key, claims),
    });
    const first = said(quorum(), await signed('ann', one)).run;
    const refused = (answer: SignedAuthorization, over: typeof trust | undefined = trust) =>
      refuseAuthorization(pausedOf(first), answer, 'ann', START, over);
    expect(refused(await signed('bob', one))).toMatchObject(withCode('APPROVER_NOT_ENTITLED', 'one key is one voice'));
    expect(refused(await signed('bob', two))).toBeUndefined();
    expect(refuseAuthorization(pausedOf(first), by('bob', 'a-2'), 'ann', START)).toBeUndefined();
    expect(refused(by('bob', 'a-2'))).toBeUndefined();
  });

  test('is collected: the first counts, the last lets the call leave, with both', () => {
    const first = said(quorum(), by('ann', 'a-1'));
    expect(first.facts).toMatchObject([{ kind: 'authorization.given', answer: 'consent', counted: true }]);
    expect(first.ack).toMatchObject({ answer: 'consent', decidedBy: 'ann' });
    expect(callOf(first.run, CALL)).toMatchObject({
      status: 'waiting-for-answer',
      agreed: [{ answer: { decisionId: 'a-1' } }],
    });
    const last = said(first.run, by('bob', 'a-2'));
    expect(last.facts[0]).not.toHaveProperty('counted');
    expect(callOf(last.run, CALL)).toMatchObject({
      status: 'cleared',
      authorized: [{ answer: { decisionId: 'a-2' }, further: [{ answer: { decisionId: 'a-1' }, decidedAt: START }] }],
    });
    expect(callOf(last.run, CALL)).not.toHaveProperty('agreed');
    expect(currentDetails('waiting', first.run)).toContain('agreed so far: ann');
  });

  test('counts nobody twice, nor more than are needed', () => {
    const { run } = said(quorum(), by('ann', 'a-1'));
    expect(refusal(run, by('ann', 'a-2'))).toMatchObject({ code: 'ALREADY_DECIDED', facts: { decidedBy: 'ann' } });
    expect(refusal(run, by('bob', 'a-2'))).toBeUndefined();
    const both = said(quorum(flyingRun(), [{ ...clause, ids: ['cho'], need: 1 }]), by('ann', 'a-1')).run;
    const enough = said(both, by('bob', 'a-2')).run;
    expect(refusal(enough, by('dan', 'a-3'))).toMatchObject({ code: 'APPROVER_NOT_ENTITLED' });
    expect(refusal(enough, by('cho', 'a-3'))).toBeUndefined();
  });

  test('is over where one declines', () => {
    const { run } = said(said(quorum(), by('ann', 'a-1')).run, { ...decline(), decisionId: 'a-2' });
    expect(callOf(run, CALL)).toMatchObject({ status: 'settled', outcome: { kind: 'rejected' } });
  });
});

test.each([
  [wanting(), /wants another authorization.*[\s\S]*consent to the scopes ` a ` for this call/],
  [wanting(flyingRun(), { wants: 'grant' }), /give a fresh grant/],
  [wanting(flyingRun(), { scopes: undefined }), /consent to another try/],
])('as people read it: it says what is wanted', (run, text) => expect(currentDetails('waiting', run)).toMatch(text));

describe('its shape', () => {
  const jwe = { protected: 'a', encrypted_key: 'b', iv: 'c', ciphertext: 'd', tag: 'e', aad: 'f' };
  test.each([
    consent(),
    consent({ comment: 'fine' }),
    consent({ callId: 't0.c0' }),
    grant(),
    grant({ grant: { server: 'files', jwe } }),
    decline(),
  ])('is taken as it is: %j', (value) => {
    expect(parseAuthorization(value)).toEqual({ kind: 'ok', value });
  });

  test.each([
    consent({ callId: 't0.c' }),
    consent({ callId: 't00.c0' }),
    consent({ callId: 7 }),
    grant({ grant: { server: 'files', jwe: 'clear' } }),
    grant({ grant: { server: 'files', jwe: { ...jwe, header: {} } } }),
    grant({ grant: { server: 'files', jwe: { ...jwe, tag: 1 } } }),
    grant({ grant: { server: 'files', ref: 'x', jwe } }),
    grant({ grant: { server: 'a b', ref: 'x' } }),
    grant({ grant: 'x' }),
    consent({ grant: { server: 'files', ref: 'x' } }),
    { ...decline(), reason: '' },
    consent({ kind: 'constructor' }),
    'consent',
  ])('is refused: %j', (value) => {
    expect(parseAuthorization(value)).toMatchObject({ kind: 'bad' });
  });
});

/** A fresh grant, and the calls that are in flight with the one before (INV-S2). */
describe('calls in flight', () => {
  const BESIDE = 't1.c1';
  const unauthorized = { reason: 'TOOL_UNAUTHORIZED', message: 'no grant', wants: 'grant' } as const;

  /** The first call is asked about, is given this grant, and leaves again. */
  function regranted(run: Run, ref: string): Run {
    const about = authorizationPause(flightOf(run), unauthorized);
    if (about === undefined) throw new Error('not asked');
    const { unsure: _, ...plain } = pausing();
    const asked = pausedFor(run, CALL, about, plain, runIds()).run;
    const echoed = { callId: CALL, digest: 'a'.repeat(64), runId: 'run-1', approver: { id: 'ann', groups: [] } };
    const answer = { kind: 'grant', grant: { server: 'files', ref }, decisionId: ref, ...echoed } as const;
    const { run: given } = authorize(asked, pausedOf(asked), answer, START);
    return dispatched(given, CALL)?.run ?? given;
  }

  /** With another call under way, sent just now. */
  function beside(run: Run, server = 'files'): Run {
    const { call, judgement, ...state } = flightOf(run);
    const target = { ...judgement.target, server };
    const other = { ...state, call: { ...call, callId: BESIDE }, judgement: { ...judgement, target } };
    return { ...run, calls: [...run.calls, other] };
  }

  test('INV-S2: a call in flight keeps the grant that it was sent with, however often another one takes its place', () => {
    let run = beside(regranted(flyingRun(), 'first'));
    expect(givenGrant(run, flightOf(run, BESIDE))).toMatchObject({ ref: 'first' });
    for (const ref of ['second', 'third']) {
      run = regranted(run, ref);
      expect(givenGrant(run, flightOf(run, BESIDE))).toMatchObject({ ref: 'first' });
      expect(givenGrant(run, flightOf(run))).toMatchObject({ ref });
    }
  });

  test('INV-S2: nor does a question on its connection change it, asked before the new grant or after', () => {
    const sent = beside(regranted(flyingRun(), 'first'));
    const { attempts: attempt } = flightOf(sent, BESIDE);
    const asking = regranted(heldRun(sent, { callId: BESIDE, attempt }, { deadlineSeconds: 60 }), 'second');
    const carried = fromCarry(toCarry(asking).run);
    const later = heldRun(elicitationClosed(carried, BESIDE, 'cancelled').run, { callId: BESIDE, attempt, round: 2 });
    const { run } = elicitationClosed(later, BESIDE, 'expired');
    expect(givenGrant(run, flightOf(run, BESIDE))).toMatchObject({ ref: 'first' });
  });

  test("nothing is kept where it was sent with the run's own, nor at another server", () => {
    const own = regranted(beside(flyingRun()), 'first');
    expect(flightOf(own, BESIDE)).not.toHaveProperty('grant');
    expect(givenGrant(own, flightOf(own, BESIDE))).toMatchObject({ ref: 'first' });
    expect(givenGrant(flyingRun(), flightOf(flyingRun()))).toBeUndefined();
    const apart = regranted(beside(regranted(flyingRun(), 'first'), 'other'), 'second');
    expect(flightOf(apart, BESIDE)).not.toHaveProperty('grant');
  });
});
