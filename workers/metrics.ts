/**
 * Counts for operators what this process does: how calls ended, the tokens that it asked for, the payloads that it
 * could not verify, the messages to people, and the use of the limits of servers, which it also tells the log.
 *
 * 1. Labels are configured names and words of ours: tenants choose nothing in them.
 * 2. What operators are alerted to stands at 0 from the start, so that the first one is seen as a change.
 * 3. A queue that serves one server alone is bounded where it is polled. Waiting tasks stay in Temporal's own order,
 *    and the rate holds for all workers together.
 * 4. The log reports a change once, not for each call.
 */
import type { Runtime, WorkerOptions } from '@temporalio/worker';
import type { LimitedServer, LimitEvent } from '../activities/limits/server-limits.ts';
import type { TellMessage } from '../activities/notify/send.ts';
import type { MintedToken, TokenBroker, TokenRequest } from '../activities/tokens/port.ts';
import { defined } from '../contracts/defined.ts';
import { codedFailureIn } from '../contracts/failure.ts';
import { METRICS } from '../contracts/metrics.ts';
import type { Config } from '../contracts/schemas/config.ts';
import { MessageEvent } from '../contracts/schemas/notify.ts';
import type { ToolActivities } from '../contracts/wire/activities.ts';
import type { PollResult } from '../contracts/wire/legacy-2025.ts';
import type { DispatchResult } from '../contracts/wire/tools.ts';
import { canonicalServerUrl } from '../domain/text/urls.ts';

type Meter = Pick<Runtime, 'metricMeter'>;

export function countingCalls<Activities extends Pick<ToolActivities, 'callTool' | 'resumeCall' | 'pollTask'>>(
  activities: Activities,
  config: Config,
  { metricMeter }: Meter,
): Activities {
  const ended = metricMeter.createCounter(METRICS.calls, '', 'Calls that ended in this process, by outcome.');
  const names = limitedServers(config);
  for (const server of [...[...names.values()].map(({ name }) => name), UNLISTED])
    ended.add(0, { server, outcome: 'unknown' });
  const counted =
    <Input extends { readonly server: { readonly url: string } }, Result extends DispatchResult | PollResult>(
      activity: (input: Input) => Promise<Result>,
    ) =>
    async (input: Input): Promise<Result> => {
      const result = await activity(input);
      // Another worker asks for the answer of a call that left a place, and counts its end.
      if (result.kind !== 'ended' || ('resume' in result && result.resume !== undefined)) return result;
      const server = names.get(canonicalServerUrl(input.server.url))?.name ?? UNLISTED;
      ended.add(1, { server, outcome: result.outcome.kind });
      return result;
    };
  return {
    ...activities,
    callTool: counted(activities.callTool),
    resumeCall: counted(activities.resumeCall),
    pollTask: counted(activities.pollTask),
  };
}

export function countingTokens(
  broker: TokenBroker,
  { servers }: Pick<Config, 'servers'>,
  { metricMeter }: Meter,
): TokenBroker {
  const asked = metricMeter.createCounter(METRICS.tokens, '', 'Tokens that were asked for, by result.');
  for (const server of [...Object.keys(servers), UNLISTED])
    for (const result of ['minted', 'TOKEN_REFUSED', 'TOKEN_UNAVAILABLE']) asked.add(0, { server, result });
  return {
    mint: async (request: TokenRequest): Promise<MintedToken> => {
      const server = Object.hasOwn(servers, request.server) ? request.server : UNLISTED;
      try {
        const token = await broker.mint(request);
        // Some servers take none.
        if (token.accessToken !== undefined) asked.add(1, { server, result: 'minted' });
        return token;
      } catch (error) {
        asked.add(1, { server, result: codedFailureIn(error)?.code ?? 'INTERNAL' });
        throw error;
      }
    },
  };
}

const UNVERIFIED = ['sealed', 'changed', 'unproven', 'unknown-key'] as const;
/**
 * Why a payload was not believed: encrypted by a key that is not here; encrypted, and changed since; with a proof that
 * is not one; with a proof by a key that is not here.
 */
type Unverified = (typeof UNVERIFIED)[number];

export function tellPayloads({ metricMeter }: Meter): (reason: Unverified) => void {
  const unverified = metricMeter.createCounter(METRICS.unverified, '', 'Payloads that could not be verified.');
  for (const reason of UNVERIFIED) unverified.add(0, { reason });
  return (reason) => unverified.add(1, { reason });
}

export function tellMessages({ metricMeter }: Meter, channels: readonly string[]): TellMessage {
  const tries = metricMeter.createCounter(METRICS.messages, '', 'Messages to people, each try.');
  for (const channel of channels)
    for (const event of [...MessageEvent.options, 'digest'] as const)
      for (const result of ['sent', 'failed']) tries.add(0, { channel, event, result });
  return ({ channel, event, result }) => tries.add(1, { channel, event, result });
}

const BREAKER = {
  open: (server: string) => `Server ${server} failed again and again: its breaker is open, and calls wait.`,
  'half-open': (server: string) => `The breaker of server ${server} lets one call try.`,
  closed: (server: string) => `Server ${server} answers again: its breaker is closed.`,
} as const;

/** Label of servers that only runs and catalogs know: tenants choose their names, which would be too many. */
const UNLISTED = '(unlisted)';

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
    ...(concurrency !== undefined && { maxConcurrentActivityTaskExecutions: Math.min(concurrency, most) }),
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
