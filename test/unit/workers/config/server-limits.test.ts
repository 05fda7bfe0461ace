/** Limits as they are configured, where Temporal itself can hold them, and what operators see. */
import { describe, expect, test } from '@jest/globals';
import { ServerLimits } from '../../../../activities/limits/server-limits.ts';
import { METRICS } from '../../../../contracts/metrics.ts';
import { Config, type ConfigInput } from '../../../../contracts/schemas/config.ts';
import { checkConfig } from '../../../../workers/config/checks.ts';
import { limitedServers, queueOptions, tellLimits } from '../../../../workers/metrics.ts';

const URL = 'https://files.example/mcp';

function config(servers: ConfigInput['servers']): Config {
  return Config.parse({ servers });
}

describe('a queue', () => {
  const limits = { concurrency: 4, perSecond: 2.5 };

  test('of one server alone is bounded where it is polled, for all workers together', () => {
    const own = config({ files: { url: URL, taskQueue: 'files', limits } });
    expect(queueOptions(own, 'files', 100)).toEqual({
      maxConcurrentActivityTaskExecutions: 4,
      maxTaskQueueActivitiesPerSecond: 2.5,
    });
  });

  test('is never opened wider than its worker', () => {
    const own = config({ files: { url: URL, taskQueue: 'files', limits } });
    expect(queueOptions(own, 'files', 3)).toMatchObject({ maxConcurrentActivityTaskExecutions: 3 });
  });

  test('of several servers, of runs, or of a server without limits is not: the limits of one would hold others', () => {
    const shared = config({
      files: { url: URL, taskQueue: 'zone', limits },
      notes: { url: 'https://notes.example/mcp', taskQueue: 'zone' },
      main: { url: 'https://main.example/mcp', limits },
      free: { url: 'https://free.example/mcp', taskQueue: 'free' },
      same: { url: 'https://same.example/mcp', taskQueue: 'countersign', limits },
      slow: { url: 'https://slow.example/mcp', taskQueue: 'slow', limits: { breaker: {} } },
    });
    for (const queue of ['zone', 'countersign', 'free', 'slow']) expect(queueOptions(shared, queue, 100)).toEqual({});
  });
});

describe('one address has one set of limits', () => {
  const names = (first: object, second: object) =>
    config({ files: { url: URL, ...first }, again: { url: URL, ...second } });

  test('whichever name has them', () => {
    for (const both of [names({ limits: { concurrency: 1 } }, {}), names({}, { limits: { concurrency: 1 } })]) {
      expect(() => checkConfig(both, 'configuration')).not.toThrow();
      const found = [...limitedServers(both).values()];
      expect(found).toMatchObject([{ limits: { concurrency: 1, waitSeconds: 3_600 } }]);
    }
  });

  test('two different ones are refused, by path', () => {
    const url = { url: URL };
    const both = config({
      files: { ...url, limits: { concurrency: 1 } },
      again: { ...url, limits: { concurrency: 2 } },
    });
    expect(() => checkConfig(both, 'configuration')).toThrow(/servers\.again\.limits must be those of files/);
  });
});

test('defaults of a breaker, and of how long a call waits', () => {
  expect(config({ files: { url: URL, limits: { breaker: {} } } }).servers['files']?.limits).toEqual({
    breaker: { failures: 5, withinSeconds: 60, openSeconds: 30 },
    waitSeconds: 3_600,
  });
});

test('operators see counts by server, and each change once in the log; names that tenants choose are no label', () => {
  const seen: unknown[] = [];
  const meter = (name: string) => ({
    set: (value: number, tags: object) => seen.push([name, value, tags]),
    add: (value: number, tags: object) => seen.push([name, value, tags]),
  });
  const runtime = {
    metricMeter: { createGauge: meter, createCounter: meter },
    logger: { warn: (message: string, meta: object) => seen.push([message, meta]) },
  };
  // Sound: all that is used of a runtime stands here.
  const tell = tellLimits(runtime as unknown as Parameters<typeof tellLimits>[0]);
  tell({ kind: 'running', server: 'files', calls: 2 });
  tell({ kind: 'held', server: undefined, by: 'retry-after' });
  for (const state of ['open', 'half-open', 'closed'] as const) tell({ kind: 'breaker', server: 'files', state });
  tell({ kind: 'asked', server: 'files', ms: 1_500 });
  tell({ kind: 'asked', server: 'files', ms: 1_500, tenant: 'acme' });
  expect(seen).toEqual([
    [METRICS.running, 2, { server: 'files' }],
    [METRICS.held, 1, { server: '(unlisted)', by: 'retry-after' }],
    [METRICS.breaker, 2, { server: 'files' }],
    [expect.stringContaining('its breaker is open'), { server: 'files', state: 'open' }],
    [METRICS.breaker, 1, { server: 'files' }],
    [expect.stringContaining('lets one call try'), { server: 'files', state: 'half-open' }],
    [METRICS.breaker, 0, { server: 'files' }],
    [expect.stringContaining('answers again'), { server: 'files', state: 'closed' }],
    [expect.stringContaining('Retry-After'), { server: 'files', seconds: 2 }],
    [expect.stringContaining('Retry-After'), { server: 'files', seconds: 2, tenant: 'acme' }],
  ]);
});

test('calls of servers that only runs and catalogs know are counted together', () => {
  let shown: unknown;
  const gauge = { set: (value: number, { server }: { server: string }) => void (shown = { [server]: value }) };
  const runtime = { metricMeter: { createGauge: () => gauge, createCounter: () => ({ add: () => undefined }) } };
  // Sound: all that is used of a runtime stands here.
  const tell = tellLimits(runtime as unknown as Parameters<typeof tellLimits>[0]);
  const limits = new ServerLimits({ configured: new Map(), tell });
  const begin = (url: string) => limits.enter({ url, tenant: 'acme', key: url, attempt: 1 });
  begin('https://one.example/mcp');
  const other = begin('https://other.example/mcp');
  expect(shown).toEqual({ '(unlisted)': 2 });
  if (other.kind === 'entered') other.leave('up');
  expect(shown).toEqual({ '(unlisted)': 1 });
});
