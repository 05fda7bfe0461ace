/** What a signature proves, and what not: every part of it, changed one at a time (D-7, D-8, F20, F22). */
import { describe, expect, test } from '@jest/globals';
import type { TrustedKey, TrustSet } from '../../../../contracts/schemas/trust.ts';
import {
  checkSignature,
  isSameVoice,
  maySend,
  openMessage,
  type SignedFor,
} from '../../../../domain/signing/message.ts';
import { hashOf } from '../../../../domain/text/canonical.ts';
import {
  claimsFor,
  person,
  service,
  signedWith,
  type TestClaims,
  type TestKey,
} from '../../../support/signing/people.ts';

const NOW = Date.parse('2026-06-01T12:00:00.000Z');
const iat = NOW / 1_000;
const ann = person('ann-1', 'ann', ['ops', 'audit']);
const backend = service('backend', ['ops']);

function keyOf({ entry: { kid, x, countersign } }: TestKey, over: Partial<TrustedKey> = {}): TrustedKey {
  const { iss, groups } = countersign;
  return { kid, x, iss, groups, ...(countersign.kind === 'person' ? { sub: countersign.sub } : {}), ...over };
}
const senders = { initiator: true, ids: [], groups: [] };
const trust: TrustSet = {
  keys: [keyOf(ann), keyOf(backend)],
  may: { say: senders, stop: senders },
  maxAgeSeconds: 900,
};

const message = { decisionId: 'd-1', kind: 'approve' };
const about: SignedFor = {
  purpose: 'decide',
  namespace: 'default',
  tenant: 'default',
  workflowId: 'run-1',
  runId: 'exec-1',
  payload: hashOf(message),
  jti: 'd-1',
  person: 'acme|ann',
  groups: ['ops'],
};
const { payload: _, jti: __, person: ___, ...where } = about;
const honest = claimsFor(message, { ...where, iss: 'acme', sub: 'ann' }, { iat, exp: iat + 300, jti: 'd-1' });

interface Asked {
  readonly key?: TestKey;
  readonly said?: SignedFor;
  readonly believed?: TrustSet;
  readonly now?: number | 'dispatch';
}

async function answer(
  over: TestClaims = {},
  { key = ann, said = about, believed = trust, now = NOW }: Asked = {},
): Promise<string> {
  const checked = checkSignature(
    await signedWith(key, { ...honest, ...over }),
    said,
    believed,
    now === 'dispatch' ? undefined : now,
  );
  return checked.kind === 'signed' ? 'signed' : `${checked.code} ${String(checked.facts.path ?? '')}`.trim();
}

test('control: what is signed as it should be is believed', async () => {
  expect(await answer()).toBe('signed');
  const checked = checkSignature(await signedWith(ann, honest), about, trust, NOW);
  expect(checked).toMatchObject({ kind: 'signed', jti: 'd-1', iss: 'acme', groups: ['ops'], key: { kid: 'ann-1' } });
});

describe('INV-G2: a signature for something else is none', () => {
  test.each([
    ['purpose', { purpose: 'stop' }],
    ['namespace', { namespace: 'other' }],
    ['tenant', { tenant: 'other' }],
    ['workflowId', { workflowId: 'run-2' }],
    ['runId', { runId: 'exec-2' }],
    ['runId', { runId: undefined }],
    ['payload', { payload: 'f'.repeat(64) }],
    ['jti', { jti: 'd-2' }],
    ['sub', { sub: 'ben' }],
    ['sub', { iss: 'evil' }],
    ['groups', { groups: [] }],
    ['groups', { groups: ['audit'] }],
    ['groups', { groups: ['ops', 'audit'] }],
  ])('for another %s', async (path, over) => {
    expect(await answer(over)).toBe(`SIGNATURE_INVALID ${path}`);
  });

  test.each([
    ['purpose', { purpose: 'anything' }],
    ['iat', { iat: 'now' }],
    ['exp', { exp: undefined }],
    ['groups', { groups: 'ops' }],
    ['admin', { admin: true }],
  ])('with a claim %s that is none', async (path, over) => {
    expect(await answer(over)).toBe(`SIGNATURE_INVALID ${path}`);
  });

  test('without any', () => {
    expect(checkSignature(undefined, about, trust, NOW)).toMatchObject({ code: 'SIGNATURE_MISSING' });
    expect(checkSignature('nonsense', about, trust, NOW)).toMatchObject({ code: 'SIGNATURE_INVALID' });
  });

  test('of a key that is not trusted, by its id or by its id alone', async () => {
    const stranger = person('stranger', 'ann', ['ops']);
    expect(await answer({}, { key: stranger })).toBe('TRUST_KEY_UNKNOWN');
    const impostor = person('ann-1', 'ann', ['ops']);
    expect(await answer({}, { key: impostor })).toBe('SIGNATURE_INVALID');
    const odd = person('odd', 'ann');
    const checked = checkSignature(await signedWith({ ...odd, kid: 'o\nd d' }, honest), about, trust, NOW);
    expect(checked).toMatchObject({ code: 'TRUST_KEY_UNKNOWN', facts: {} });
  });
});

