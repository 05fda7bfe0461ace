/** When a token is bound to a key, which answers count, and when a refused request may be sent again (RFC 9449). */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { SenderConstrained } from '../../../../contracts/schemas/credentials.ts';
import {
  asksForNonce,
  type Challenge,
  constraintOf,
  declinesProofs,
  type Refusing,
  takesBoundTokens,
  wantsBoundToken,
} from '../../../../domain/policy/sender-constraint.ts';
import { forAll } from '../../../support/for-all.ts';

const mode = fc.constantFrom<SenderConstrained>('required', 'preferred', 'off');
const algorithms = fc.oneof(
  fc.constant(undefined),
  fc.anything(),
  fc.array(fc.constantFrom('ES256', 'RS256', 'EdDSA')),
);
const facts = fc.record({ algorithms, wanted: fc.boolean(), declined: fc.boolean() });

describe('whether a token is requested for a key', () => {
  test('required always, off never, whatever servers say', () => {
    forAll(facts, (said) => {
      expect(wantsBoundToken('required', said)).toBe(true);
      expect(wantsBoundToken('off', said)).toBe(false);
    });
  });

  test.each([
    [{ algorithms: ['ES256'], wanted: false, declined: false }, true],
    [{ algorithms: ['RS256', 'ES256'], wanted: false, declined: false }, true],
    [{ algorithms: ['RS256'], wanted: false, declined: false }, false],
    [{ algorithms: 'ES256', wanted: false, declined: false }, false],
    [{ algorithms: [], wanted: false, declined: false }, false],
    [{ algorithms: undefined, wanted: false, declined: false }, false],
    [{ algorithms: ['ES256'], wanted: false, declined: true }, false],
    [{ algorithms: undefined, wanted: true, declined: false }, true],
    [{ algorithms: ['ES256'], wanted: true, declined: true }, true],
  ])('preferred, by %j: %s', (said, wanted) => {
    expect(wantsBoundToken('preferred', said)).toBe(wanted);
  });

  test('preferred: without a word of issuer or server there is no key, and a word takes away no key', () => {
    forAll(facts, (said) => {
      if (wantsBoundToken('preferred', said)) expect(said.wanted || Array.isArray(said.algorithms)).toBe(true);
      if (said.wanted) expect(wantsBoundToken('preferred', said)).toBe(true);
    });
  });
});

describe('what a server says of itself', () => {
  test.each([
    [{ dpop_bound_access_tokens_required: true }, true],
    [{ dpop_bound_access_tokens_required: true, dpop_signing_alg_values_supported: [] }, true],
    [{ dpop_signing_alg_values_supported: ['RS256', 'ES256'] }, true],
    [{ dpop_signing_alg_values_supported: ['RS256'] }, false],
    [{ dpop_signing_alg_values_supported: 'ES256' }, false],
    [{ dpop_bound_access_tokens_required: 'true' }, false],
    [{}, false],
  ])('%j: %s', (metadata, takes) => {
    expect(takesBoundTokens(metadata)).toBe(takes);
  });
});

describe('which tokens count', () => {
  const type = fc.oneof(fc.constantFrom('bearer', 'dpop', 'n_a', 'mac'), fc.string());
  const key = fc.constantFrom('ours', 'theirs', '', undefined);

  test('required: no bearer token is ever used', () => {
    forAll(fc.constantFrom('ours', undefined), type, key, (ours, given, named) => {
      expect(constraintOf('required', ours, { type: given, key: named })).not.toBe('bearer');
    });
  });

  test('bound is only what was requested for a key and names no other', () => {
    forAll(mode, fc.constantFrom('ours', undefined), type, key, (wanted, ours, given, named) => {
      if (constraintOf(wanted, ours, { type: given, key: named }) !== 'bound') return;
      expect([given, ours, named === undefined || named === 'ours']).toEqual(['dpop', 'ours', true]);
    });
  });

  test.each<[SenderConstrained, string | undefined, string, string | undefined, string]>([
    ['preferred', 'ours', 'dpop', 'ours', 'bound'],
    ['required', 'ours', 'dpop', undefined, 'bound'],
    ['preferred', 'ours', 'dpop', 'theirs', 'foreign-key'],
    ['preferred', 'ours', 'dpop', '', 'foreign-key'],
    ['preferred', 'ours', 'bearer', undefined, 'bearer'],
    ['off', undefined, 'bearer', 'theirs', 'bearer'],
    ['required', 'ours', 'bearer', 'ours', 'unbound'],
    ['off', undefined, 'dpop', 'theirs', 'unknown-type'],
    ['preferred', 'ours', 'mac', undefined, 'unknown-type'],
  ])('%s, for the key %s: a token of type %s that names %s is %s', (wanted, ours, given, named, constraint) => {
    expect(constraintOf(wanted, ours, { type: given, key: named })).toBe(constraint);
  });
});

describe('whether a request may be sent again', () => {
  const challenge: fc.Arbitrary<Challenge> = fc.record({
    scheme: fc.constantFrom('dpop', 'bearer', 'basic'),
    parameters: fc.record({ error: fc.constantFrom('use_dpop_nonce', 'invalid_token', undefined) }),
  });
  const refusing: fc.Arbitrary<Refusing> = fc.record({
    status: fc.oneof(fc.constantFrom(401, 400, 403, 200, 202, 500, 503), fc.integer({ min: 100, max: 599 })),
    challenges: fc.array(challenge, { maxLength: 3 }),
    nonce: fc.constantFrom(null, '', 'n-1'),
  });

  test('INV-X1: only a 401 that asks for a nonce and gives one proves that nothing was done', () => {
    forAll(refusing, (refused) => {
      const { status, challenges, nonce } = refused;
      const said = challenges.filter(({ scheme }) => scheme === 'dpop').map(({ parameters }) => parameters.error);
      expect(asksForNonce(refused)).toBe(status === 401 && nonce === 'n-1' && said.includes('use_dpop_nonce'));
    });
  });

  test.each([
    ['a nonce', 'n-1', true],
    ['an empty one', '', false],
    ['none', null, false],
  ])('a challenge with %s asks for it: %s is %s', (_, nonce, expected) => {
    const challenges = [{ scheme: 'dpop', parameters: { error: 'use_dpop_nonce' } }];
    expect(asksForNonce({ status: 401, challenges, nonce })).toBe(expected);
  });

  test('a server declines proofs only by a refusal in which it offers none; then it asks for no nonce', () => {
    forAll(refusing, (refused) => {
      const offers = refused.challenges.some(({ scheme }) => scheme === 'dpop');
      expect(declinesProofs(refused)).toBe(refused.status === 401 && !offers);
      expect(declinesProofs(refused) && asksForNonce(refused)).toBe(false);
    });
  });
});
