/** Whom a countersigned token names: one subject is one person of one tenant, and never the service (RFC 7519 §4.1.2). */
import { expect, test } from '@jest/globals';
import { issuedStrategy, type UnsignedClaims } from '../../../../activities/tokens/issued.ts';
import { Config } from '../../../../contracts/schemas/config.ts';
import { IssuedTokens, Issuer } from '../../../../contracts/schemas/credentials.ts';
import { checkConfig } from '../../../../workers/config/checks.ts';
import { requestFor, URL_OF } from '../../../support/oauth/broker.ts';

const KEYS = [{ kid: 'one', privateKeyFile: 'one.pem' }];
const issuer = Issuer.parse({ url: 'https://countersign.example.com', keys: KEYS });

async function subjectOf(id: string, tenant = 'default'): Promise<string> {
  const signed: UnsignedClaims[] = [];
  const sign = async (claims: UnsignedClaims) => {
    signed.push(claims);
    return { token: 'x', jti: 'y', expiresAtMs: 0 };
  };
  const credentials = IssuedTokens.parse({ kind: 'issued', resource: URL_OF.notes });
  const strategy = issuedStrategy(credentials, { issuer, sign, trust: 'temporal' });
  await strategy.mint({ ...requestFor('notes'), initiator: { id, tenant } });
  return String(signed[0]?.sub);
}

test.each([
  ['ann', 'default', 'ann'],
  ['https://login.example.com|ann', 'default', 'https://login.example.com|ann'],
  ['ann', 'acme', 'acme/ann'],
  ['acme/ann', 'default', 'default/acme/ann'],
  ['x/ann', 'acme', 'acme/x/ann'],
  ['ann', 'acme/x', 'acme%2Fx/ann'],
  ['ann', 'https://acme', 'https%3A%2F%2Facme/ann'],
  ['countersign', 'default', 'default/countersign'],
])('%s of tenant %s is %s', async (id, tenant, subject) => {
  expect(await subjectOf(id, tenant)).toBe(subject);
});

test('no two people have one subject, and none has that of the service', async () => {
  const parts = ['ann', 'acme', 'acme/ann', 'default', 'default/ann', 'a%2Fb', 'a/b', '/', '%', 'countersign', 'a|b/c'];
  const pairs = parts.flatMap((id) => parts.map((tenant) => [id, tenant] as const));
  const subjects = await Promise.all(pairs.map(async ([id, tenant]) => await subjectOf(id, tenant)));
  expect(new Set(subjects).size).toBe(pairs.length);
  expect(subjects).not.toContain(issuer.clientId);
});

test.each([
  [{ url: 'https://c.example.com/path' }, /issuer\.url must be an origin/],
  [{ url: 'https://c.example.com?x=1' }, /issuer\.url must be an origin/],
  [{ url: 'https://c.example.com', clientId: 'acme/agent' }, /issuer\.clientId must not begin like TENANT/],
])('an issuer %j is refused at start: nobody would find its keys, or tell it from a person', (over, reason) => {
  expect(() => checkConfig(Config.parse({ issuer: { ...over, keys: KEYS } }), 'configuration')).toThrow(reason);
});

test.each(['https://c.example.com', 'https://c.example.com/'])('an issuer at %s is taken', (url) => {
  const clientId = 'https://c.example.com/agent';
  expect(() => checkConfig(Config.parse({ issuer: { url, clientId, keys: KEYS } }), 'configuration')).not.toThrow();
});
