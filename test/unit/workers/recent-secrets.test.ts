/** Tokens that a process has obtained are in no line of its log, however a server echoes them (INV-S1). */
import { expect, test } from '@jest/globals';
import type { MintedToken, TokenRequest } from '../../../activities/tokens/port.ts';
import { Config } from '../../../contracts/schemas/config.ts';
import { lineWriter } from '../../../workers/log.ts';
import { noting, RecentSecrets } from '../../../workers/recent-secrets.ts';
import { ENCODINGS } from '../../support/canary/scan.ts';

const CANARY = 'eyJhbGciOiJFZERTQSJ9.eyJqdGkiOiJjYW5hcnktMSJ9.c2lnbmVkLWJ5LW5vYm9keQ';
const GRANT = 'refresh-token-of-the-canary-0001';
const request: TokenRequest = {
  run: { namespace: 'default', workflowId: 'run', specHash: 'h' },
  server: 'bank',
  serverUrl: 'https://bank.example/mcp',
};

async function minted(token: MintedToken, recent?: RecentSecrets): Promise<void> {
  await noting({ mint: async () => token }, recent).mint(request);
}

function line(message: string, fields: Readonly<Record<string, unknown>> = {}): string {
  const lines: string[] = [];
  lineWriter(Config.parse({}), (one) => lines.push(one))('warn', message, fields);
  return lines.join('');
}

test('a token and what it was obtained with stand in no line, and the line is JSON still', async () => {
  const echo = { said: `401 for Bearer ${CANARY}`, cause: { grant: Buffer.from(GRANT).toString('base64') } };
  // The control: without the broker they stand there.
  expect(line(`Refused: ${CANARY}`, echo)).toContain(CANARY);
  await minted({ accessToken: CANARY, secrets: [GRANT], evidence: { strategy: 'issued' } });
  const written = line(`Refused: ${CANARY}`, echo);
  expect(JSON.parse(written)).toMatchObject({ message: 'Refused: [redacted]', said: '401 for Bearer [redacted]' });
  expect(written).not.toContain(Buffer.from(GRANT).toString('base64').slice(0, 12));
});

test.each(Object.entries(ENCODINGS))('nor does it written in another way: %s', async (_, encode) => {
  const recent = new RecentSecrets();
  await minted({ accessToken: CANARY, secrets: [], evidence: { strategy: 'issued' } }, recent);
  expect(recent.scrubbed(`It said ${encode(CANARY)} in the end.`)).toContain('[redacted]');
});

test('the newest are known, those that are used again among them', () => {
  const recent = new RecentSecrets();
  const canary = (at: number): string => `canary-${1_000 + at}-of-the-log`;
  recent.note([canary(-1), canary(-2)]);
  for (let at = 0; at < 99; at += 1) recent.note([canary(at), canary(-1)]);
  expect(recent.scrubbed(canary(-1))).toBe('[redacted]');
  expect(recent.scrubbed(canary(98))).toBe('[redacted]');
  expect(recent.scrubbed(canary(-2))).toBe(canary(-2));
});
