/**
 * The service of the demo: `countersign dev` as a child process, with everything in a scratch folder.
 *
 * 1. It ends with this process, also when this one is killed: its standard input is a pipe from here.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { dirname } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { CountersignError } from '../../contracts/errors.ts';
import { paint, say } from './voice.ts';

export interface Service {
  readonly address: string;
  readonly namespace: string;
  readonly uiUrl: string;
  readonly files: { readonly url: string; readonly folder: string };
  readonly model: string;
}

const COUNTERSIGN = fileURLToPath(new URL('../../scripts/countersign.mjs', import.meta.url));
const START_MS = 120_000;
const STOP_MS = 20_000;

export class ServiceProcess {
  readonly #child: ChildProcess;
  readonly #exited: Promise<unknown>;
  #errors = '';

  constructor(directory: string) {
    const args = [
      COUNTERSIGN,
      'dev',
      '--json',
      '--until-eof',
      '--directory',
      directory,
      '--port',
      '0',
      '--ui-port',
      '0',
      '--files-port',
      '0',
    ];
    // A group of its own: Ctrl-C reaches the demo alone, which then ends this in order. And in its own folder, so that
    // no countersign.yaml of yours is used.
    this.#child = spawn(process.execPath, args, {
      cwd: directory,
      env: environment(),
      stdio: ['pipe', 'pipe', 'pipe'],
      detached: true,
    });
    this.#exited = once(this.#child, 'exit');
    this.#child.stderr?.on('data', (chunk: Buffer) => {
      this.#errors = (this.#errors + chunk.toString()).slice(-4_000);
    });
  }

  /** @throws CountersignError with what it said, where it does not start, or not in time */
  async ready(signal: AbortSignal, startMs = START_MS): Promise<Service> {
    const limit = AbortSignal.any([signal, AbortSignal.timeout(startMs)]);
    // Sound: both pipes were asked for.
    const lines = createInterface({ input: this.#child.stdout as NodeJS.ReadableStream });
    const line = await Promise.race([
      once(lines, 'line', { signal: limit }).catch((error: unknown) => {
        if (signal.aborted || !limit.aborted) throw error;
        throw this.#notStarted(` within ${startMs / 1_000} s`);
      }),
      this.#exited.then(() => undefined),
    ]);
    // Sound: one JSON document in a line is what `countersign dev --json` prints.
    if (line !== undefined) return JSON.parse(line[0] as string) as Service;
    throw this.#notStarted('');
  }

  #notStarted(when: string): CountersignError {
    return new CountersignError('ENGINE_UNAVAILABLE', `The service did not start${when}.\n${this.#errors}`.trim());
  }

  async stop(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    this.#child.kill('SIGTERM');
    // A second SIGINT makes it end what it started at once.
    const hurry = setInterval(() => this.#child.kill('SIGINT'), STOP_MS / 2);
    await this.#exited;
    clearInterval(hurry);
  }
}

/** Runs the command line as you would, its output here. */
export async function countersign({ address, namespace, files }: Service, ...args: readonly string[]): Promise<void> {
  say(`${paint('dim', `$ countersign ${args.join(' ')}`)}`);
  const child = spawn(process.execPath, [COUNTERSIGN, ...args, '--address', address, '--namespace', namespace], {
    cwd: dirname(files.folder),
    env: environment(),
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  // Sound: the arguments of a child's exit event.
  const [code] = (await once(child, 'exit')) as [number | null];
  if (code !== 0) throw new CountersignError('INTERNAL', `countersign ${args[0]} ended with exit code ${code}.`);
}

/** Yours, without what points to another Temporal service or configuration. */
function environment(): NodeJS.ProcessEnv {
  return Object.fromEntries(
    Object.entries(process.env).filter(
      ([name]) => name === 'TEMPORAL_CLI_PATH' || !/^(?:TEMPORAL_|COUNTERSIGN_CONFIG$)/.test(name),
    ),
  );
}
