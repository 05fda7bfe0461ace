/** Whatever is forged of a decision, or of the start, is found with its entry and how; what was not verified is counted (INV-G2, J, F22). */
import { beforeAll, describe, expect, test } from '@jest/globals';
import { checkNamedKeys, checkProofs, namedSignatures } from '../../../../client/ledger/proofs.ts';
import type { Decision } from '../../../../contracts/schemas/request.ts';
import type { TrustedJwk } from '../../../../contracts/schemas/trust.ts';
import { answer, approval, edit, extension, rejection } from '../../../support/builders/decision.ts';
import { START } from '../../../support/builders/run.ts';
import {
  ANN,
  ann,
  backend,
  base,
  ben,
  elsewhere,
  type Forgery,
  NAMESPACE,
  RUN,
  SECONDS,
  type Story,
  story,
  stranger,
  TRUSTED,
} from '../../../support/stories/proofs.ts';

const check = ({ entries, deeds }: Story, trusted = TRUSTED) =>
  checkProofs(entries, { namespace: NAMESPACE, workflowId: RUN, trusted, deeds });
const faults = (told: Story, trusted = TRUSTED) => check(told, trusted).faults.map(({ kind, seq }) => `${kind} ${seq}`);

describe('what was signed is proven', () => {
  test.each<readonly [string, Decision]>([
    ['an approval', approval({ ...base, comment: 'seen' })],
    ['one that is remembered', approval({ ...base, remember: { scope: 'tool' } })],
    ['an edit', edit({ path: 'b' }, base)],
    ['a rejection', rejection(base)],
    ['an extension', extension(base)],
    ['an answer', answer(base)],
  ])('%s', async (_what, decision) => {
    expect(check(await story(decision))).toEqual({ faults: [], checked: 2, unchecked: 0 });
  });

  test('by a service for anybody of its issuer, and by a key that was replaced afterwards', async () => {
    expect(faults(await story(undefined, { key: backend }))).toEqual([]);
    const retired = new Date(START + 5_000).toISOString();
    const replaced = TRUSTED.map((key) => ({ ...key, countersign: { ...key.countersign, retired } }));
    expect(faults(await story(), replaced)).toEqual([]);
  });

  test('where the ledger keeps those groups only that the request names', async () => {
    expect(faults(await story(undefined, { fact: { approver: { id: 'acme|ann', groups: [] } } }))).toEqual([]);
  });

  test('where an edit was judged for a moment after its signature had ended', async () => {
    const late = { claims: { iat: SECONDS - 60, exp: SECONDS - 30 } };
    expect(faults(await story(edit({ path: 'b' }, base), late))).toEqual([]);
    expect(faults(await story(undefined, late))).toEqual(['proof-expired 1']);
  });

  test('where a message was sent twice: each was signed anew', async () => {
    const told = await story();
    const [sent] = told.deeds.messages.get('d-1') ?? [];
    const again = { message: { ...(sent?.message as object), signature: 'another' }, at: START };
    told.deeds.messages.set('d-1', [again, ...(sent === undefined ? [] : [sent])]);
    expect(faults(told)).toEqual([]);
  });
});

