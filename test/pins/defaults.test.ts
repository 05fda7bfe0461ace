/** Defaults that callers rely on without saying so. Literals, never imports. */
import { expect, test } from '@jest/globals';
import { Config } from '../../contracts/schemas/config.ts';
import { Limits } from '../../contracts/schemas/run-spec.ts';
import { PAGE_BYTES } from '../../domain/text/page.ts';
import { DEFAULT_DEADLINE_SECONDS } from '../../domain/policy/approvers.ts';

test('limits of a run', () => {
  expect(Limits.parse({})).toEqual({
    turns: 100,
    calls: 1_000,
    callsPerTurn: 16,
    argumentBytes: 65_536,
    argumentBytesPerTurn: 262_144,
    resultBytes: 65_536,
    tokens: 5_000_000,
    wallClockSeconds: 2_592_000,
    turnsPerExecution: 40,
    callTimeoutSeconds: 120,
  });
});

test('a request waits 24 hours', () => {
  expect(DEFAULT_DEADLINE_SECONDS).toBe(86_400);
});

test('catalogs: nobody may change one, a new tool is asked for, and nothing is reachable that is not configured', () => {
  const { catalog, credentials } = Config.parse({});
  expect(catalog).toEqual({
    administrators: [],
    origins: [],
    loosening: 'allow',
    newTools: 'ask',
    unsupported: [],
  });
  expect(credentials).toEqual({});
  expect(Config.parse({ catalog: { administrators: [{ may: ['tighten'] }] } }).catalog.administrators).toEqual([
    { tenant: 'default', ids: [], groups: [], may: ['tighten'] },
  ]);
});

test('what results link to is not read where nobody says so', () => {
  const { docs } = Config.parse({ servers: { docs: { url: 'https://docs.example' } } }).servers;
  expect(docs?.resourceLinks).toBe('keep');
});

test('a page of a query answer holds 1 MiB', () => {
  expect(PAGE_BYTES).toBe(1_048_576);
});
