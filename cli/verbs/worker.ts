/**
 * Implements `countersign worker`, which serves runs, tool calls or both until it is asked to end, and
 * `countersign setup`.
 */
import { type Command, Option } from 'commander';
import { CountersignError } from '../../contracts/errors.ts';
import { loadConfig, type LoadedConfig, roleWarnings, type WorkerRole } from '../../workers/config/load.ts';
import { warningsOf } from '../../workers/config/warnings.ts';
import { setUpNamespace, type SetupReport } from '../../workers/setup.ts';
import type { Workers } from '../../workers/worker.ts';
import { type Answer, print } from '../session/answered.ts';
import { examples, type GlobalOptions } from '../session/options.ts';
import { isEngineTrouble, locate, whyUnreachable, withSession } from '../session/session.ts';
import type { Terminal } from '../session/terminal.ts';
import { trustText } from '../views/verified-ledger.ts';

/** Time that a starting worker waits for Temporal, unless `--deadline` says otherwise. */
const WAIT_SECONDS = 120;

interface WorkerCommandOptions extends GlobalOptions {
  readonly role: WorkerRole;
}

export function addWorker(program: Command, terminal: Terminal): void {
  program
    .command('worker')
    .summary('serve runs, tool calls, or both')
    .description(
      'Serve runs: workflows, models and policy (runs), tool calls with their credentials (tools), or both (all); where Temporal does not answer yet, wait for it (120 s, or --deadline)',
    )
    .addOption(new Option('--role <role>', 'what this process serves').choices(['all', 'runs', 'tools']).default('all'))
    .addHelpText(
      'after',
      examples(
        'worker',
        'worker --role tools --config /etc/countersign.yaml',
        'worker --address temporal.example:7233 --namespace agents',
      ),
    )
    .action(async (_own: unknown, command: Command) => {
      const options = command.optsWithGlobals<WorkerCommandOptions>();
      const interrupted = terminal.interrupted();
      const { connectionOptions, namespace } = locate(options);
      const loaded = await loadConfig(options.config, terminal.env, terminal.directory);
      for (const warning of [...warningsOf(loaded.config), ...roleWarnings(loaded.config, options.role)])
        terminal.err(`warning: ${warning}\n`);
      const { startWorkers } = await import('../../workers/worker.ts');
      const { installWorkerLog } = await import('../session/runtime.ts');
      const log = installWorkerLog(loaded.config);
      const wait = {
        address: connectionOptions.address ?? 'localhost:7233',
        seconds: options.deadline ?? WAIT_SECONDS,
        say: (message: string, fields: Readonly<Record<string, unknown>>) => log?.warn(message, fields),
        signal: interrupted,
      };
      const workers = await startWorkers({ loaded, connectionOptions, namespace, role: options.role, wait, log }).catch(
        async (error: unknown) => {
          throw isEngineTrouble(error) ? await whyUnreachable(connectionOptions, error) : error;
        },
      );
      print(terminal, workerAnswer(options.role, workers, namespace, loaded), options.json === true);
      const end = (): void => void workers.stop(whyOf(interrupted)).catch(() => undefined);
      if (interrupted.aborted) end();
      interrupted.addEventListener('abort', end, { once: true });
      await workers.stopped;
      if (!interrupted.aborted) throw new CountersignError('ENGINE_UNAVAILABLE', 'The worker ended by itself.');
    });
}

function whyOf({ reason }: AbortSignal): string {
  return typeof reason === 'string' ? reason : 'asked to end';
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

// `countersign setup` makes a namespace ready for runs.

export function addSetup(program: Command, terminal: Terminal): void {
  program
    .command('setup')
    .summary('register the search attributes that runs need')
    .description('Register the search attributes that runs need; a second time changes nothing')
    .addHelpText('after', examples('setup', 'setup --address temporal.example:7233 --namespace agents'))
    .action(async (_own: unknown, command: Command) => {
      const options = command.optsWithGlobals<GlobalOptions>();
      const report = await withSession(terminal, options, ({ client, deadlineMs }) =>
        client.connection.withDeadline(Date.now() + deadlineMs, () =>
          setUpNamespace(client.connection, client.options.namespace),
        ),
      );
      print(terminal, { json: report, text: () => setupText(report) }, options.json === true);
    });
}

function setupText({ namespace, added, present }: SetupReport): string {
  if (added.length === 0) return `Namespace ${namespace} is ready; all ${present.length} search attributes were there.`;
  return `Namespace ${namespace} is ready; added ${added.join(', ')}.`;
}
