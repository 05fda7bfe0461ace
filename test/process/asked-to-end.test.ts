/** A command that serves is asked to end more than once: what is under way keeps its grace time. */
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';
import { afterEach, expect, test } from '@jest/globals';
import { programArgs } from '../support/program.ts';
import { Hopeless, until } from '../support/until.ts';

const ENTRY = programArgs('test/support/asked-to-end-entry.ts');

let child: ChildProcessWithoutNullStreams;
afterEach(() => void child.kill('SIGKILL'));

/** Starts the program. @returns a wait for the lines that it has said so far */
async function started(): Promise<(...lines: readonly string[]) => Promise<void>> {
  child = spawn(process.execPath, [...ENTRY]);
  let said = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (said += text));
  const says = async (...lines: readonly string[]): Promise<void> => {
    const wanted = lines.map((line) => `${line}\n`).join('');
    await until(
      () => {
        if (said.startsWith(wanted)) return true;
        if (child.exitCode !== null) throw new Hopeless(`it has ended with ${child.exitCode}: ${said}`);
        return undefined;
      },
      { what: wanted },
    );
  };
  await says('runs');
  return says;
}

async function exitCode(): Promise<number | null> {
  if (child.exitCode === null) await once(child, 'exit');
  return child.exitCode;
}

test.each([
  ['an orchestrator that asks twice', ['SIGTERM', 'SIGTERM', 'SIGHUP']],
  ['a terminal that closes', ['SIGHUP', 'SIGHUP', 'SIGTERM']],
  ['Ctrl-C, and an orchestrator behind it', ['SIGINT', 'SIGTERM', 'SIGHUP']],
  ['an orchestrator, and one Ctrl-C', ['SIGTERM', 'SIGINT']],
] as const)('%s: it ends when what is under way has ended', async (_who, signals) => {
  const says = await started();
  const heard = ['runs', `stops: ${signals[0]}`];
  for (const signal of signals) {
    child.kill(signal);
    heard.push(`outlived ${signal}`);
    await says(...heard);
  }
  child.stdin.end();
  expect(await exitCode()).toBe(0);
});

test('a second Ctrl-C ends it at once', async () => {
  const says = await started();
  child.kill('SIGINT');
  await says('runs', 'stops: SIGINT', 'outlived SIGINT');
  child.kill('SIGINT');
  expect(await exitCode()).toBe(130);
});
