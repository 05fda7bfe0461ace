/**
 * Implements `countersign worker`, which serves runs, tool calls or both until it is asked to end, and `countersign
 * setup`.
 */
import { CountersignError } from '../../contracts/errors.ts';
import {
  CONFIG_FILE,
  CONFIG_VARIABLE,
  loadConfig,
  type LoadedConfig,
  roleWarnings,
  type WorkerRole,
} from '../../workers/config/load.ts';
import { warningsOf } from '../../workers/config/warnings.ts';
import { isAway } from '../../workers/connection.ts';
import { setUpNamespace } from '../../workers/setup.ts';
import type { Workers } from '../../workers/worker.ts';
import { choice, preset } from '../session/options.ts';
import { locate, type Place, unreachable } from '../session/session.ts';
import { type Answer, print, verb } from '../session/verb.ts';
import { trustText } from '../views/run.ts';

const WAIT_SECONDS = 120;

const ROLE = choice<WorkerRole>(['all', 'runs', 'tools'], '<role>', 'what this process serves');

export const WORKER = verb({
  name: 'worker',
  summary: 'serve runs, tool calls, or both',
  description:
    'Serve runs: workflows, models and policy (runs), tool calls with their credentials (tools), or both (all); where Temporal does not answer yet, wait for it (120 s, or --deadline). It needs a configuration file',
  options: { role: preset('all', ROLE) },
  examples: [
    'worker',
    'worker --role tools --config /etc/countersign.yaml',
    'worker --address temporal.example:7233 --namespace agents',
  ],
  run: async ({ options, terminal }) => {
    const { role, deadline: seconds = WAIT_SECONDS } = options;
    const signal = terminal.interrupted();
    const { connectionOptions, namespace } = locate(options);
    const loaded = await configured(options.config, terminal);
    for (const warning of [...warningsOf(loaded.config), ...roleWarnings(loaded.config, role)])
      terminal.err(`warning: ${warning}\n`);
    const { startWorkers } = await import('../../workers/worker.ts');
    const { installWorkerLog } = await import('../session/runtime.ts');
    const log = installWorkerLog(loaded);
    const { address = 'localhost:7233' } = connectionOptions;
    const say = (message: string, fields: Readonly<Record<string, unknown>>) => log?.warn(message, fields);
    const wait = { address, seconds, say, signal };
    const workers = await startWorkers({ loaded, connectionOptions, namespace, role, wait, log }).catch(
      (error: unknown) => {
        throw isAway(error) ? unreachable(connectionOptions.address, error) : error;
      },
    );
    print(terminal, workerAnswer(role, workers, namespace, loaded), options.json === true);
    const end = (): void => {
      const why = typeof signal.reason === 'string' ? signal.reason : 'asked to end';
      void workers.stop(why).catch(() => undefined);
    };
    if (signal.aborted) end();
    signal.addEventListener('abort', end, { once: true });
    await workers.stopped;
    if (!signal.aborted) throw new CountersignError('ENGINE_UNAVAILABLE', 'The worker ended by itself.');
    return undefined;
  },
});

/** A worker of defaults, without models, would take runs of the others, and end them. @throws `CONFIG_INVALID` */
async function configured(named: string | undefined, { env, directory }: Place): Promise<LoadedConfig> {
  const loaded = await loadConfig(named, env, directory);
  if (loaded.path !== undefined) return loaded;
  const message = `A worker needs a configuration: there is no ${CONFIG_FILE} in ${directory}, and neither --config nor ${CONFIG_VARIABLE} names a file. Name that of the other workers: countersign worker --config FILE. To write a first one, see countersign.example.yaml of the package.`;
  throw new CountersignError('CONFIG_INVALID', message, { directory });
}

function workerAnswer(
  role: WorkerRole,
  { buildId, taskQueues }: Workers,
  namespace: string,
  { path: config, config: { trust } }: LoadedConfig,
): Answer {
  const build = buildId === undefined ? '' : `, build ${buildId}`;
  return {
    json: { role, buildId, namespace, taskQueues, config, trust: trust.mode },
    text: (paint) =>
      `${paint('bold', `worker (${role})`)} of namespace ${namespace}, ${taskQueues.length === 1 ? 'queue' : 'queues'} ${taskQueues.join(', ')}${build}, configuration ${config ?? 'none'}\n` +
      `trust: ${trustText(trust, namespace)}`,
  };
}

export const SETUP = verb({
  name: 'setup',
  summary: 'register the search attributes that runs need',
  description: 'Register the search attributes that runs need; a second time changes nothing',
  examples: ['setup', 'setup --address temporal.example:7233 --namespace agents'],
  run: async ({ session }) => {
    const report = await session(({ client: { connection, options }, deadlineMs }) =>
      connection.withDeadline(Date.now() + deadlineMs, () => setUpNamespace(connection, options.namespace)),
    );
    const { namespace, added, present } = report;
    const what =
      added.length === 0 ? `all ${present.length} search attributes were there` : `added ${added.join(', ')}`;
    return { json: report, text: () => `Namespace ${namespace} is ready; ${what}.` };
  },
});
