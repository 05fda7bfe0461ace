/** Answers to requests about something else than consent are verified as decisions are; none is passed over (INV-G2, J, F22). */
import { describe, expect, test } from '@jest/globals';
import { compareWithHistory, type RecordedDeeds } from '../../../../client/ledger/history.ts';
import { checkNamedKeys, checkProofs } from '../../../../client/ledger/proofs.ts';
import type { Authorization, Provision, Resolution, SignedDecision } from '../../../../contracts/schemas/request.ts';
import { accept, admit } from '../../../../domain/request/decision.ts';
import { recordedHash } from '../../../../domain/request/outcome.ts';
import { responsesHash } from '../../../../domain/request/provision.ts';
import { admitSigned, type AnswerPurpose, checkSignedAnswer } from '../../../../domain/request/signed-answer.ts';
import { callOf, type Run } from '../../../../domain/state/run.ts';
import { hashOf, sha256Hex } from '../../../../domain/text/canonical.ts';
import { identicalCalls } from '../../../support/builders/call.ts';
import { approval, askingOf, extension, rejection, shown } from '../../../support/builders/decision.ts';
import { acceptedEdit, editOf, ONE } from '../../../support/builders/edit.ts';
import { approverRule, askVerdict } from '../../../support/builders/judgement.ts';
import { judgedRun, runIds, START } from '../../../support/builders/run.ts';
import { claimsFor, service, signedWith } from '../../../support/signing/people.ts';
import {
  base,
  ben,
  type Forgery,
  NAMESPACE,
  RUN,
  type Story,
  storyOf,
  stranger,
  TRUSTED,
} from '../../../support/stories/proofs.ts';

const OTHER = 'd'.repeat(64);
const common = { ...base, callId: 't1.c0', digest: 'a'.repeat(64), runId: 'run-1' };
const grant = { server: 'files', ref: 'fresh' };
const consented: Authorization = { kind: 'consent', ...common, comment: 'once' };
const regranted: Authorization = { kind: 'grant', ...common, grant };
const declined: Authorization = { kind: 'decline', ...common, reason: 'too much' };
const resolved: Resolution = { kind: 'succeeded', ...common, result: 'paid' };
const provided: Provision = { kind: 'provide', ...common, responses: { sure: { action: 'accept' } } };

type Answer = Authorization | Resolution | Provision;

/** @param told what the run records besides who gave it to what */
function answered(answer: Answer, purpose: AnswerPurpose, told: object) {
  return async (forged: Forgery = {}): Promise<Story> => await storyOf(answer, { purpose, told }, forged);
}

const given = { kind: 'authorization.given' };
const KINDS = {
  consent: answered(consented, 'authorize', { ...given, answer: 'consent', comment: 'once' }),
  grant: answered(regranted, 'authorize', { ...given, answer: 'grant', grantHash: hashOf(grant) }),
  decline: answered(declined, 'authorize', { ...given, answer: 'decline', comment: 'too much' }),
  outcome: answered(resolved, 'resolveOutcome', {
    kind: 'outcome.resolved',
    answer: 'succeeded',
    recordedHash: recordedHash(resolved),
  }),
  input: answered(provided, 'provideInput', {
    kind: 'input.provided',
    answer: 'provide',
    responsesHash: responsesHash(provided),
  }),
} as const;
type Kind = keyof typeof KINDS;
// Sound: these are its own keys.
const NAMES = Object.keys(KINDS) as readonly Kind[];

const check = ({ entries, deeds }: Story) =>
  checkProofs(entries, { namespace: NAMESPACE, workflowId: RUN, trusted: TRUSTED, deeds });
const faults = (told: Story) => check(told).faults.map(({ kind, seq }) => `${kind} ${seq}`);

describe.each(NAMES)('%s', (name) => {
  const told = KINDS[name];

  test('as it was signed is proven', async () => {
    expect(check(await told())).toEqual({ faults: [], checked: 2, unchecked: 0 });
  });

  test.each<readonly [string, string, Forgery]>([
    ['that names no signature', 'proof-unsigned', { fact: { signature: undefined } }],
    ['that history has without a signature', 'proof-altered', { signature: null }],
    ['under a key that is not trusted', 'proof-foreign-key', { key: stranger }],
    ['under a key of somebody else', 'proof-not-entitled', { key: ben }],
    ['signed as a decision', 'proof-altered', { claims: { purpose: 'decide' } }],
    ['that was changed on its way', 'proof-altered', { sent: { callId: 't9.c9' } }],
    ['of another kind than the entry says', 'proof-altered', { fact: { answer: 'retry' } }],
    ['with another comment', 'proof-altered', { fact: { comment: 'another' } }],
    ['of another person', 'proof-altered', { fact: { approver: { id: 'acme|ben', groups: [] } } }],
    ['to another request', 'proof-altered', { fact: { digest: OTHER } }],
    ['that came when its signature had ended', 'proof-expired', { at: START + 3_600_000 }],
  ])('%s is found', async (_what, kind, forged) => {
    expect(faults(await told(forged))).toEqual([`${kind} 1`]);
  });

  test('of which nobody has the message counts as unchecked; its key must be one that may say so', async () => {
    const { entries, deeds } = await told();
    const forgotten = { ...deeds, from: 2, start: { spec: {} }, messages: new Map() };
    expect(check({ entries, deeds: forgotten })).toEqual({ faults: [], checked: 0, unchecked: 2 });
    const copy = (await told({ key: stranger })).entries;
    expect(checkNamedKeys(copy, TRUSTED).faults).toMatchObject([{ kind: 'proof-foreign-key', seq: 1 }]);
  });
});

