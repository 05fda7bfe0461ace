/**
 * Says what a worker process serves, by role: which task queues it polls, and which servers no split role
 * would serve.
 */
import { CountersignError } from '../../contracts/errors.ts';
import type { Config } from '../../contracts/schemas/config.ts';
import { pathText } from '../../contracts/schemas/parse.ts';

/** `runs`: workflows, models, policy. `tools`: the queues of configured servers. `all`: both in this process. */
export type WorkerRole = 'all' | 'runs' | 'tools';

/** @throws CountersignError `CONFIG_INVALID` if nothing is left to poll */
export function queuesOf(config: Config, role: WorkerRole): string[] {
  const ofServers = Object.values(config.servers).flatMap((server) => queueOf(server, config) ?? []);
  const queues = [...(role === 'tools' ? [] : [config.taskQueue]), ...(role === 'runs' ? [] : new Set(ofServers))];
  if (queues.length === 0)
    throw new CountersignError(
      'CONFIG_INVALID',
      'A worker with role tools has nothing to serve: no configured server has a taskQueue of its own. Give each server one, or start workers with role all.',
      { path: 'servers' },
    );
  return queues;
}

/**
 * Warns of calls that only a worker with role `all` can serve: they go to the run's queue, and need the tools side
 * there.
 */
export function roleWarnings(config: Config, role: WorkerRole): string[] {
  if (role === 'all') return [];
  return Object.entries(config.servers)
    .filter(([, server]) => queueOf(server, config) === undefined)
    .map(
      ([name]) =>
        `${pathText(['servers', name])} has no taskQueue of its own: with role ${role} nobody serves its calls. Give it one, or start workers with role all.`,
    );
}

/** Returns a queue only if it is not the run's. */
function queueOf({ taskQueue }: Config['servers'][string], config: Config): string | undefined {
  return taskQueue === config.taskQueue ? undefined : taskQueue;
}
