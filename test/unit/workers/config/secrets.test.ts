/** Secrets of a configuration, as the scrubber knows them (INV-S1). */
import { describe, expect, test } from '@jest/globals';
import { z } from 'zod';
import { createScrubber } from '../../../../activities/scrubbing/scrubber.ts';
import { Config } from '../../../../contracts/schemas/config.ts';
import { secretsOf } from '../../../../workers/config/secrets.ts';

const CODEC_KEY = `${'k'.repeat(43)}=`;
const ZONE_KEY = `${'z'.repeat(43)}=`;
const MESSAGE_SECRET = `whsec_${'m'.repeat(43)}=`;
const WEBHOOK_SECRET = `whsec_${'w'.repeat(43)}=`;

const config = Config.parse({
  trust: { mode: 'signed', jwks: 'trust.jwks', zone: { keys: [{ id: 'zone', key: ZONE_KEY }] } },
  artifacts: {
    s3: {
      endpoint: 'https://s3.example.com',
      bucket: 'artifacts',
      accessKeyId: 'AKIDWORKERS',
      secretAccessKey: 'canary-bucket-secret',
      sessionToken: 'canary-session-token',
    },
  },
  servers: {
    notes: {
      url: 'https://notes.example.com/mcp',
      headers: { 'X-Api-Key': 'canary-header', 'X-Tenant': 'emea' },
      credentials: {
        kind: 'client-credentials',
        issuer: 'https://idp.example.com',
        clientId: 'countersign',
        clientSecret: 'canary-client-secret',
        scopes: { tools: { write: ['notes:write'] } },
      },
    },
    files: { url: 'https://files.example.com/mcp' },
    desk: {
      url: 'https://desk.example.com/mcp',
      credentials: {
        kind: 'enterprise-managed',
        issuer: 'https://desk.example.com',
        clientId: 'countersign',
        clientSecret: 'canary-desk-secret',
        identityProvider: {
          issuer: 'https://idp.example.com',
          clientId: 'countersign',
          clientSecret: 'canary-provider-secret',
        },
      },
    },
    bank: {
      url: 'https://bank.example.com/mcp',
      credentials: {
        kind: 'token-exchange',
        issuer: 'https://idp.example.com',
        clientId: 'countersign',
        clientKey: { kid: 'client', privateKeyFile: 'client.pem' },
      },
    },
  },
  credentials: {
    vault: {
      use: {
        kind: 'client-credentials',
        issuer: 'https://idp.example.com',
        clientId: 'catalogs',
        clientSecret: 'canary-named-secret',
      },
      origins: ['https://tools.example.com'],
    },
    grant: { use: { kind: 'given' }, origins: ['https://tools.example.com'] },
  },
  models: {
    main: { provider: 'openai', model: 'm', apiKey: 'canary-api-key' },
    keyless: { provider: 'openai-compatible', model: 'm', baseUrl: 'http://127.0.0.1:1/v1' },
    scripted: { provider: 'scripted', script: { steps: [{ text: 'hi' }] } },
  },
  ledger: {
    sign: { kid: 'worker', privateKeyFile: 'ledger.pem' },
    webhook: { url: 'https://siem.example.com/canary-path', secret: WEBHOOK_SECRET },
  },
  notify: {
    channels: {
      desk: { kind: 'webhook', url: 'https://desk.example.com/in', secret: MESSAGE_SECRET },
      mail: {
        kind: 'mail',
        host: 'smtp.example.com',
        from: 'countersign@example.com',
        user: 'countersign',
        password: 'canary-mail-password',
      },
      chat: { kind: 'slack', token: 'canary-slack-token', channel: 'C024BE91L' },
      hook: { kind: 'slack-webhook', webhookUrl: 'https://hooks.slack.example.com/canary-hook' },
    },
  },
  gateway: { slack: { signingSecret: 'canary-signing-secret', team: 'T024BE7LD' } },
  encryption: { keys: [{ id: 'a', key: CODEC_KEY }] },
});

const CANARIES = [
  'canary-header',
  'canary-client-secret',
  'canary-named-secret',
  'canary-desk-secret',
  'canary-provider-secret',
  'canary-api-key',
  'canary-bucket-secret',
  'canary-session-token',
  WEBHOOK_SECRET,
  MESSAGE_SECRET,
  'canary-mail-password',
  'canary-slack-token',
  'canary-signing-secret',
  'https://hooks.slack.example.com/canary-hook',
  CODEC_KEY,
  ZONE_KEY,
];

describe('secrets of a configuration', () => {
  test('are all known, and nothing that is no secret is among them', () => {
    expect([...secretsOf(config, undefined)].toSorted()).toEqual([...CANARIES].toSorted());
  });

  test('taken by a scrubber, they vanish from whatever a process says', () => {
    const scrubber = createScrubber(secretsOf(config, undefined));
    for (const canary of CANARIES) expect(scrubber.text(`failed with ${canary}!`)).toBe('failed with [redacted]!');
  });

  test('what the environment put into a header of a server is known, whatever the header is called', () => {
    const known = secretsOf(config, new Map([['notes', ['canary-variable']]]));
    expect(known.filter((secret) => !CANARIES.includes(secret))).toEqual(['canary-variable']);
  });

  test('a field whose name sounds like a secret is one of the known, so that a new one is not forgotten', () => {
    const names = [...new Set(fieldNames(z.toJSONSchema(Config, { io: 'input' })))];
    const suspicious = names.filter((name) => /secret|key|token|password|credential/i.test(name));
    expect(suspicious.toSorted()).toEqual([
      'accessKeyId', // a name: it stands in every request in clear
      'apiKey', // a secret
      'clientKey', // names a file
      'clientSecret', // a secret
      'credentials', // its fields are known one by one
      'givenTokens', // a policy
      'key', // a secret
      'keyFile', // names a file
      'keys', // lists, whose fields are known
      'maxOutputTokens', // a number
      'password', // a secret
      'privateKeyFile', // a file name
      'refreshTokens', // a word
      'secret', // a secret
      'secretAccessKey', // a secret
      'sessionToken', // a secret
      'signingSecret', // a secret
      'subjectTokenType', // a name
      'token', // a secret
      'tokens', // a limit
    ]);
  });
});

function fieldNames(schema: unknown): string[] {
  if (Array.isArray(schema)) return schema.flatMap(fieldNames);
  if (schema === null || typeof schema !== 'object') return [];
  return Object.entries(schema).flatMap(([keyword, inner]: [string, unknown]) => [
    ...(keyword === 'properties' && inner !== null && typeof inner === 'object' ? Object.keys(inner) : []),
    ...fieldNames(inner),
  ]);
}
