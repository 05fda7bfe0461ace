/** docs/guide/signing.md: a backend in any language signs what is accepted here. Read by two libraries that are not ours. */
import { createHash, createPrivateKey, sign } from 'node:crypto';
import { expect, test } from '@jest/globals';
import canonicalize from 'canonicalize';
import { compactVerify, importJWK } from 'jose';
import { createSigner } from '../../../client/index.ts';
import { hashOf } from '../../../domain/text/canonical.ts';
import { checkSignature } from '../../../domain/signing/message.ts';
import { blocksOf } from '../../support/guide.ts';

interface Vector {
  readonly key: { readonly kty: string; readonly crv: string; readonly d: string; readonly x: string };
  readonly canonical: string;
  readonly payload: string;
  readonly header: string;
  readonly claims: string;
  readonly signature: string;
}

async function vector(): Promise<Vector> {
  const [block] = (await blocksOf('docs/guide/signing.md', 'json')).slice(-1);
  // Sound: what follows looks at each field.
  return JSON.parse(block?.text ?? '') as Vector;
}

test('the vector of the guide is what Node and jose make of it', async () => {
  const { key, canonical, payload, header, claims, signature } = await vector();
  const message: unknown = JSON.parse(canonical);
  expect(canonicalize(message)).toBe(canonical);
  expect(createHash('sha256').update(canonical).digest('hex')).toBe(payload);
  const input = [header, claims].map((part) => Buffer.from(part).toString('base64url')).join('.');
  const bytes = sign(null, Buffer.from(input), createPrivateKey({ key, format: 'jwk' }));
  expect(`${input}.${bytes.toString('base64url')}`).toBe(signature);
  const { kty, crv, x } = key;
  const read = await compactVerify(signature, await importJWK({ kty, crv, x }, 'EdDSA'));
  expect(new TextDecoder().decode(read.payload)).toBe(claims);
  expect(createSigner('k', key).sign(Buffer.from(input))).toEqual(bytes);
});

test('and it is accepted here', async () => {
  const { key, canonical, signature } = await vector();
  const message = JSON.parse(canonical) as { runId: string; decisionId: string };
  const about = {
    purpose: 'decide',
    namespace: 'default',
    tenant: 'default',
    workflowId: 'ticket-4711',
    runId: message.runId,
    payload: hashOf(message),
    jti: message.decisionId,
    person: 'acme|ann',
    groups: ['ops'],
  } as const;
  const keys = [{ kid: 'ann-2026', x: key.x, iss: 'acme', sub: 'ann', groups: ['ops'] }];
  expect(checkSignature(signature, about, { keys }, 1_780_315_300_000)).toMatchObject({ kind: 'signed', jti: 'd-1' });
});

test('a key that is no Ed25519 key is refused in words that do not show it', () => {
  expect(() => createSigner('k', 'canary')).toThrow(/^(?!.*canary).*no private key/);
  expect(() => createSigner('k', { kty: 'OKP', crv: 'Ed25519', x: 'canary' })).toThrow(/^(?!.*canary).*no private key/);
});
