/** Sessions in cookies: whom they name, which gateways believe them, and how much they hold. */
import { randomBytes } from 'node:crypto';
import { expect, test } from '@jest/globals';
import { GatewayConfig, type GatewayConfigInput } from '../../../contracts/schemas/gateway.ts';
import type { AskProvider } from '../../../gateway/identity/keys.ts';
import { ProviderKeys } from '../../../gateway/identity/keys.ts';
import { People } from '../../../gateway/identity/person.ts';
import { Sessions } from '../../../gateway/identity/sessions.ts';
import { codeOf, refusalOf } from '../../support/refusal.ts';

const ISSUER = 'https://login.example.com';
const SHARED = randomBytes(32).toString('base64');
const CONFIG: GatewayConfigInput = {
  oidc: { issuer: ISSUER, audience: 'countersign', tenant: 'acme' },
  signIn: {
    publicUrl: 'https://countersign.example.com',
    clientId: 'gateway',
    keys: [{ id: 'shared', key: SHARED }],
  },
};

const metadata = async (): Promise<Response> =>
  await Promise.resolve(
    Response.json({ issuer: ISSUER, authorization_endpoint: `${ISSUER}/authorize`, token_endpoint: `${ISSUER}/token` }),
  );

function sessionsOf(over: GatewayConfigInput = {}, ask: AskProvider = metadata): Sessions {
  const config = GatewayConfig.parse({ ...CONFIG, ...over });
  if (config.oidc === undefined) throw new Error('no provider');
  return new Sessions(config, new People(config.may), new ProviderKeys(config.oidc, ask), ask);
}

test('a session of the development login counts in its own process alone, whatever keys are shared', async () => {
  const development = sessionsOf({ development: true });
  const { value } = await development.sessionOf({ id: 'root', groups: ['admins'], tenant: 'acme' });
  expect(await development.askerOf(value)).toMatchObject({ id: 'root', groups: ['admins'], tenant: 'acme' });
  expect(await codeOf(sessionsOf().askerOf(value))).toBe('SIGN_IN_REQUIRED');
  expect(await codeOf(sessionsOf({ development: true }).askerOf(value))).toBe('SIGN_IN_REQUIRED');
});

test('a gateway without the development login makes no such session', async () => {
  expect(await codeOf(sessionsOf().sessionOf({ id: 'root', groups: [], tenant: 'acme' }))).toBe('ACTION_FORBIDDEN');
});

test('what a browser would not keep is refused in words, so that nobody signs in for ever', async () => {
  const development = sessionsOf({ development: true });
  const groups = Array.from({ length: 1_000 }, (_, index) => `group-${index}`);
  const refusal = await refusalOf(development.sessionOf({ id: 'ann', groups, tenant: 'acme' }));
  expect(refusal.code).toBe('ACTION_FORBIDDEN');
  expect(refusal.message).toContain('fewer groups');
  const { value } = await development.sessionOf({ id: 'ann', groups: groups.slice(0, 150), tenant: 'acme' });
  expect(value.length).toBeLessThanOrEqual(3_800);
});

test('many who begin to sign in cause one question to the provider, which has a deadline', async () => {
  const asked: (AbortSignal | null | undefined)[] = [];
  const sessions = sessionsOf({}, async (_, init) => {
    asked.push(init?.signal);
    return await metadata();
  });
  const begun = await Promise.all([sessions.begin('/'), sessions.begin('/a')]);
  begun.push(await sessions.begin('/b'));
  for (const { location } of begun) expect(location).toContain(`${ISSUER}/authorize?`);
  expect(asked).toEqual([expect.any(AbortSignal)]);
});

test('metadata that could not be read are asked for again', async () => {
  let isAway = true;
  const sessions = sessionsOf({}, async () => {
    if (isAway) throw new Error('away');
    return await metadata();
  });
  expect(await codeOf(sessions.begin('/'))).toBe('TRUST_UNAVAILABLE');
  isAway = false;
  expect((await sessions.begin('/')).location).toContain(ISSUER);
});

test.each([
  ['https://countersign.example.com', true],
  ['http://127.0.0.1:8235', true],
  ['http://localhost:8235/', true],
  ['http://[::1]:8235', true],
  ['http://countersign.example.com', false],
  ['http://localhost.example.com', false],
  ['http://localhost@evil.example', false],
])('browsers keep sessions of %s: %s', (publicUrl, isKept) => {
  const read = GatewayConfig.safeParse({ signIn: { publicUrl, clientId: 'gateway' } });
  expect(read.success).toBe(isKept);
});
