/** A change of a catalog in trust mode `signed`: whose it is, and one key is one voice (INV-G2). */
import { beforeAll, describe, expect, test } from '@jest/globals';
import { defined } from '../../../../contracts/defined.ts';
import type { PendingChange } from '../../../../contracts/schemas/catalog.ts';
import type { LedgerFact } from '../../../../contracts/schemas/ledger.ts';
import type { CatalogPurpose } from '../../../../contracts/schemas/trust.ts';
import { agreed, opened } from '../../../../domain/catalog/pending.ts';
import { checkAsked, checkSignedChange, refuseSameVoice, witnessed } from '../../../../domain/catalog/signed-change.ts';
import { signatureEvidence } from '../../../../domain/signing/jws.ts';
import { hashOf } from '../../../../domain/text/canonical.ts';
import {
  catalogDecision,
  catalogEntry,
  catalogOf,
  catalogRules,
  planOf,
  taken,
  toolSetting,
} from '../../../support/builders/catalog.ts';
import { claimsFor, person, signedWith, type TestKey } from '../../../support/signing/people.ts';

const [ann, ben] = [person('ann', 'ann', ['ops']), person('ben', 'ben')];
const keys = [ann, ben].map(({ entry: { kid, x, countersign } }) => ({
  kid,
  x,
  iss: 'acme',
  sub: kid,
  groups: countersign.groups,
}));
const trust = { keys };
const by = { id: 'acme|ann', groups: ['ops'] };
const place = { namespace: 'default', tenant: 'default', server: 'files', runId: 'exec-1' };
const message = { requestId: 'r-1', by, expectedVersion: 1 };

async function signedBy(key: TestKey, purpose: CatalogPurpose = 'catalog.setToolPolicies', over: object = {}) {
  const about = { ...place, server: undefined, workflowId: 'catalog/default/files', iss: 'acme', sub: 'ann' };
  const claims = claimsFor(message, { ...about, purpose, groups: ['ops'] }, { jti: 'r-1', ...over });
  return await signedWith(key, claims);
}

const fields = (signature: string | undefined) =>
  ({ purpose: 'catalog.setToolPolicies', requestId: 'r-1', payload: hashOf(message), signature }) as const;

describe('a signed change', () => {
  test('is believed as it was signed', async () => {
    const signature = await signedBy(ann);
    expect(checkSignedChange(fields(signature), by, place, trust, Date.now())).toMatchObject({ kind: 'signed' });
  });

  test('unsigned it is not', () => {
    expect(checkSignedChange(fields(undefined), by, place, trust, Date.now())).toMatchObject({
      code: 'SIGNATURE_MISSING',
    });
  });

  test.each([
    ['for another catalog', { workflowId: 'catalog/default/bank' }, 'workflowId'],
    ['for another tenant', { tenant: 'theirs' }, 'tenant'],
    ['for another Temporal run', { runId: 'exec-2' }, 'runId'],
    ['in another namespace', { namespace: 'other' }, 'namespace'],
    ['to refresh', { purpose: 'catalog.refresh' }, 'purpose'],
    ['to decide a call', { purpose: 'decide' }, 'purpose'],
    ['for another request', { jti: 'r-2' }, 'jti'],
    ['by somebody else', { sub: 'ben' }, 'sub'],
    ['with other groups', { groups: [] }, 'groups'],
  ])('%s it is not', async (_, over, path) => {
    const signature = await signedBy(ann, 'catalog.setToolPolicies', over);
    expect(checkSignedChange(fields(signature), by, place, trust, Date.now())).toMatchObject({
      code: 'SIGNATURE_INVALID',
      facts: { path },
    });
  });

  test('with groups that are not of the key it is not', async () => {
    const root = { ...by, groups: ['root'] };
    const signature = await signedBy(ann, 'catalog.setToolPolicies', { groups: ['root'] });
    expect(checkSignedChange(fields(signature), root, place, trust, Date.now())).toMatchObject({
      code: 'SIGNER_NOT_ENTITLED',
    });
  });
});

describe('whoever asked', () => {
  test.each(['catalog.connect', 'catalog.setToolPolicies'] as const)('%s: is looked at again', async (purpose) => {
    const signature = await signedBy(ann, purpose, { runId: 'exec-0', iat: 1_000, exp: 1_300 });
    expect(checkAsked({ by, signature }, place, trust)).toMatchObject({ kind: 'signed' });
    expect(checkAsked({ by, signature }, place, { keys: [] })).toMatchObject({ code: 'TRUST_KEY_UNKNOWN' });
    expect(checkAsked({ by, signature }, { ...place, server: 'bank' }, trust)).toMatchObject({
      code: 'SIGNATURE_INVALID',
    });
  });

  test('has signed what opens a change', async () => {
    const signature = await signedBy(ann, 'catalog.refresh');
    expect(checkAsked({ by, signature }, place, trust)).toMatchObject({ code: 'SIGNATURE_INVALID' });
  });

  test('has signed', () => {
    expect(checkAsked({ by }, place, trust)).toMatchObject({ code: 'SIGNATURE_MISSING' });
    expect(checkAsked({ by, signature: 'none' }, place, trust)).toMatchObject({ code: 'SIGNATURE_INVALID' });
  });
});

