/**
 * Plays a page of the guide as its reader would: writes its files, types its commands, keeps its terminals open.
 *
 * 1. A YAML block is the file that its first line names. A shell block that begins with `# Terminal` runs until the
 *    end; any other ends with status 0.
 * 2. What is started is ended by its process group.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { blocksOf } from '../guide.ts';

const FILE = /^# (\S+\.yaml)\n/;
const TERMINAL = /^# Terminal \d+\n/;

export interface PlayedPage {
  /** Plays on until a block holds this text; that block is not played. */
  playUntil(text: string): Promise<void>;
  /** Plays the rest. @returns what its commands wrote to stdout */
  playRest(): Promise<string>;
  /** Seconds that each block took, with its last line. */
  readonly took: readonly { readonly what: string; readonly seconds: number }[];
  /** Ends all terminals. */
  stop(): Promise<void>;
}

interface PlayedPageOptions {
  /** Where the reader is. */
  readonly folder: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Changes what a block says before it is played, such as ports that others may hold. */
  readonly adapt: (text: string) => string;
  /** Settles when what this terminal runs can be used. */
  readonly isUp: (terminal: string, output: () => string) => Promise<unknown>;
}

export async function openPage(page: string, { folder, env, adapt, isUp }: PlayedPageOptions): Promise<PlayedPage> {
  const blocks = (await blocksOf(page, '(?:sh|yaml)')).map(({ text }) => adapt(text));
  const terminals: ChildProcess[] = [];
  const took: { what: string; seconds: number }[] = [];

  function type(text: string): { readonly child: ChildProcess; readonly output: { all: string; out: string } } {
    const output = { all: '', out: '' };
    // `npx` starts children of its own, and all of them must end.
    const child = spawn('bash', ['-euo', 'pipefail', '-c', text], {
      cwd: folder,
      env,
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
      output.all += chunk;
      output.out += chunk;
    });
    child.stderr.setEncoding('utf8').on('data', (chunk: string) => (output.all += chunk));
    return { child, output };
  }

  async function play(text: string): Promise<string> {
    const file = FILE.exec(text)?.[1];
    if (file !== undefined) {
      writeFileSync(join(folder, file), text);
      return '';
    }
    const { child, output } = type(text);
    if (TERMINAL.test(text)) {
      terminals.push(child);
      process.once('exit', () => endGroup(child, 'SIGKILL'));
      await isUp(text, () => output.all).catch((error: unknown) => {
        throw new Error(`${text} said: ${output.all}`, { cause: error });
      });
      return '';
    }
    const [status] = await once(child, 'close');
    if (status !== 0) throw new Error(`${text} ended with ${String(status)}: ${output.all}`);
    return output.out;
  }

  async function playNext(): Promise<string> {
    const text = blocks.shift() ?? '';
    const startedAt = Date.now();
    const said = await play(text);
    took.push({ what: text.trim().split('\n').at(-1) ?? '', seconds: (Date.now() - startedAt) / 1_000 });
    return said;
  }

  return {
    took,
    playUntil: async (text) => {
      while (blocks[0]?.includes(text) === false) await playNext();
      if (blocks.length === 0) throw new Error(`no block of ${page} holds ${text}`);
    },
    playRest: async () => {
      let said = '';
      while (blocks.length > 0) said += await playNext();
      return said;
    },
    stop: async () => {
      await Promise.all(terminals.toReversed().map(endTerminal));
    },
  };
}

async function endTerminal(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, 'exit');
  endGroup(child, 'SIGTERM');
  const hard = setTimeout(() => endGroup(child, 'SIGKILL'), 10_000);
  await ended;
  clearTimeout(hard);
  endGroup(child, 'SIGKILL');
}

function endGroup({ pid }: ChildProcess, signal: NodeJS.Signals): void {
  try {
    if (pid !== undefined) process.kill(-pid, signal);
  } catch {
    // The group is gone.
  }
}
