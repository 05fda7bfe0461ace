/** The files that people copy are files that work. */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from '@jest/globals';
import { parse } from 'yaml';
import { Config } from '../../../../contracts/schemas/config.ts';
import { RunSpec } from '../../../../contracts/schemas/run-spec.ts';
import { loadConfig } from '../../../../workers/config/load.ts';
import { warningsOf } from '../../../../workers/config/warnings.ts';

const ROOT = fileURLToPath(new URL('../../../..', import.meta.url));

const ENV = {
  LEDGER_CLIENT_SECRET: 'secret',
  TOOLS_CLIENT_SECRET: 'secret',
  SMTP_PASSWORD: 'secret',
  ANTHROPIC_API_KEY: 'key',
  COUNTERSIGN_VAULT_KEY: Buffer.alloc(32, 8).toString('base64'),
  COUNTERSIGN_PAYLOAD_KEY: Buffer.alloc(32, 7).toString('base64'),
};

test('countersign.example.yaml loads without a warning, and shows every section', async () => {
  const { config } = await loadConfig(join(ROOT, 'countersign.example.yaml'), ENV, ROOT);
  expect(warningsOf(config)).toEqual([]);
  const text = await readFile(join(ROOT, 'countersign.example.yaml'), 'utf8');
  // For developers of this project, and of no use in a first file.
  const left = ['worker', 'tracing'];
  expect(Object.keys(Config.shape).filter((section) => !new RegExp(`^${section}:`, 'm').test(text))).toEqual(left);
});

test('the mail channel of countersign.example.yaml knows everybody whom its policy names', async () => {
  const { config } = await loadConfig(join(ROOT, 'countersign.example.yaml'), ENV, ROOT);
  const { policy, notify } = config;
  const tools = Object.values(policy.servers ?? {}).flatMap((server) => Object.values(server.tools ?? {}));
  const named = [policy, ...tools].flatMap((rule) => (typeof rule === 'string' ? [] : (rule.approvers ?? [])));
  expect(named.length).toBeGreaterThan(1);
  for (const { channel } of policy.notify ?? []) {
    const mail = notify.channels[channel];
    if (mail?.kind !== 'mail') throw new Error(`channel ${channel} sends no mail`);
    expect(Object.keys(mail.people)).toEqual(expect.arrayContaining(named.flatMap(({ ids }) => ids)));
    expect(Object.keys(mail.groups)).toEqual(expect.arrayContaining(named.flatMap(({ groups }) => groups)));
  }
});

test('every run spec in examples/ is valid', async () => {
  const specs = (await readdir(join(ROOT, 'examples'))).filter((name) => name.endsWith('.yaml'));
  expect(specs).toContain('write-a-summary.yaml');
  for (const name of specs) {
    const spec: unknown = parse(await readFile(join(ROOT, 'examples', name), 'utf8'));
    expect({ name, ...RunSpec.safeParse(spec) }).toMatchObject({ name, success: true });
  }
});