describe('one key is one voice', () => {
  let own: string;
  let other: string;
  beforeAll(async () => {
    own = await signedBy(ann);
    other = await signedBy(ben);
  });
  const pending = (signature?: string) =>
    // Sound: nothing else of it is looked at.
    [{ changeId: 'change-1', ...defined({ signature }) }] as unknown as PendingChange[];
  const approve = { changeId: 'change-1', verdict: 'approve' } as const;

  test('also for another person', () => {
    expect(refuseSameVoice(approve, pending(own), own, trust)).toMatchObject({ code: 'APPROVER_NOT_ENTITLED' });
    expect(refuseSameVoice(approve, pending(own), other, trust)).toBeUndefined();
  });

  test('keys of one holder are one voice', () => {
    const held = { keys: keys.map((key) => ({ ...key, holder: 'acme' })) };
    expect(refuseSameVoice(approve, pending(own), other, held)).toMatchObject({ code: 'APPROVER_NOT_ENTITLED' });
  });

  test('a rejection counts, and what was asked unsigned or is not there is refused elsewhere', () => {
    expect(refuseSameVoice({ ...approve, verdict: 'reject' }, pending(own), own, trust)).toBeUndefined();
    expect(refuseSameVoice(approve, pending(), own, trust)).toBeUndefined();
    expect(refuseSameVoice(approve, [], own, trust)).toBeUndefined();
  });
});

describe('the ledger', () => {
  const digest = 'a'.repeat(64);
  const plain: readonly LedgerFact[] = [
    { kind: 'catalog.disconnected', by, policyVersion: 2 },
    { kind: 'catalog.change-opened', changeId: 'change-2', digest, by, deadline: 'x' },
    { kind: 'catalog.change-closed', changeId: 'change-2', by, status: 'rejected' },
    { kind: 'catalog.change-closed', changeId: 'change-1', by, status: 'expired' },
    { kind: 'catalog.policy', by, policyVersion: 2, changes: [] },
    { kind: 'catalog.policy', by: { id: 'acme|ben', groups: [] }, countersignedBy: by, policyVersion: 2, changes: [] },
    { kind: 'catalog.rolled' },
    {
      kind: 'catalog.connected',
      tenant: 'default',
      server: 'files',
      by,
      connection: { url: 'https://files.example/mcp', trusted: false },
      policyVersion: 1,
    },
  ];

  test('says nothing of signatures where there is none', () => {
    expect(witnessed(plain, by, undefined)).toBe(plain);
  });

  test('names the signature of whoever said it', async () => {
    const text = await signedBy(ann);
    const signature = signatureEvidence(text);
    expect(signature).toMatchObject({ kid: 'ann', jti: 'r-1', iss: 'acme' });
    const facts = witnessed(plain, by, text);
    expect(facts.map((fact) => ('signature' in fact ? fact.signature : undefined))).toEqual([
      signature,
      signature,
      signature,
      undefined,
      signature,
      undefined,
      undefined,
      signature,
    ]);
    expect(facts[5]).toMatchObject({ countersignature: signature });
  });

  test('names both of a change that was agreed to', async () => {
    const asked = await signedBy(ann);
    const catalog = catalogOf([catalogEntry({ setting: toolSetting({ enabled: false }) })]);
    const changes = [{ tool: 'write_file', enabled: true }];
    const administrators = [{ ids: ['acme|ann', 'acme|ben'], groups: [], may: ['loosen' as const] }];
    const open = taken(opened(catalog, { by, changes, signature: asked }, planOf(catalog, changes), 0));
    const [pending] = open.catalog.pending;
    expect(pending).toMatchObject({ signature: asked });
    const decision = catalogDecision({
      by: { id: 'acme|ben', groups: [] },
      changeId: 'change-1',
      digest: pending?.digest ?? '',
    });
    const { facts } = taken(agreed(open.catalog, decision, catalogRules({ administrators }), 0, () => true));
    expect(facts[1]).toMatchObject({ kind: 'catalog.policy', signature: signatureEvidence(asked) });
  });
});
