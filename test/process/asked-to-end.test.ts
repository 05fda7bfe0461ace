/** A command that serves is asked to end more than once: what is under way keeps its grace time. */
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { afterEach, expect, test } from '@jest/globals';
import { programArgs } from '../support/program.ts';
import { Hopeless, until } from '../support/until.ts';

const ENTRY = programArgs('test/support/asked-to-end-entry.ts');
/** Has the program take itself for the first process of a container. */
const FIRST = 'data:text/javascript,Object.defineProperty(process, "pid", { value: 1 });';

let child: ChildProcessWithoutNullStreams;
let silent: Server | undefined;
afterEach(() => {
  child.kill('SIGKILL');
  silent?.close();
});

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

test.each(['SIGTERM', 'SIGINT'] as const)(
  '%s ends what is still starting as the first process of a container',
  async (signal) => {
    // Takes connections, and says nothing: a Temporal that hangs.
    const sockets: Socket[] = [];
    silent = createServer((socket) => void sockets.push(socket.on('error', () => undefined)));
    silent.listen(0, '127.0.0.1');
    await once(silent, 'listening');
    // Sound: a listening TCP server has an address of this form.
    const { port } = silent.address() as AddressInfo;
    const args = ['gateway', '--address', `127.0.0.1:${port}`, '--deadline', '120'];
    child = spawn(process.execPath, ['--import', FIRST, ...programArgs('cli/main.ts'), ...args]);
    await until(() => sockets.length > 0, { what: 'the first connection to Temporal' });
    child.kill(signal);
    await once(child, 'exit');
    // Ended by itself: to a real one nothing would happen.
    expect([child.exitCode, child.signalCode]).toEqual([signal === 'SIGTERM' ? 143 : 130, null]);
    for (const socket of sockets) socket.destroy();
  },
);
