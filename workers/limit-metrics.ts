/**
 * Reads the configured limits of servers, and reports their use to operators in metrics and log.
 *
 * 1. A queue that serves one server alone is bounded where it is polled. Waiting tasks stay in Temporal's own order,
 *    and the rate holds for all workers together.
 * 2. The log reports a change once, not for each call.
 */
import type { Runtime, WorkerOptions } from '@temporalio/worker';
import type { LimitedServer, LimitEvent } from '../activities/limits/server-limits.ts';
import { defined } from '../contracts/defined.ts';
import { METRICS } from '../contracts/metrics.ts';
import type { Config } from '../contracts/schemas/config.ts';
import { canonicalServerUrl } from '../domain/text/urls.ts';

const BREAKER = {
  open: (server: string) => `Server ${server} failed again and again: its breaker is open, and calls wait.`,
  'half-open': (server: string) => `The breaker of server ${server} lets one call try.`,
  closed: (server: string) => `Server ${server} answers again: its breaker is closed.`,
} as const;

/** Label of servers that only runs and catalogs know: tenants choose their names, which would be too many. */
export const UNLISTED = '(unlisted)';

const STATES = { closed: 0, 'half-open': 1, open: 2 } as const;

/** Returns name and limits by canonical server URL. */
export function limitedServers({ servers }: Config): ReadonlyMap<string, LimitedServer> {
  const limited = new Map<string, LimitedServer>();
  for (const [name, { url, limits }] of Object.entries(servers)) {
    const at = canonicalServerUrl(url);
    // If two names have one address, the one with limits counts; the configuration's check refuses different limits.
    if (limited.get(at)?.limits === undefined) limited.set(at, { name, ...defined({ limits }) });
  }
  return limited;
}

/**
 * Returns how many tasks the worker of a queue runs at once, and at which rate, if the queue serves one server alone.
 *
 * @param most tasks at once, whatever the server takes
 */
export function queueOptions(
  { servers, taskQueue: ownQueue }: Pick<Config, 'servers' | 'taskQueue'>,
  taskQueue: string,
  most: number,
): Pick<WorkerOptions, 'maxConcurrentActivityTaskExecutions' | 'maxTaskQueueActivitiesPerSecond'> {
  if (taskQueue === ownQueue) return {};
  const [only, ...others] = Object.values(servers).filter((server) => server.taskQueue === taskQueue);
  if (only?.limits === undefined || others.length > 0) return {};
  const { concurrency, perSecond } = only.limits;
  return {
    ...(concurrency === undefined ? {} : { maxConcurrentActivityTaskExecutions: Math.min(concurrency, most) }),
    ...defined({ maxTaskQueueActivitiesPerSecond: perSecond }),
  };
}

/** @param servers configured names, which stand at 0 from the start */
export function tellLimits(
  { metricMeter, logger }: Pick<Runtime, 'metricMeter' | 'logger'>,
  servers: Iterable<string> = [],
): (event: LimitEvent) => void {
  const running = metricMeter.createGauge(METRICS.running, 'int', '', 'Calls of a server that are under way.');
  const breaker = metricMeter.createGauge(METRICS.breaker, 'int', '', '0 closed, 1 half-open, 2 open.');
  const held = metricMeter.createCounter(METRICS.held, '', 'Calls that were held back, each time.');
  for (const server of servers) {
    running.set(0, { server });
    breaker.set(0, { server });
    for (const by of ['concurrency', 'rate', 'retry-after', 'breaker']) held.add(0, { server, by });
  }
  return (event) => {
    const server = event.server ?? UNLISTED;
    switch (event.kind) {
      case 'running':
        return running.set(event.calls, { server });
      case 'held':
        return held.add(1, { server, by: event.by });
      case 'breaker':
        breaker.set(STATES[event.state], { server });
        logger.warn(BREAKER[event.state](server), { server, state: event.state });
        return;
      case 'asked': {
        const facts = { server, seconds: Math.ceil(event.ms / 1_000), ...defined({ tenant: event.tenant }) };
        logger.warn(`Server ${server} asked for time (Retry-After); calls wait.`, facts);
      }
    }
  };
}