test.each<readonly [string, Kind, object]>([
  ['grant', 'grant', { grantHash: OTHER }],
  ['grant', 'grant', { grantHash: undefined }],
  ['result', 'outcome', { recordedHash: OTHER }],
  ['answers', 'input', { responsesHash: OTHER }],
])('an entry that says another %s than was signed is found: %s %j', async (part, name, fact) => {
  expect(check(await KINDS[name]({ fact })).faults).toEqual([
    { kind: 'proof-altered', seq: 1, reason: expect.stringContaining(`another ${part} `) },
  ]);
});

describe.each(NAMES)('where nobody signs, %s', (name) => {
  const known = (messages: RecordedDeeds['messages']): RecordedDeeds => ({
    start: { spec: {} },
    from: 0,
    stored: 0,
    messages,
    accepted: new Set(messages.keys()),
    dispatched: new Set(),
    outcomes: new Map(),
    lost: new Set(),
    unread: [],
  });
  const compared = async (deeds: RecordedDeeds, { fact, cut = 2 }: { fact?: object; cut?: number } = {}) => {
    const all = (await KINDS[name](fact === undefined ? {} : { fact })).entries.slice(0, cut);
    return compareWithHistory({ before: all, after: all }, deeds).map(({ seq, reason }) => `${seq} ${reason}`);
  };
  const unsigned = { fact: { signature: undefined } };

  test('is compared with what was sent', async () => {
    expect(await compared(known(new Map([['d-1', []]])), unsigned)).toEqual([]);
    expect(await compared(known(new Map()), unsigned)).toEqual([expect.stringMatching(/^1 .*nobody sent/)]);
    const other = { message: { decisionId: 'd-1', signature: 'another' }, at: START };
    expect(await compared(known(new Map([['d-1', [other]]])))).toEqual([
      expect.stringMatching(/^1 .*another signature/),
    ]);
  });

  test('is not signed by the hash of an empty text', async () => {
    const empty = { fact: { signature: { kid: 'k', sha256: sha256Hex('') } } };
    const unsignedMessage = { message: { decisionId: 'd-1' }, at: START };
    expect(await compared(known(new Map([['d-1', [unsignedMessage]]])), empty)).toEqual([
      expect.stringMatching(/^1 .*another signature/),
    ]);
  });

  test('must not be left out', async () => {
    const left = await compared(known(new Map([['d-1', []]])), { cut: 1 });
    expect(left).toEqual(['1 is not there: d-1 was accepted']);
  });
});

test('a decision that was left out is missed though a dispatch names it', async () => {
  const { entries } = await storyOf(
    { ...common },
    { purpose: 'decide', told: { kind: 'dispatched', attempt: 1, approver: undefined, signature: undefined } },
  );
  const deeds = {
    start: { spec: {} },
    from: 0,
    stored: 0,
    sent: new Map([['d-1', []]]),
    messages: new Map(),
    accepted: new Set(['d-1']),
    dispatched: new Set(['t1.c0/1']),
    outcomes: new Map(),
    lost: new Set<string>(),
    unread: [],
  };
  expect(compareWithHistory({ before: entries, after: entries }, deeds)).toMatchObject([
    { kind: 'history', reason: 'is not there: d-1 was accepted' },
  ]);
});

/** A decision in trust mode `signed`: kept as it was signed, and one key is one voice (INV-G2, E-1, F21). */
describe('a signed decision', () => {
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
    expect(checkSignedAnswer('decide', vote, runIds(), trust, START)).toMatchObject({
      kind: 'signed',
      jti: vote.decisionId,
    });
    expect(
      checkSignedAnswer('decide', { ...vote, comment: 'never' } as SignedDecision, runIds(), trust, START),
    ).toMatchObject({
      code: 'SIGNATURE_INVALID',
      facts: { path: 'payload' },
    });
    const { signature: _, ...unsigned } = vote;
    expect(checkSignedAnswer('decide', unsigned, runIds(), trust, START)).toMatchObject({ code: 'SIGNATURE_MISSING' });
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
    expect(admit(voted, again, runIds(), START, endsAt).kind).toBe('accept');
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
});
