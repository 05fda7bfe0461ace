/** Answers to requests about something else than consent are verified as decisions are; none is passed over (INV-G2, J, F22). */
import { describe, expect, test } from '@jest/globals';
import { compareWithHistory, type RecordedDeeds } from '../../../../client/ledger/history.ts';
import { checkNamedKeys, checkProofs } from '../../../../client/ledger/proofs.ts';
import type { Authorization, Provision, Resolution } from '../../../../contracts/schemas/request.ts';
import { recordedHash } from '../../../../domain/request/outcome.ts';
import { responsesHash } from '../../../../domain/request/provision.ts';
import type { AnswerPurpose } from '../../../../domain/request/signed-answer.ts';
import { hashOf } from '../../../../domain/text/canonical.ts';
import { START } from '../../../support/builders/run.ts';
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
  const SENT = 'b'.repeat(64);
  const known = (sent: RecordedDeeds['sent']): RecordedDeeds => ({
    start: { spec: {} },
    from: 0,
    sent,
    messages: new Map(),
    accepted: new Set(sent.keys()),
    dispatched: new Set(),
    outcomes: new Map(),
    lost: new Set(),
  });
  const compared = async (deeds: RecordedDeeds, { fact, cut = 2 }: { fact?: object; cut?: number } = {}) => {
    const all = (await KINDS[name](fact === undefined ? {} : { fact })).entries.slice(0, cut);
    return compareWithHistory({ before: all, after: all }, deeds).map(({ seq, reason }) => `${seq} ${reason}`);
  };
  const unsigned = { fact: { signature: undefined } };

  test('is compared with what was sent', async () => {
    expect(await compared(known(new Map([['d-1', []]])), unsigned)).toEqual([]);
    expect(await compared(known(new Map()), unsigned)).toEqual([expect.stringMatching(/^1 .*nobody sent/)]);
    expect(await compared(known(new Map([['d-1', [SENT]]])))).toEqual([
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
    sent: new Map([['d-1', []]]),
    messages: new Map(),
    accepted: new Set(['d-1']),
    dispatched: new Set(['t1.c0/1']),
    outcomes: new Map(),
    lost: new Set<string>(),
  };
  expect(compareWithHistory({ before: entries, after: entries }, deeds)).toMatchObject([
    { kind: 'history', reason: 'is not there: d-1 was accepted' },
  ]);
});