describe('time (F31)', () => {
  test.each([
    ['just before it expires', { iat: iat - 299, exp: iat + 1 }, 'signed'],
    ['when it expires', { iat: iat - 300, exp: iat }, 'SIGNATURE_EXPIRED exp'],
    ['by a clock that is 30 s ahead', { iat: iat + 30, exp: iat + 60 }, 'signed'],
    ['by a clock that is further ahead', { iat: iat + 31, exp: iat + 60 }, 'SIGNATURE_EXPIRED iat'],
    ['for an hour', { exp: iat + 3_600 }, 'signed'],
    ['for longer', { exp: iat + 3_601 }, 'SIGNATURE_INVALID exp'],
    ['for no time', { exp: iat }, 'SIGNATURE_INVALID exp'],
  ])('%s', async (_what, over, expected) => {
    expect(await answer(over)).toBe(expected);
  });

  test('is not asked at dispatch, weeks later', async () => {
    expect(await answer({ iat: 1, exp: 2 }, { now: 'dispatch' })).toBe('signed');
  });

  test('a key that was replaced signs nothing from then on, and what it signed before counts', async () => {
    const retired = { ...trust, keys: [keyOf(ann, { retired: iat })] };
    expect(await answer({}, { believed: retired })).toBe('SIGNER_NOT_ENTITLED');
    expect(await answer({ iat: iat - 1 }, { believed: retired })).toBe('signed');
  });
});

describe('what a key may assert', () => {
  const asService = { key: backend };
  test.each([
    ['anybody of its issuer', { sub: 'eve' }, { ...about, person: 'acme|eve' }, 'signed'],
    ['nobody of another', { iss: 'evil', sub: 'eve' }, { ...about, person: 'evil|eve' }, 'SIGNER_NOT_ENTITLED'],
    ['no group that is not listed', { groups: ['audit'] }, { ...about, groups: ['audit'] }, 'SIGNER_NOT_ENTITLED'],
  ])('a service: %s', async (_what, over, said, expected) => {
    expect(await answer(over, { ...asService, said })).toBe(expected);
  });

  test('a person: nobody else, and only their groups', async () => {
    expect(await answer({ sub: 'ben' }, { said: { ...about, person: 'acme|ben' } })).toBe('SIGNER_NOT_ENTITLED');
    expect(await answer({ groups: ['root'] }, { said: { ...about, groups: ['root'] } })).toBe('SIGNER_NOT_ENTITLED');
  });

  test('a message that names no groups takes those that were signed', async () => {
    const { groups: _groups, jti: _jti, ...said } = about;
    expect(await answer({ groups: ['audit'] }, { said })).toBe('signed');
    expect(await answer({ groups: ['root'] }, { said })).toBe('SIGNER_NOT_ENTITLED');
  });
});

describe('one key is one voice (F21)', () => {
  const many = { speaksForMany: true } as const;
  const signatures = async (...keys: TestKey[]) => await Promise.all(keys.map((key) => signedWith(key, {})));

  test('unless it speaks for many', async () => {
    const [one = '', other = ''] = await signatures(backend, ann);
    expect(isSameVoice(trust, [one], one)).toBe(true);
    expect(isSameVoice(trust, [other], one)).toBe(false);
    expect(isSameVoice(trust, [], one)).toBe(false);
    expect(isSameVoice({ keys: [keyOf(backend, many)] }, [one], one)).toBe(false);
  });

  test('nor may two keys of one holder', async () => {
    const next = service('backend-2', ['ops']);
    const [one = '', other = ''] = await signatures(backend, next);
    const keys = [keyOf(backend, { holder: 'b' }), keyOf(next, { holder: 'b' })];
    expect(isSameVoice({ keys }, [one], other)).toBe(true);
    const mixed = [keyOf(backend, { holder: 'b', ...many }), keyOf(next, { holder: 'b' })];
    expect(isSameVoice({ keys: mixed }, [one], other)).toBe(true);
  });

  test('nor what is no signature, or of a key that is gone', async () => {
    const [one = ''] = await signatures(person('gone', 'gone'));
    expect(isSameVoice(trust, [one], one)).toBe(true);
    expect(isSameVoice(trust, [''], '')).toBe(true);
  });
});

test('who may send what is no decision: the initiator, or whom the operator lists (INV-G4)', () => {
  const may = (over: object) => ({ may: { say: senders, stop: { ...senders, ...over } } });
  expect(maySend('stop', may({}), 'acme|ann', 'acme|ann', [])).toBe(true);
  expect(maySend('stop', may({}), 'acme|ann', 'acme|ben', ['ops'])).toBe(false);
  expect(maySend('stop', may({ initiator: false }), 'acme|ann', 'acme|ann', [])).toBe(false);
  expect(maySend('stop', may({ ids: ['acme|ben'] }), 'acme|ann', 'acme|ben', [])).toBe(true);
  expect(maySend('stop', may({ groups: ['ops'] }), 'acme|ann', 'acme|ben', ['ops'])).toBe(true);
  expect(maySend('say', may({ groups: ['ops'] }), 'acme|ann', 'acme|ben', ['ops'])).toBe(false);
});

test.each([
  [
    { a: 1, signature: 's' },
    { message: { a: 1 }, signature: 's' },
  ],
  [{ a: 1 }, { message: { a: 1 } }],
  [{ a: 1, signature: 2 }, { message: { a: 1, signature: 2 } }],
  [null, { message: null }],
  [['x'], { message: ['x'] }],
  ['x', { message: 'x' }],
])('opening %j', (input, expected) => {
  expect(openMessage(input)).toEqual(expected);
});
