/** A child process of the bench, and what a process has used. */
import { type ChildProcess, fork } from 'node:child_process';
import { on, once } from 'node:events';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

export function forkBench(file: string, args: readonly string[] = []): ChildProcess {
  return fork(fileURLToPath(new URL(file, import.meta.url)), [...args], {
    execArgv: [
      '--import',
      'tsx',
      '--expose-gc',
      '--require',
      fileURLToPath(new URL('./thread-heap.mjs', import.meta.url)),
    ],
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
}

/** The next message of a kind. @throws where the process ends before it says so */
export async function heard<T extends { readonly kind: string }, K extends T['kind']>(
  child: ChildProcess,
  kind: K,
): Promise<Extract<T, { kind: K }>> {
  const given = new AbortController();
  try {
    return await Promise.race([messageOf<T, K>(child, kind, given.signal), diedBefore(child, kind, given.signal)]);
  } finally {
    given.abort();
  }
}

async function messageOf<T extends { readonly kind: string }, K extends T['kind']>(
  child: ChildProcess,
  kind: K,
  signal: AbortSignal,
): Promise<Extract<T, { kind: K }>> {
  // Sound: a file of this folder sends the messages, and none but those of the type that it shares with us.
  for await (const [message] of on(child, 'message', { signal }) as AsyncIterable<[T]>) {
    // Sound: compared just here.
    if (message.kind === kind) return message as Extract<T, { kind: K }>;
  }
  throw new Error('a listener ends by its signal only');
}

async function diedBefore(child: ChildProcess, awaited: string, signal: AbortSignal): Promise<never> {
  throw new Error(`a process of the bench ended (${await endOf(child, signal)}) before: ${awaited}`);
}

/** How a process ended, once it has. */
export async function endOf(child: ChildProcess, signal?: AbortSignal): Promise<string> {
  if (child.exitCode === null && child.signalCode === null)
    await once(child, 'exit', signal === undefined ? {} : { signal });
  return String(child.exitCode ?? child.signalCode);
}

/** User and system time of another process, ms. 0 where there is no /proc (then CPU figures lack the server). */
export function cpuMsOf(pid: number): number {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
    // utime and stime, fields 14 and 15 of proc(5), in ticks of 10 ms.
    return (Number(fields[11]) + Number(fields[12])) * 10;
  } catch {
    return 0;
  }
}

/** Resident memory of another process, bytes: as it is (`VmRSS`), or the most that it ever was (`VmHWM`). 0 where there is no /proc. */
export function rssOf(pid: number, field: 'VmRSS' | 'VmHWM' = 'VmRSS'): number {
  try {
    return (
      Number(new RegExp(`${field}:\\s+(\\d+)`).exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) * 1_024
    );
  } catch {
    return 0;
  }
}

export async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  child.kill('SIGKILL');
  await exited;
}
