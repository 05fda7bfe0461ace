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

test('countersign.example.yaml loads without a warning, and shows every section', async () => {
  const env = {
    LEDGER_CLIENT_SECRET: 'secret',
    TOOLS_CLIENT_SECRET: 'secret',
    SMTP_PASSWORD: 'secret',
    ANTHROPIC_API_KEY: 'key',
    COUNTERSIGN_VAULT_KEY: Buffer.alloc(32, 8).toString('base64'),
    COUNTERSIGN_PAYLOAD_KEY: Buffer.alloc(32, 7).toString('base64'),
  };
  const { config } = await loadConfig(join(ROOT, 'countersign.example.yaml'), env, ROOT);
  expect(warningsOf(config)).toEqual([]);
  const text = await readFile(join(ROOT, 'countersign.example.yaml'), 'utf8');
  // For developers of this project, and of no use in a first file.
  const left = ['worker', 'tracing'];
  expect(Object.keys(Config.shape).filter((section) => !new RegExp(`^${section}:`, 'm').test(text))).toEqual(left);
});

test('every run spec in examples/ is valid', async () => {
  const specs = (await readdir(join(ROOT, 'examples'))).filter((name) => name.endsWith('.yaml'));
  expect(specs).toContain('write-a-summary.yaml');
  for (const name of specs) {
    const spec: unknown = parse(await readFile(join(ROOT, 'examples', name), 'utf8'));
    expect({ name, ...RunSpec.safeParse(spec) }).toMatchObject({ name, success: true });
  }
});
