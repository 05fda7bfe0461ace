/** A decision in trust mode `signed`: kept as it was signed, and one key is one voice (INV-G2, E-1, F21). */
import { expect, test } from '@jest/globals';
import type { SignedDecision } from '../../../../contracts/schemas/request.ts';
import { accept } from '../../../../domain/request/decision.ts';
import { admitSigned, checkSignedDecision } from '../../../../domain/request/signed-answer.ts';
import { callOf, type Run } from '../../../../domain/state/run.ts';
import { identicalCalls } from '../../../support/builders/call.ts';
import { approval, askingOf, extension, rejection, shown } from '../../../support/builders/decision.ts';
import { acceptedEdit, editOf, ONE } from '../../../support/builders/edit.ts';
import { approverRule, askVerdict } from '../../../support/builders/judgement.ts';
import { judgedRun, runIds, START } from '../../../support/builders/run.ts';
import { claimsFor, service, signedWith } from '../../../support/signing/people.ts';

const rule = { ...approverRule(['acme|ann', 'acme|ben', 'acme|eve']), extendableToSeconds: 7_200 };
const approvers = { ...rule, allOf: rule.allOf.map((clause) => ({ ...clause, need: 2, may: ['edit' as const] })) };
const asked = (): Run => judgedRun(identicalCalls(1), () => ({ verdict: askVerdict({ approvers }) }));

const one = service('one', ['ops']);
const two = service('two', ['ops']);
const keys = [one, two].map(({ entry: { kid, x, countersign } }) => ({
  kid,
  x,
  iss: countersign.iss,
  groups: countersign.groups,
}));
const trust = { keys };
const endsAt = Number.POSITIVE_INFINITY;

async function by(id: string, key: typeof one, message: SignedDecision): Promise<SignedDecision> {
  const own = { ...message, decisionId: `${id}-${message.kind}`, approver: { id, groups: ['ops'] } };
  const { namespace, tenant, workflowId } = runIds();
  const [iss, sub] = id.split('|');
  const about = { purpose: 'decide', namespace, tenant, workflowId, runId: own.runId, iss, sub, groups: ['ops'] };
  const iat = START / 1_000;
  return {
    ...own,
    signature: await signedWith(key, claimsFor(own, about, { iat, exp: iat + 300, jti: own.decisionId })),
  };
}

test('is compared with its signature whole', async () => {
  const run = asked();
  const vote = await by('acme|ann', one, approval({ ...shown(run, 't1.c0'), comment: 'fine' }));
  expect(checkSignedDecision(vote, runIds(), trust, START)).toMatchObject({ kind: 'signed', jti: vote.decisionId });
  expect(checkSignedDecision({ ...vote, comment: 'never' } as SignedDecision, runIds(), trust, START)).toMatchObject({
    code: 'SIGNATURE_INVALID',
    facts: { path: 'payload' },
  });
  const { signature: _, ...unsigned } = vote;
  expect(checkSignedDecision(unsigned, runIds(), trust, START)).toMatchObject({ code: 'SIGNATURE_MISSING' });
});

test('a second vote with the same key does not count, a rejection does; without keys nobody asks', async () => {
  const run = asked();
  const where = shown(run, 't1.c0');
  const first = await by('acme|ann', one, approval(where));
  const voted = accept(run, askingOf(run, 't1.c0'), first, START).run;
  const again = await by('acme|ben', one, approval(where));
  expect(admitSigned(voted, again, runIds(), START, { endsAt, trust })).toMatchObject({
    code: 'APPROVER_NOT_ENTITLED',
  });
  expect(admitSigned(voted, again, runIds(), START, { endsAt, trust: undefined }).kind).toBe('accept');
  const other = await by('acme|ben', two, approval(where));
  expect(admitSigned(voted, other, runIds(), START, { endsAt, trust }).kind).toBe('accept');
  const no = await by('acme|ben', one, rejection(where));
  expect(admitSigned(voted, no, runIds(), START, { endsAt, trust }).kind).toBe('accept');
  expect(admitSigned(voted, first, runIds(), START, { endsAt, trust }).kind).toBe('repeat');
  // Votes of before the mode was known would be of nobody.
  const { signature: _, ...unsigned } = first;
  const before = accept(run, askingOf(run, 't1.c0'), unsigned, START).run;
  const { signature: __, ...bare } = again;
  expect(admitSigned(before, bare, runIds(), START, { endsAt, trust })).toMatchObject({
    code: 'APPROVER_NOT_ENTITLED',
  });
  expect(admitSigned(run, bare, runIds(), START, { endsAt, trust }).kind).toBe('accept');
});

test('INV-D2: what is signed of one request has a bound, and a no is always taken', async () => {
  const where = shown(asked(), 't1.c0');
  const long = '漢'.repeat(4_000);
  let run = asked();
  const answers: string[] = [];
  for (const [index, who] of ['acme|ann', 'acme|ben', 'acme|eve'].entries()) {
    const until = new Date(START + 3_660_000 + index * 60_000).toISOString();
    const later = await by(who, two, extension({ ...where, comment: long, until }));
    const admission = admitSigned(run, later, runIds(), START, { endsAt, trust });
    answers.push(admission.kind === 'refuse' ? admission.code : admission.kind);
    if (admission.kind === 'accept') ({ run } = accept(run, admission.state, later, START));
  }
  expect(answers).toEqual(['accept', 'accept', 'LIMIT_REACHED']);
  const no = await by('acme|ben', one, rejection({ ...where, reason: long }));
  expect(admitSigned(run, no, runIds(), START, { endsAt, trust }).kind).toBe('accept');
  const yes = await by('acme|ben', one, approval(where));
  expect(admitSigned(run, yes, runIds(), START, { endsAt, trust }).kind).toBe('accept');
});

test('whoever edits begins anew: the key may have agreed to the former arguments', async () => {
  const run = asked();
  const where = shown(run, 't1.c0');
  const voted = accept(run, askingOf(run, 't1.c0'), await by('acme|ann', one, approval(where)), START).run;
  const edit = await by('acme|ben', one, approval({ ...where, arguments: { other: true } }));
  expect(admitSigned(voted, edit, runIds(), START, { endsAt, trust }).kind).toBe('accept');
});

test('what was signed is carried as it was signed: comments, groups, extensions', async () => {
  const run = asked();
  const where = shown(run, 't1.c0');
  const vote = await by('acme|ann', one, approval({ ...where, comment: 'fine' }));
  const { run: voted, facts } = accept(run, askingOf(run, 't1.c0'), vote, START);
  expect(askingOf(voted, 't1.c0').votes).toEqual([{ decision: vote, decidedAt: START }]);
  expect(facts).toMatchObject([
    {
      kind: 'decision.accepted',
      approver: { groups: [] },
      signature: { kid: 'one', jti: vote.decisionId, iss: 'acme' },
    },
  ]);
  const later = await by('acme|eve', two, extension({ ...where, comment: 'ill', until: '2026-01-01T01:30:00.000Z' }));
  const postponed = accept(run, askingOf(run, 't1.c0'), later, START).run;
  expect(askingOf(postponed, 't1.c0').request.extended?.by).toEqual([{ decision: later, decidedAt: START }]);
});

test('an edit that was signed is kept as it was signed, too', async () => {
  const decision = { ...editOf(ONE), comment: 'less', signature: await signedWith(one, { jti: 'e', iss: 'acme' }) };
  const state = callOf(acceptedEdit(ONE, decision).run, 't1.c0');
  expect(state).toMatchObject({ status: 'approved', consent: { made: { decision } } });
});
