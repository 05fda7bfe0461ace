/** Starts a server as a child process, waits until it answers, and ends it with the process that started it. */
import { type ChildProcess, spawn } from 'node:child_process';
import { setTimeout as pause } from 'node:timers/promises';

export interface ChildServer {
  readonly pid: number;
  /** Settles when the process is gone, whoever ended it. */
  readonly exited: Promise<void>;
  stop(signal?: NodeJS.Signals): Promise<void>;
}

interface ChildOptions {
  readonly command: string;
  readonly args: readonly string[];
  /** Ctrl-C on a terminal does not reach it, and its own children end with it. */
  readonly ownGroup: boolean;
  /** Throws while the server does not answer. */
  readonly ask: () => Promise<void>;
}

/** Why a server did not start. The message says how it ended, and what it wrote to stderr. */
export class NotStarted extends Error {}

const START_MS = 30_000;
const STOP_MS = 10_000;
/** Characters of the server's output that are kept: when it dies, the reason comes before pages of its stack. */
const MOST_SAID = 4_000;

/** @throws NotStarted */
export async function startChild({ command, args, ownGroup, ask }: ChildOptions): Promise<ChildServer> {
  const child = spawn(command, args, { stdio: ['ignore', 'ignore', 'pipe'], detached: ownGroup });
  let said = '';
  child.stderr.on('data', (chunk: Buffer) => (said = (said + chunk.toString()).slice(0, MOST_SAID)));
  const exited = new Promise<void>((resolve) => {
    child.once('exit', () => resolve());
    child.once('error', (error) => {
      said += error.message;
      resolve();
    });
  });
  const endWithParent = (): void => kill(child, ownGroup, 'SIGKILL');
  process.once('exit', endWithParent);
  void exited.then(() => process.off('exit', endWithParent));
  const stop = async (signal: NodeJS.Signals = 'SIGTERM'): Promise<void> => {
    if (!isGone(child)) kill(child, ownGroup, signal);
    const hard = setTimeout(() => kill(child, ownGroup, 'SIGKILL'), STOP_MS);
    await exited;
    clearTimeout(hard);
  };
  try {
    await answering(child, ask);
  } catch (cause) {
    const { signalCode } = child;
    await stop('SIGKILL');
    const why = signalCode === null ? '' : `It was ended by ${signalCode} (the machine may be short of memory). `;
    throw new NotStarted(`${why}${said}`, { cause });
  }
  // Sound: a process that answered has a pid.
  return { pid: child.pid as number, exited, stop };
}

async function answering(child: ChildProcess, ask: () => Promise<void>): Promise<void> {
  const until = Date.now() + START_MS;
  for (;;) {
    if (isGone(child)) throw new Error(`it exited with ${child.exitCode ?? child.signalCode}`);
    try {
      return await ask();
    } catch (error) {
      if (Date.now() > until) throw error;
      await pause(100);
    }
  }
}

function isGone({ exitCode, signalCode, pid }: ChildProcess): boolean {
  return exitCode !== null || signalCode !== null || pid === undefined;
}

function kill(child: ChildProcess, ownGroup: boolean, signal: NodeJS.Signals): void {
  try {
    if (child.pid !== undefined) process.kill(ownGroup ? -child.pid : child.pid, signal);
  } catch {
    // The process is gone already.
  }
}
