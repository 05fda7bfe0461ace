/** What a dispatch believes of what people said of a call's authorization: nothing that is not proven (INV-S2, INV-G2). */
import { describe, expect, test } from '@jest/globals';
import { type Leaving, provenAuthorization } from '../../../../activities/gate/statement.ts';
import type { AuthorizationPause } from '../../../../contracts/schemas/request.ts';
import type { ApproverRule } from '../../../../contracts/schemas/policy.ts';
import type { AuthorizationProof } from '../../../../contracts/wire/proofs.ts';
import { approvedDispatch, digestOfShown } from '../../../support/builders/dispatch.ts';

const input = approvedDispatch();
const server = input.server.name;
const BOB: ApproverRule = { allOf: [{ layer: 'organisation', ids: ['bob'], groups: [] }] };
const about = (over: Partial<AuthorizationPause> = {}): AuthorizationPause => ({
  kind: 'authorization',
  server,
  reason: 'TOOL_INSUFFICIENT_SCOPE',
  message: 'm',
  wants: 'consent',
  scopes: ['admin'],
  round: 1,
  ...over,
});

/** @param shown what bob read, in truth */
function proof(
  over: Partial<AuthorizationProof> = {},
  answer: object = {},
  shown: Partial<Pick<AuthorizationProof, 'approvers' | 'definitionHash'>> = {},
): AuthorizationProof {
  const parts = {
    about: about(),
    generation: 2,
    approvers: BOB,
    definitionHash: input.target.definitionHash,
    ...shown,
    openedAt: '2026-01-01T00:00:00.000Z',
    deadline: '2026-01-02T00:00:00.000Z',
    decidedAt: '2026-01-01T01:00:00.000Z',
  };
  const [runId = ''] = input.decidedIn;
  const digest = digestOfShown(input, parts, runId);
  const approver = { id: 'bob', groups: [] };
  const said = { kind: 'consent', decisionId: 'a', callId: input.callId, digest, runId, approver, ...answer };
  // Sound: what is given beside is of one of the two kinds.
  return { ...parts, ...over, answer: said } as AuthorizationProof;
}

const leaving = (over: Partial<Leaving> = {}): Leaving => ({
  approvers: BOB,
  deadlineSeconds: 60,
  definitionHash: input.target.definitionHash,
  at: Date.parse('2026-01-01T02:00:00.000Z'),
  ...over,
});
const consented = (...proofs: AuthorizationProof[]) => provenAuthorization(input, proofs, leaving()).consented;

describe('consent', () => {
  test('that is proven lets the named scopes be asked for, once each', () => {
    expect(consented(proof())).toEqual(['admin']);
    expect(consented(proof(), proof())).toEqual(['admin']);
    expect(provenAuthorization(input, [], leaving())).toEqual({ consented: [] });
  });

  test.each<[string, AuthorizationProof]>([
    ['to other scopes than were shown', proof({ about: about({ scopes: ['root'] }) })],
    ['for another server', proof({ about: about({ server: 'other' }) })],
    ['to a request for a grant', proof({ about: about({ wants: 'grant' }) })],
    ['to what became of the call', proof({ about: { kind: 'outcome', sentAt: '', message: '', attempt: 1 } })],
    ['on another call', proof({}, { callId: 't9.c9' })],
    ['with another digest', proof({}, { digest: 'a'.repeat(64) })],
    ['of somebody who was not asked', proof({}, { approver: { id: 'eve', groups: [] } })],
    [
      'under another rule than was shown',
      proof({ approvers: { allOf: [{ layer: 'run', ids: ['bob'], groups: [] }] } }),
    ],
    ['before a reset', proof({}, { runId: 'before' })],
    ['after its deadline', proof({ decidedAt: '2026-01-03T00:00:00.000Z' })],
    ['before it was asked', proof({ decidedAt: '2025-01-01T00:00:00.000Z' })],
    ['at no time', proof({ decidedAt: 'soon' })],
  ])('%s grants nothing', (_what, forged) => expect(consented(forged)).toEqual([]));

  test('is for what would be sent, and no other arguments', () => {
    expect(provenAuthorization({ ...input, arguments: { other: 1 } }, [proof()], leaving()).consented).toEqual([]);
  });
});

