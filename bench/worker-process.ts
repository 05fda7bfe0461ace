/** A worker as it is deployed: a process of the command, with a configuration file. What it says of itself at its start is read from its log. */
import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { cpuMsOf } from './process.ts';

export interface StartedWorker {
  readonly child: ChildProcess;
  /** Since the process was started, ms. */
  readonly pollsMs: number;
  readonly cpuMs: number;
  /** Its line in the log. */
  readonly line: string;
}

/** @param main a built command, whose bundle lies beside it; without it the sources are run, and make theirs */
export async function startWorkerProcess(
  configFile: string,
  address: string,
  main = fileURLToPath(new URL('../cli/main.ts', import.meta.url)),
): Promise<StartedWorker> {
  const at = performance.now();
  const loader = main.endsWith('.ts') ? ['--import', 'tsx'] : [];
  const child = spawn(process.execPath, [...loader, main, 'worker', '--config', configFile, '--address', address], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  for await (const line of createInterface({ input: child.stderr })) {
    if (!line.includes('The worker has started.')) continue;
    child.stderr.resume();
    return { child, pollsMs: Math.round(performance.now() - at), cpuMs: cpuMsOf(child.pid ?? 0), line };
  }
  throw new Error('the worker ended before it polled');
}