describe('a decision that was forged is found', () => {
  test.each<readonly [string, string, Forgery]>([
    ['the ledger names no signature', 'proof-unsigned', { fact: { signature: undefined } }],
    ['its key is not in the file', 'proof-foreign-key', { key: stranger }],
    ['its key is one of another tenant', 'proof-foreign-key', { key: elsewhere }],
    ['its key may speak for somebody else only', 'proof-not-entitled', { key: ben }],
    ['it was signed with another key under a known name', 'proof-altered', { key: { ...stranger, kid: 'ann-1' } }],
    ['for another purpose', 'proof-altered', { claims: { purpose: 'say' } }],
    ['for another namespace', 'proof-altered', { claims: { namespace: 'other' } }],
    ['for another tenant', 'proof-altered', { claims: { tenant: 'other' } }],
    ['for another run', 'proof-altered', { claims: { workflowId: 'other' } }],
    ['for another Temporal run', 'proof-altered', { claims: { runId: 'other' } }],
    ['for another message', 'proof-altered', { claims: { payload: 'a'.repeat(64) } }],
    ['under another id', 'proof-altered', { claims: { jti: 'd-2' } }],
    ['by another person', 'proof-altered', { claims: { sub: 'ben' } }],
    ['with other groups', 'proof-altered', { claims: { groups: [] } }],
    ['for longer than a signature lasts', 'proof-altered', { claims: { exp: SECONDS + 7_200 } }],
    ['the message was changed', 'proof-altered', { sent: { comment: 'changed' } }],
    ['the message is no decision', 'proof-altered', { sent: { kind: 'shrug' } }],
    ['history has it without a signature', 'proof-altered', { signature: null }],
    ['it had ended', 'proof-expired', { claims: { iat: SECONDS - 100, exp: SECONDS } }],
    ['it had not begun', 'proof-expired', { claims: { iat: SECONDS + 40, exp: SECONDS + 100 } }],
    ['the entry says an earlier time than history has', 'proof-expired', { at: START + 3_600_000 }],
  ])('%s', async (_what, kind, forged) => {
    expect(faults(await story(undefined, forged))).toEqual([`${kind} 1`]);
  });

  test.each([{ kid: 'ben-1' }, { jti: 'd-2' }, { iss: 'other' }, { sha256: 'a'.repeat(64) }])(
    'an entry that names %j of its signature',
    async (over) => {
      const told = await story();
      const entries = told.entries.map((entry) => {
        const { signature } = entry.fact;
        // Sound: an object may be read at any name.
        const named = { ...(signature as object), ...over };
        return signature === undefined ? entry : { ...entry, fact: { ...entry.fact, signature: named } };
      });
      expect(faults({ ...told, entries })).toEqual(['proof-altered 1']);
    },
  );

  test.each<readonly [string, Decision, object]>([
    ['decision', rejection({ ...base }), { decision: 'approve' }],
    ['call', approval(base), { callId: 't9.c0' }],
    ['approver', approval(base), { approver: { id: 'acme|ben', groups: [] } }],
    ['list of groups', approval(base), { approver: { ...ANN, groups: ['admins'] } }],
    ['digest', approval(base), { digest: 'd'.repeat(64) }],
    ['Temporal run', approval(base), { runId: 'run-9' }],
    ['comment', approval({ ...base, comment: 'no' }), { comment: 'yes' }],
    ['comment', rejection(base), { comment: 'yes' }],
    ['deadline', extension(base), { until: '2030-01-01T00:00:00.000Z' }],
    ['change of arguments', edit({ path: 'b' }, base), { edited: undefined }],
    ['answer', answer(base), { answerHash: 'd'.repeat(64) }],
    ['scope', approval(base), { remember: { scope: 'tool' } }],
  ])('an entry that says another %s than was signed', async (part, decision, fact) => {
    expect(check(await story(decision, { fact })).faults).toEqual([
      { kind: 'proof-altered', seq: 1, reason: expect.stringContaining(`another ${part} `) },
    ]);
  });

  test('a key that may claim fewer groups, or was replaced before', async () => {
    const told = await story();
    const over = (asserted: object): readonly TrustedJwk[] => [
      { ...ann.entry, countersign: { ...ann.entry.countersign, ...asserted } },
    ];
    // The start claims no group.
    expect(faults(told, over({ groups: [] }))).toEqual(['proof-not-entitled 1']);
    const retired = new Date(START - 60_000).toISOString();
    expect(faults(told, over({ retired }))).toEqual(['proof-not-entitled 0', 'proof-not-entitled 1']);
  });

  test('one that nobody sent, and one whose id alone was sent', async () => {
    const told = await story();
    expect(faults({ ...told, deeds: { ...told.deeds, messages: new Map() } })).toEqual(['proof-altered 1']);
    const bare = new Map([['d-1', [{ message: { decisionId: 'd-1' }, at: START }]]]);
    expect(faults({ ...told, deeds: { ...told.deeds, messages: bare } })).toEqual(['proof-altered 1']);
  });
});