describe('INV-S2: consent that was genuine counts as the call leaves', () => {
  const now = (over: Partial<Leaving> | undefined, ...proofs: AuthorizationProof[]) =>
    provenAuthorization(input, proofs, over === undefined ? undefined : leaving(over)).consented;
  const ruleOf = (ids: string[], more: object = {}): ApproverRule => ({
    allOf: [{ layer: 'organisation', ids, groups: [], ...more }],
  });
  const at = (time: string): number => Date.parse(time);

  test('of one of those whom policy asks by now, also where others are asked, too', () => {
    expect(now({ approvers: ruleOf(['ann', 'bob']) }, proof())).toEqual(['admin']);
  });

  test('not of somebody who has left the policy, whoever was shown as entitled then', () => {
    expect(now({ approvers: ruleOf(['ann']) }, proof())).toEqual([]);
    const own = ruleOf(['mallory']);
    const forged = proof({}, { approver: { id: 'mallory', groups: [] } }, { approvers: own });
    expect(now({ approvers: own }, forged)).toEqual(['admin']);
    expect(now({}, forged)).toEqual([]);
  });

  test('not where policy wants several by now: half a consent is none', () => {
    expect(now({ approvers: ruleOf(['ann', 'bob'], { need: 2 }) }, proof())).toEqual([]);
  });

  test('of whoever is asked after a while, if they were by then', () => {
    const later = (afterSeconds: number): ApproverRule =>
      ruleOf(['ann'], { escalate: { afterSeconds, add: { ids: ['bob'], groups: [] } } });
    // Bob said it an hour after it was asked.
    expect(now({ approvers: later(3_600) }, proof())).toEqual(['admin']);
    expect(now({ approvers: later(3_601) }, proof())).toEqual([]);
  });

  test('not of the tool as it was before it was defined anew, though that was approved since', () => {
    const before = proof({}, {}, { definitionHash: 'b'.repeat(64) });
    expect(now({ definitionHash: 'b'.repeat(64) }, before)).toEqual(['admin']);
    expect(now({}, before)).toEqual([]);
  });

  test('as long as an approval holds, by the rule of then and by that of now', () => {
    const hour = { validForSeconds: 3_600 };
    const then = proof({}, {}, { approvers: { ...BOB, ...hour } });
    for (const [rule, said] of [
      [BOB, then],
      [{ ...BOB, ...hour }, proof()],
    ] as const) {
      expect(now({ approvers: rule, at: at('2026-01-01T01:59:59.999Z') }, said)).toEqual(['admin']);
      expect(now({ approvers: rule, at: at('2026-01-01T02:00:00.000Z') }, said)).toEqual([]);
    }
  });

  test('not of a call that may not leave as it is', () => expect(now(undefined, proof())).toEqual([]));
});

describe('consent of several', () => {
  const approvers = { allOf: [{ layer: 'organisation' as const, ids: ['bob', 'cho'], groups: [], need: 2 }] };
  const whole = (over: { further?: object; decidedAt?: string } = {}): AuthorizationProof => {
    const base = proof({ approvers });
    const [runId = ''] = input.decidedIn;
    const digest = digestOfShown(input, { ...base, approvers }, runId);
    const other = { ...base.answer, decisionId: 'b', digest, approver: { id: 'cho', groups: [] }, ...over.further };
    const further = [{ answer: other, decidedAt: over.decidedAt ?? '2026-01-01T00:30:00.000Z' }];
    // Sound: as above.
    return { ...base, answer: { ...base.answer, digest }, further } as AuthorizationProof;
  };

  test('counts together, and only where each is proven', () => {
    expect(consented(whole())).toEqual(['admin']);
    const { further: _, ...alone } = whole();
    expect(consented(alone)).toEqual([]);
  });

  test.each<[string, AuthorizationProof]>([
    ['of one person twice', whole({ further: { approver: { id: 'bob', groups: [] } } })],
    ['one of them on another call', whole({ further: { callId: 't9.c9' } })],
    ['one of them of another digest', whole({ further: { digest: 'a'.repeat(64) } })],
    ['one of them before a reset', whole({ further: { runId: 'before' } })],
    ['one of them a grant', whole({ further: { kind: 'grant', grant: { server, ref: 'x' } } })],
    ['one of them too late', whole({ decidedAt: '2026-01-03T00:00:00.000Z' })],
  ])('%s grants nothing', (_what, forged) => expect(consented(forged)).toEqual([]));
});

describe('a grant', () => {
  const given = (answer: object = {}, over: Partial<AuthorizationProof> = {}) =>
    proof(
      { about: about({ wants: 'grant' }), ...over },
      {
        kind: 'grant',
        grant: { server, ref: 'fresh' },
        approver: { id: input.run.initiator.id, groups: [] },
        callId: 't1.c7',
        ...answer,
      },
    );
  const grantOf = (...proofs: AuthorizationProof[]) => provenAuthorization(input, proofs, undefined).grant;

  test('of the initiator is taken for every call to its server, the last one', () => {
    expect(grantOf(given(), given({ grant: { server, ref: 'newer' } }))).toEqual({ server, ref: 'newer' });
    expect(provenAuthorization(input, [given()], leaving()).consented).toEqual([]);
  });

  test.each<[string, AuthorizationProof]>([
    ['of somebody else', given({ approver: { id: 'mallory', groups: [] } })],
    ['for another server', given({ grant: { server: 'other', ref: 'x' } })],
    ['that nobody asked for', given({}, { about: about() })],
    ['of before a reset', given({ runId: 'before' })],
  ])('%s is not', (_what, forged) => expect(grantOf(forged)).toBeUndefined());
});
