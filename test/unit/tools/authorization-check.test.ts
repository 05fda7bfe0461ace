/** What a dispatch believes of what people said of a call's authorization: nothing that is not proven (INV-S2, INV-G2). */
import { describe, expect, test } from '@jest/globals';
import { provenAuthorization } from '../../../activities/tools/authorization-check.ts';
import type { DispatchInput } from '../../../contracts/activities.ts';
import type { AuthorizationProof } from '../../../contracts/dispatch-proof.ts';
import type { AuthorizationPause } from '../../../contracts/schemas/pause.ts';
import { requestDigest } from '../../../domain/digest.ts';
import { dispatchOf } from '../../support/builders/dispatch.ts';
import { approvedBy } from '../../support/builders/pause.ts';
import { callOf } from '../../../domain/run.ts';
import { askingRun } from '../../support/builders/run.ts';
import type { Approved } from '../../../domain/call-state.ts';

// Sound: ann has just approved it.
const input: DispatchInput = dispatchOf(callOf(approvedBy(askingRun()), 't1.c0') as Approved);
const server = input.server.name;
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

function proof(over: Partial<AuthorizationProof> = {}, answer: object = {}): AuthorizationProof {
  const parts = {
    about: about(),
    generation: 2,
    approvers: { allOf: [{ layer: 'organisation' as const, ids: ['bob'], groups: [] }] },
    definitionHash: input.target.definitionHash,
    openedAt: '2026-01-01T00:00:00.000Z',
    deadline: '2026-01-02T00:00:00.000Z',
    decidedAt: '2026-01-01T01:00:00.000Z',
  };
  const [runId = ''] = input.decidedIn;
  const digest = requestDigest({
    namespace: input.run.namespace,
    tenant: input.run.initiator.tenant,
    workflowId: input.run.workflowId,
    callId: input.callId,
    runId,
    generation: parts.generation,
    target: input.target,
    arguments: input.arguments,
    approvers: parts.approvers,
    about: parts.about,
  });
  const approver = { id: 'bob', groups: [] };
  const said = { kind: 'consent', decisionId: 'a', callId: input.callId, digest, runId, approver, ...answer };
  // Sound: what is given beside is of one of the two kinds.
  return { ...parts, ...over, answer: said } as AuthorizationProof;
}

const consented = (...proofs: AuthorizationProof[]) => provenAuthorization(input, proofs).consented;

describe('consent', () => {
  test('that is proven lets the named scopes be asked for, once each', () => {
    expect(consented(proof())).toEqual(['admin']);
    expect(consented(proof(), proof())).toEqual(['admin']);
    expect(provenAuthorization(input, [])).toEqual({ consented: [] });
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
    expect(provenAuthorization({ ...input, arguments: { other: 1 } }, [proof()]).consented).toEqual([]);
  });
});

describe('consent of several', () => {
  const approvers = { allOf: [{ layer: 'organisation' as const, ids: ['bob', 'cho'], groups: [], need: 2 }] };
  const whole = (over: { further?: object; decidedAt?: string } = {}): AuthorizationProof => {
    const base = proof({ approvers });
    const [runId = ''] = input.decidedIn;
    const { run, callId, target, arguments: args } = input;
    const digest = requestDigest({
      namespace: run.namespace,
      tenant: run.initiator.tenant,
      workflowId: run.workflowId,
      callId,
      runId,
      generation: base.generation,
      target,
      arguments: args,
      approvers,
      about: base.about,
    });
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
  const grantOf = (...proofs: AuthorizationProof[]) => provenAuthorization(input, proofs).grant;

  test('of the initiator is taken for every call to its server, the last one', () => {
    expect(grantOf(given(), given({ grant: { server, ref: 'newer' } }))).toEqual({ server, ref: 'newer' });
    expect(provenAuthorization(input, [given()]).consented).toEqual([]);
  });

  test.each<[string, AuthorizationProof]>([
    ['of somebody else', given({ approver: { id: 'mallory', groups: [] } })],
    ['for another server', given({ grant: { server: 'other', ref: 'x' } })],
    ['that nobody asked for', given({}, { about: about() })],
    ['of before a reset', given({ runId: 'before' })],
  ])('%s is not', (_what, forged) => expect(grantOf(forged)).toBeUndefined());
});
