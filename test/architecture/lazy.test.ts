// What a command of clients, or a backend's client, loads: a few packages. What workers need costs seconds of processor
// time and a native module.
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { ROOT, sourceFiles } from './source-tree.ts';

const files = new Map(sourceFiles().map((file) => [file.path, file]));

/** Of workers, models, stores, tracing, policy, mail and HTTP. */
const HEAVY = [
  '@temporalio/worker',
  '@temporalio/testing',
  '@modelcontextprotocol/client',
  'ai',
  '@ai-sdk/anthropic',
  '@ai-sdk/openai',
  '@ai-sdk/openai-compatible',
  'aws4fetch',
  'undici',
  'oauth4webapi',
  'lru-cache',
  '@opentelemetry/resources',
  '@opentelemetry/sdk-trace-base',
  '@temporalio/interceptors-opentelemetry-v2',
  '@marcbachmann/cel-js',
  're2js',
  '@cfworker/json-schema',
  'pino',
  'fastify',
  'nodemailer',
  'prom-client',
];

/** They judge by a policy or read warnings of it. */
const OF_POLICY = ['@marcbachmann/cel-js', 're2js'];
const MORE: Readonly<Record<string, readonly string[]>> = {
  'cli/verbs/policy.ts': OF_POLICY,
  // Warnings of a starting worker; what runs it is loaded later.
  'cli/verbs/worker.ts': OF_POLICY,
};

/** @returns the packages that are loaded with a file, before anything is used */
function packagesOf(start: string): ReadonlySet<string> {
  const packages = new Set<string>();
  const seen = new Set([start]);
  for (const path of seen) {
    for (const { target, isRelative, isTypeOnly, isLazy } of files.get(path)?.imports ?? []) {
      if (isTypeOnly || isLazy) continue;
      if (isRelative) seen.add(target);
      else packages.add(/^(?:@[^/]+\/)?[^/]+/.exec(target)?.[0] ?? target);
    }
  }
  return packages;
}

const entries = [
  'client/index.ts',
  'cli/program.ts',
  ...readdirSync(join(ROOT, 'cli/verbs')).map((name) => `cli/verbs/${name}`),
];

test.each(entries)('%s loads nothing heavy before it is used', (entry) => {
  const loaded = packagesOf(entry);
  expect(loaded.size).toBeGreaterThan(0);
  expect(HEAVY.filter((name) => loaded.has(name) && !(MORE[entry] ?? []).includes(name))).toEqual([]);
});

test('the entry of the command loads nothing but Node until it knows whether the verb is bundled', () => {
  expect([...packagesOf('cli/main.ts')]).toEqual(['node:fs']);
});

test('`countersign requests` reads no YAML and opens no JWE before it needs to', () => {
  const loaded = packagesOf('cli/verbs/requests.ts');
  expect([...loaded]).toContain('@temporalio/client');
  expect(['yaml', 'jose'].filter((name) => loaded.has(name))).toEqual([]);
});

test('a worker loads what asks models, a bucket or a collector of traces only if one is configured', () => {
  const models = ['ai', '@ai-sdk/anthropic', '@ai-sdk/openai', '@ai-sdk/openai-compatible'];
  const tracing = ['@opentelemetry/sdk-trace-base', '@temporalio/interceptors-opentelemetry-v2'];
  const loaded = packagesOf('workers/worker.ts');
  expect([...models, ...tracing, 'aws4fetch'].filter((name) => loaded.has(name))).toEqual([]);
});

test('what a worker loads is seen', () => {
  const loaded = packagesOf('workers/worker.ts');
  expect(['@temporalio/worker', 'undici', '@marcbachmann/cel-js'].filter((name) => !loaded.has(name))).toEqual([]);
});
