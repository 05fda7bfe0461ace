// Dependency traps that install without a word and fail much later: mixed Temporal versions, and two copies of
// protobufjs, under which histories cannot be read from JSON.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { historyFromJSON, historyToJSON } from '@temporalio/common/lib/proto-utils.js';
import { ROOT } from './source-tree.ts';

type Manifest = { version: string; dependencies: Record<string, string>; devDependencies: Record<string, string> };
type Lockfile = {
  packages: Record<string, { version?: string; resolved?: string; optionalDependencies?: Record<string, string> }>;
};

const manifest = readJson('package.json') as Manifest;
const lockfile = readJson('package-lock.json') as Lockfile;

function readJson(...path: string[]): unknown {
  return JSON.parse(readFileSync(join(ROOT, ...path), 'utf8'));
}

test('all Temporal packages have one exact version', () => {
  const declared = Object.entries({ ...manifest.dependencies, ...manifest.devDependencies }).filter(([name]) =>
    name.startsWith('@temporalio/'),
  );
  const locked = Object.entries(lockfile.packages).filter(([path]) =>
    /(?:^|\/)node_modules\/@temporalio\/[^/]+$/.test(path),
  );
  expect(declared.length).toBeGreaterThan(5);
  expect(locked.length).toBeGreaterThan(declared.length);
  const versions = new Set([...declared.map(([, range]) => range), ...locked.map(([, { version }]) => version)]);
  expect([...versions]).toEqual([expect.stringMatching(/^\d+\.\d+\.\d+$/)]);
});

test('the lockfile holds the optional packages of every platform (else run scripts/complete-lock.mjs)', () => {
  const paths = Object.keys(lockfile.packages);
  const wanted = Object.values(lockfile.packages).flatMap(({ optionalDependencies = {} }) =>
    Object.keys(optionalDependencies),
  );
  expect(wanted.length).toBeGreaterThan(100);
  expect(wanted.filter((name) => !paths.some((path) => path.endsWith(`node_modules/${name}`)))).toEqual([]);
});

test('the lockfile names no registry: everybody installs from their own', () => {
  expect(Object.entries(lockfile.packages).filter(([, { resolved }]) => resolved !== undefined)).toEqual([]);
});

test('every Temporal package gets the same protobufjs 8', () => {
  const copies = ['client', 'common', 'proto', 'worker'].map((name) =>
    createRequire(join(ROOT, 'node_modules', '@temporalio', name, 'package.json')).resolve('protobufjs/package.json'),
  );
  const ours = join(ROOT, 'node_modules', 'protobufjs', 'package.json');
  expect(new Set(copies)).toEqual(new Set([ours]));
  expect((readJson('node_modules', 'protobufjs', 'package.json') as Manifest).version).toMatch(/^8\./);
});

test('Temporal’s client and this project have one grpc-js: an interceptor of one copy means nothing to another', () => {
  const theirs = createRequire(join(ROOT, 'node_modules', '@temporalio', 'client', 'package.json'));
  expect(theirs.resolve('@grpc/grpc-js')).toBe(createRequire(join(ROOT, 'package.json')).resolve('@grpc/grpc-js'));
});

test('a history survives the way to JSON and back', () => {
  const json = {
    events: [
      {
        eventId: '1',
        eventTime: '2026-01-02T03:04:05.000000006Z',
        eventType: 'EVENT_TYPE_WORKFLOW_EXECUTION_STARTED',
        workflowExecutionStartedEventAttributes: {
          workflowType: { name: 'agentRun' },
          input: { payloads: [{ metadata: { encoding: 'anNvbi9wbGFpbg==' }, data: 'MQ==' }] },
        },
      },
    ],
  };
  const written = JSON.parse(historyToJSON(historyFromJSON(json))) as unknown;
  expect(written).toMatchObject(json);
});
