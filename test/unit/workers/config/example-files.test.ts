/** The files that people copy are files that work, and so are the snippets of the pages. */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from '@jest/globals';
import { parse } from 'yaml';
import { Config } from '../../../../contracts/schemas/config.ts';
import { RunSpec } from '../../../../contracts/schemas/run-spec.ts';
import { checkConfig } from '../../../../workers/config/checks.ts';
import { loadConfig, substitute } from '../../../../workers/config/load.ts';
import { warningsOf } from '../../../../workers/config/warnings.ts';
import { blocksOf, type GuideBlock } from '../../../support/guide.ts';

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

/** Any value that fits: a key where the name says so, else a secret that also signs webhooks. */
function environmentOf(text: string): Readonly<Record<string, string>> {
  const key = Buffer.alloc(32, 9).toString('base64');
  const names = [...text.matchAll(/\$\{(\w+)/g)].map(([, name = '']) => name);
  return Object.fromEntries(names.map((name) => [name, name.endsWith('_KEY') ? key : `whsec_${key}`]));
}

const SERVER = { url: 'https://tools.example.com/mcp' };

/** Where a snippet may stand that shows a part of the configuration. */
const PLACES: readonly ((part: object) => unknown)[] = [
  (part) => part,
  (part) => ({ policy: part }),
  (part) => ({ policy: { servers: { bank: { tools: part } } } }),
  (part) => ({ servers: { tools: { ...SERVER, ...part } } }),
  // A client has a secret or a key.
  (part) => ({
    servers: {
      tools: {
        ...SERVER,
        credentials: { kind: 'client-credentials', issuer: 'https://login.example.com', clientId: 'us', ...part },
      },
    },
  }),
  (part) => ({ notify: { channels: { desk: part } } }),
];

/** @returns what is wrong with it at the place where most of it is right; undefined where it loads */
function troubleOf({ text }: GuideBlock): string | undefined {
  const part: unknown = parse(text);
  if (typeof part !== 'object' || part === null) return 'it is no object';
  if (RunSpec.safeParse(part).success) return undefined;
  const troubles = PLACES.map((place) => {
    try {
      const config = Config.parse(substitute(place(part), environmentOf(text), 'snippet'));
      checkConfig(config, 'snippet');
      return undefined;
    } catch (error) {
      return error instanceof Error ? error.message : String(error);
    }
  });
  if (troubles.includes(undefined)) return undefined;
  return troubles.toSorted((one = '', other = '') => one.length - other.length)[0];
}

test('every configuration that guide and operations show loads, alone or at its place', async () => {
  const pages = await Promise.all(
    ['docs/guide', 'docs/operations'].map(async (folder) =>
      (await readdir(join(ROOT, folder))).filter((name) => name.endsWith('.md')).map((name) => `${folder}/${name}`),
    ),
  );
  const blocks = (await Promise.all(pages.flat().map((page) => blocksOf(page, 'yaml')))).flat();
  // A snippet that leaves something out is no YAML, and Prometheus has a configuration of its own.
  const own = blocks.filter(({ text }) => !/^ *…$/m.test(text) && !text.startsWith('# prometheus.yml'));
  expect(own.length).toBeGreaterThan(50);
  const wrong = own.flatMap((block) => {
    const trouble = troubleOf(block);
    return trouble === undefined ? [] : [`${block.page}:${block.line} ${trouble}`];
  });
  expect(wrong).toEqual([]);
});
