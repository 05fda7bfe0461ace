/**
 * Starts workers as processes that a test can freeze, end and kill, each by its pid.
 *
 * 1. A process that a test leaves behind is killed with the test's own process.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { defined } from '../../../contracts/defined.ts';
import type { WorkerRole } from '../../../workers/config/load.ts';
import { programArgs } from '../program.ts';
import { Hopeless, until } from '../until.ts';

export interface WorkerProcessOptions {
  /** Path of `countersign.yaml`. */
  readonly configFile: string;
  /** Path of a workflow bundle as JSON, for a worker that does not make its own. */
  readonly bundleFile?: string;
  readonly address: string;
  readonly namespace: string;
  readonly role?: WorkerRole;
  /** Values for `${NAME}` in the configuration. */
  readonly env?: Readonly<Record<string, string>>;
  /** The worker can be made to hold tasks. It takes more of them at once than others do. */
  readonly holds?: boolean;
  /** Runs `countersign worker` itself, which makes its own bundle and so takes longer. */
  readonly shipped?: boolean;
  /** Path of the file that `npm run build` made, run by Node alone. */
  readonly built?: string;
}

export interface WorkerProcess {
  readonly pid: number;
  /** All output so far, stdout and stderr. */
  output(): string;
  /** Output to stderr. */
  log(): string;
  /** Sends SIGKILL: nothing is reported to anybody, and sockets are reset. */
  kill(): Promise<void>;
  /** Makes the worker take tasks and not do them (`held-tasks.ts`); only with `holds`. */
  hold(): Promise<void>;
  /** Sends SIGSTOP: the process keeps what it was given and does nothing. */
  freeze(): void;
  thaw(): void;
  /** Sends SIGTERM, like an orchestrator. */
  terminate(): void;
  /** Exit code, or the signal that ended the process. */
  readonly ended: Promise<number | NodeJS.Signals>;
}

/** Line that a worker process writes to stdout once it polls. */
export const POLLING = 'the worker polls';

export async function startWorkerProcess(options: WorkerProcessOptions): Promise<WorkerProcess> {
  const { configFile, bundleFile = '', address, namespace, role = 'all', holds, env = {}, built } = options;
  const shipped = options.shipped === true || built !== undefined;
  const main = shipped
    ? [
        ...(built === undefined ? programArgs('cli/main.ts') : [built]),
        'worker',
        '--config',
        configFile,
        '--role',
        role,
      ]
    : [...programArgs('test/support/world/worker-process-entry.ts'), configFile, role, bundleFile];
  const child = spawn(process.execPath, main, {
    env: {
      PATH: process.env['PATH'] ?? '',
      TEMPORAL_ADDRESS: address,
      TEMPORAL_NAMESPACE: namespace,
      ...defined({ HOLDS_TASKS: holds === true ? 'yes' : undefined }),
      ...env,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const said: string[] = [];
  const logged: string[] = [];
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => said.push(text));
  child.stderr.on('data', (text: string) => logged.push(text));
  const killWithParent = (): void => void child.kill('SIGKILL');
  process.once('exit', killWithParent);
  const ended = endOf(child).finally(() => process.off('exit', killWithParent));
  const worker: WorkerProcess = {
    // Sound: a process that could not be started has ended with an error below.
    pid: child.pid as number,
    output: () => said.join(''),
    log: () => logged.join(''),
    kill: async () => {
      child.kill('SIGKILL');
      await ended;
    },
    hold: async () => {
      child.kill('SIGWINCH');
      await until(() => worker.output().includes('holds tasks from now on'), {
        what: 'a worker that holds',
      });
    },
    freeze: () => void child.kill('SIGSTOP'),
    thaw: () => void child.kill('SIGCONT'),
    terminate: () => void child.kill('SIGTERM'),
    ended,
  };
  try {
    await until(
      () => {
        if (child.exitCode !== null || child.signalCode !== null) throw new Hopeless('it has ended');
        return worker.output().includes(shipped ? `worker (${role}) of namespace` : POLLING);
      },
      { what: 'a polling worker', withinMs: 60_000 },
    );
  } catch (error) {
    await worker.kill();
    throw new Error(`the worker did not start: ${worker.output()}`, { cause: error });
  }
  return worker;
}

async function endOf(child: ChildProcess): Promise<number | NodeJS.Signals> {
  // Sound: the arguments of `exit` as Node documents them; one of the two is always set.
  const [code, signal] = (await once(child, 'exit')) as [number | null, NodeJS.Signals | null];
  return code ?? signal ?? 'SIGKILL';
}