describe('a start that was forged is found', () => {
  test.each<readonly [string, string, Forgery]>([
    ['nobody signed it', 'proof-unsigned', { signature: null }],
    ['its key is not in the file', 'proof-foreign-key', { key: stranger }],
    ['its key may speak for somebody else only', 'proof-not-entitled', { key: ben }],
    ['it was signed for another run', 'proof-altered', { claims: { workflowId: 'other' } }],
    ['a decision was signed, and no start', 'proof-altered', { claims: { purpose: 'decide' } }],
    ['another spec was sent', 'proof-altered', { sent: { input: 'Look away.' } }],
    ['what was sent is no spec', 'proof-altered', { sent: { agent: 1 } }],
    ['the ledger names another initiator', 'proof-altered', { fact: { initiator: 'acme|ben' } }],
    ['the ledger names another spec', 'proof-altered', { fact: { specHash: 'a'.repeat(64) } }],
    ['the run began when the signature had ended', 'proof-expired', { at: START + 60_000 }],
  ])('%s', async (_what, kind, start) => {
    expect(faults(await story(undefined, {}, start))).toEqual([`${kind} 0`]);
  });

  test('another tenant in the ledger takes the keys of that tenant', async () => {
    expect(faults(await story(undefined, {}, { fact: { tenant: 'another' } }))).toEqual([
      'proof-altered 0',
      'proof-foreign-key 1',
    ]);
  });

  test('a ledger that does not begin with a start', async () => {
    const told = await story();
    expect(faults({ ...told, entries: told.entries.slice(1) })[0]).toBe('proof-unsigned 1');
    expect(check({ ...told, entries: [] })).toEqual({ faults: [], checked: 0, unchecked: 0 });
  });
});

describe('what was not verified is counted', () => {
  let told: Story;
  beforeAll(async () => {
    told = await story();
  });

  test('entries of executions that Temporal has forgotten; when they began is not known either', async () => {
    // As a run hands its spec over: without what was asked first.
    const start = { spec: { ...Object(told.deeds.start.spec), input: [] } };
    const deeds = { ...told.deeds, from: 2, start, messages: new Map() };
    expect(check({ ...told, deeds })).toEqual({ faults: [], checked: 0, unchecked: 2 });
    expect(check({ ...told, deeds: { ...told.deeds, start } })).toEqual({ faults: [], checked: 1, unchecked: 1 });
  });

  test('all of a copy alone; that a key may not sign such a decision is seen all the same', async () => {
    expect(checkNamedKeys(told.entries, TRUSTED)).toEqual({ faults: [], checked: 0, unchecked: 2 });
    const named = async (forged: Forgery) =>
      checkNamedKeys((await story(undefined, forged)).entries, TRUSTED).faults.map(({ kind, seq }) => `${kind} ${seq}`);
    expect(await named({ fact: { signature: undefined } })).toEqual(['proof-unsigned 1']);
    expect(await named({ key: stranger })).toEqual(['proof-foreign-key 1']);
    expect(await named({ key: ben })).toEqual(['proof-not-entitled 1']);
    expect(await named({ key: backend })).toEqual([]);
    expect(await named({ key: backend, fact: { approver: { id: 'other|ann', groups: [] } } })).toEqual([
      'proof-not-entitled 1',
    ]);
    expect(await named({ fact: { approver: { ...ANN, groups: ['admins'] } } })).toEqual(['proof-not-entitled 1']);
  });

  test('where nobody gave keys: the signatures that are named', () => {
    expect(namedSignatures(told.entries)).toBe(1);
  });
});
