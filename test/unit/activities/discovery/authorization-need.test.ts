/** What people can do about a call that was turned away, and who (INV-S2, F13, F14). */
import { describe, expect, test } from '@jest/globals';
import { needOf } from '../../../../activities/discovery/access.ts';
import type { CallEnding } from '../../../../activities/mcp/port.ts';
import { defined } from '../../../../contracts/defined.ts';
import { Config } from '../../../../contracts/schemas/config.ts';
import { VAULT_KEYS } from '../../../support/builders/vault.ts';
import { runOf } from '../../../support/oauth/broker.ts';

const scopes = { default: ['read'], tools: { write: ['write'] }, consentable: ['admin', 'write'] };
const client = { issuer: 'https://idp.example.com', clientId: 'a', clientSecret: 'b', scopes };
const url = 'https://notes.example.com/mcp';
const config = Config.parse({
  servers: {
    given: { url },
    none: { url, credentials: { kind: 'none' } },
    minted: { url, credentials: { kind: 'client-credentials', ...client } },
    kept: { url, credentials: { kind: 'refresh', ...client, scopes: { ...scopes, discovery: ['read'] } } },
  },
  credentials: { office: { use: { kind: 'client-credentials', ...client }, origins: ['https://notes.example.com'] } },
  vault: { kind: 'directory', directory: 'vault', keys: VAULT_KEYS },
});
const requestTo = (server: string, over = {}) => ({ run: runOf(1), server, serverUrl: url, tool: 'list', ...over });
type Refused = Extract<CallEnding, { kind: 'refused' }>;
const refused = (code: Refused['code'], requiredScope?: string): Refused => ({
  kind: 'refused',
  code,
  message: 'm',
  ...defined({ requiredScope }),
});

describe('without a token', () => {
  const failed = (code: string) => ({ code, message: 'm' });

  test.each(['GRANT_MISSING', 'GRANT_EXPIRED', 'GRANT_INVALID', 'GRANT_LOST', 'TOKEN_REFUSED'])(
    '%s asks for another grant where the server takes grants, and nowhere else',
    (code) => {
      const need = { reason: code, message: 'm', wants: 'grant' };
      for (const server of ['given', 'kept', 'brought'])
        expect(needOf(config, requestTo(server), failed(code))).toEqual(need);
      for (const server of ['none', 'minted']) expect(needOf(config, requestTo(server), failed(code))).toBeUndefined();
      const named = requestTo('listed', { credentials: { name: 'office', tenant: 'default' } });
      expect(needOf(config, named, failed(code))).toBeUndefined();
    },
  );

  test.each(['GRANT_FORBIDDEN', 'TOKEN_UNAVAILABLE', 'DISPATCH_FORBIDDEN'])('%s is asked of nobody', (code) => {
    expect(needOf(config, requestTo('given'), failed(code))).toBeUndefined();
  });
});

describe('a token that was refused (401)', () => {
  test.each([
    ['given', 'grant'],
    ['kept', 'grant'],
    ['brought', 'grant'],
    ['minted', 'consent'],
  ])('of %s asks for %s', (server, wants) => {
    expect(needOf(config, requestTo(server), refused('TOOL_UNAUTHORIZED'))).toMatchObject({ wants });
  });

  test('of a server without credentials, or with some that nobody configured, is asked of nobody', () => {
    expect(needOf(config, requestTo('none'), refused('TOOL_UNAUTHORIZED'))).toBeUndefined();
    const named = requestTo('listed', { credentials: { name: 'constructor', tenant: 'default' } });
    expect(needOf(config, named, refused('TOOL_UNAUTHORIZED'))).toBeUndefined();
  });
});

describe('a list before the call that could not be had', () => {
  const need = (server: string, code: string) => needOf(config, requestTo(server), { code, message: 'm' });

  test('asks for what would be asked of the call', () => {
    expect(need('kept', 'GRANT_EXPIRED')).toEqual({ reason: 'GRANT_EXPIRED', message: 'm', wants: 'grant' });
    expect(need('given', 'TOOL_UNAUTHORIZED')).toMatchObject({ wants: 'grant' });
    expect(need('minted', 'TOOL_UNAUTHORIZED')).toMatchObject({ wants: 'consent' });
  });

  test.each(['TOOL_INSUFFICIENT_SCOPE', 'TOOL_FORBIDDEN', 'TOOL_UNKNOWN'])('%s is asked of nobody', (code) => {
    expect(need('given', code)).toBeUndefined();
    expect(need('minted', code)).toBeUndefined();
  });
});

describe('a scope that is missing (403)', () => {
  const need = (server: string, scope?: string, over = {}) =>
    needOf(config, requestTo(server, over), refused('TOOL_INSUFFICIENT_SCOPE', scope));

  test('asks for consent to what is missing, where the operator lets people give it', () => {
    expect(need('minted', 'read admin')).toMatchObject({ wants: 'consent', scopes: ['admin'] });
    expect(need('kept', 'admin write admin')).toMatchObject({ wants: 'consent', scopes: ['admin', 'write'] });
    expect(need('listed', 'admin', { credentials: { name: 'office', tenant: 'default' } })).toMatchObject({
      scopes: ['admin'],
    });
  });

  test('asks for another grant where the token is the caller’s own', () => {
    expect(need('given', 'anything')).toMatchObject({ wants: 'grant', scopes: ['anything'] });
    expect(need('brought', 'anything')).toMatchObject({ wants: 'grant', scopes: ['anything'] });
  });

  test.each([
    ['a scope that is not consentable', 'admin root', {}],
    ['what the token had', 'read', {}],
    ['what the tool has', 'write', { tool: 'write' }],
    ['what people had consented to', 'admin', { consented: ['admin'] }],
    ['no scope', undefined, {}],
    ['an empty scope', ' ', {}],
    ['no scope token', 'ad"min', {}],
    ['an endless scope', 'x'.repeat(129), {}],
    ['too many', Array.from({ length: 11 }, (_, index) => `s${index}`).join(' '), {}],
  ])('%s is not asked for', (_what, scope, over) => {
    expect(need('minted', scope, over)).toBeUndefined();
  });

  test('nor any other refusal', () => {
    expect(needOf(config, requestTo('minted'), refused('TOOL_FORBIDDEN', 'admin'))).toBeUndefined();
    expect(need('none', 'admin')).toBeUndefined();
  });
});
