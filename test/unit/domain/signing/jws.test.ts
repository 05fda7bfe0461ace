/** What is a signature here, and what only looks like one (§3.3, F22). */
import { describe, expect, test } from '@jest/globals';
import {
  claimOf,
  doubledIn,
  isSignedBy,
  type Jws,
  readJws,
  signatureEvidence,
  trustedKeysFor,
  wasGoodAt,
} from '../../../../domain/signing/jws.ts';
import { sha256Hex } from '../../../../domain/text/canonical.ts';
import { person, service, signedWith } from '../../../support/signing/people.ts';

const ann = person('ann', 'ann');
const ben = person('ben', 'ben');

function jwsIn(text: string): Jws {
  const read = readJws(text);
  if (read.kind === 'bad') throw new Error(read.reason);
  return read.jws;
}

const part = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url');

describe('a signature of another library', () => {
  test('is read and verified', async () => {
    const text = await signedWith(ann, { jti: 'a', text: 'zwölf 🙂' });
    const jws = jwsIn(text);
    expect(jws).toMatchObject({ kid: 'ann', claims: { jti: 'a', text: 'zwölf 🙂' } });
    expect(isSignedBy(jws, ann.entry.x)).toBe(true);
  });

  test('is of one key only', async () => {
    expect(isSignedBy(jwsIn(await signedWith(ann, {})), ben.entry.x)).toBe(false);
  });

  test('covers header and claims', async () => {
    const [header = '', , signature = ''] = (await signedWith(ann, { jti: 'a' })).split('.');
    expect(isSignedBy(jwsIn(`${header}.${part({ jti: 'b' })}.${signature}`), ann.entry.x)).toBe(false);
    const [, claims = ''] = (await signedWith(ann, { jti: 'a' })).split('.');
    const other = part({ alg: 'EdDSA', kid: 'ben', typ: 'countersign+jws' });
    expect(isSignedBy(jwsIn(`${other}.${claims}.${signature}`), ann.entry.x)).toBe(false);
  });
});

test.each([
  ['a low-order key, for which anything verifies', 'AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA'],
  ['bytes that are no point', Buffer.alloc(32, 0xff).toString('base64url')],
  ['a key that is too short', 'AQ'],
  ['what is no base64url', '='.repeat(43)],
])('INV-G4: %s verifies nothing', async (_what, x) => {
  const [header = '', claims = ''] = (await signedWith(ann, {})).split('.');
  const zero = Buffer.alloc(64);
  zero[0] = 1;
  expect(isSignedBy(jwsIn(`${header}.${claims}.${zero.toString('base64url')}`), x)).toBe(false);
});

describe('refused as they are', () => {
  const end = Buffer.alloc(64).toString('base64url');
  const header = { alg: 'EdDSA', kid: 'ann', typ: 'countersign+jws' };
  test.each([
    ['alg none', { ...header, alg: 'none' }],
    ['a symmetric algorithm', { ...header, alg: 'HS256' }],
    ['no algorithm', { kid: 'ann', typ: 'countersign+jws' }],
    ['the type of another service', { ...header, typ: 'JWT' }],
    ['no key id', { alg: 'EdDSA', typ: 'countersign+jws' }],
    ['a key id that is no text', { ...header, kid: 1 }],
    ['a key that it brings along', { ...header, jwk: ann.entry }],
    ['a key somewhere else', { ...header, x5u: 'https://example.com' }],
    ['a demand', { ...header, crit: ['b64'], b64: false }],
    ['a list', []],
  ])('%s', (_what, stated) => {
    expect(readJws(`${part(stated)}.${part({})}.${end}`).kind).toBe('bad');
  });

  test.each([
    ['two parts', `${part(header)}.${part({})}`],
    ['four parts', `${part(header)}.${part({})}.${end}.`],
    ['no text', ''],
    ['a signature of another length', `${part(header)}.${part({})}.AAAA`],
    ['a signature that is no base64url', `${part(header)}.${part({})}.${'='.repeat(86)}`],
    ['claims that are a list', `${part(header)}.${part([])}.${end}`],
    ['claims that are no JSON', `${part(header)}.${Buffer.from('{').toString('base64url')}.${end}`],
    ['claims that are no UTF-8', `${part(header)}._w.${end}`],
    ['a header that is no base64url', `=.${part({})}.${end}`],
    ['what is too long', `${part(header)}.${'A'.repeat(16_384)}.${end}`],
  ])('%s', (_what, text) => {
    expect(readJws(text).kind).toBe('bad');
  });
});

test('what the ledger keeps of a signature is its key, id, issuer and hash, and of nonsense nothing that matters', async () => {
  const text = await signedWith(ann, { jti: 'd-1', iss: 'acme', runId: 'r', iat: 1, exp: 2 });
  expect(signatureEvidence(text)).toEqual({ kid: 'ann', jti: 'd-1', iss: 'acme', sha256: sha256Hex(text) });
  expect(signatureEvidence('')).toMatchObject({ kid: '' });
  expect(claimOf(text, 'runId')).toBe('r');
  expect(claimOf('', 'runId')).toBeUndefined();
  expect(claimOf(await signedWith(ann, { runId: 1 }), 'runId')).toBeUndefined();
});

test('it may be used from when to when it says, but for a clock that is ahead and the time it takes to record', async () => {
  const text = await signedWith(ann, { iat: 100, exp: 200 });
  expect([69, 70, 199, 200].map((at) => wasGoodAt(text, at))).toEqual([false, true, true, false]);
  expect([259, 260].map((at) => wasGoodAt(text, at, 60))).toEqual([true, false]);
  expect(wasGoodAt(text, Number.NaN)).toBe(false);
  expect(wasGoodAt('', 100)).toBe(false);
  expect(wasGoodAt(await signedWith(ann, {}), 100)).toBe(false);
});

/** Keys as those who verify hold them: of one tenant, and each once (INV-G4). */
describe('trusted keys', () => {
  const hers = person('ann', 'ann', ['ops']).entry;
  const backend = service('backend', [], {
    speaksForMany: true,
    holder: 'b',
    retired: '2026-01-01T00:00:00.000Z',
    tenants: ['one'],
  }).entry;

  test('a tenant has its own keys and no others', () => {
    expect(trustedKeysFor([hers, backend], 'default')).toEqual([
      { kid: 'ann', x: hers.x, iss: 'acme', sub: 'ann', groups: ['ops'] },
    ]);
    expect(trustedKeysFor([hers, backend], 'one')).toEqual([
      {
        kid: 'backend',
        x: backend.x,
        iss: 'acme',
        groups: [],
        speaksForMany: true,
        holder: 'b',
        retired: 1_767_225_600,
      },
    ]);
    expect(trustedKeysFor([hers, backend], '')).toEqual([]);
  });

  test('a name or a key that stands there twice is named', () => {
    expect(doubledIn([hers, backend])).toBeUndefined();
    expect(doubledIn([hers, { ...backend, kid: 'ann' }])).toBe('keys[1].kid');
    expect(doubledIn([hers, { ...hers, kid: 'other' }])).toBe('keys[1].x');
  });
});
