/** Runs a command in this process and returns its output and exit code. */
import type { Command } from 'commander';
import { createProgram, runCli } from '../../cli/program.ts';
import { plain } from '../../cli/session/terminal.ts';
import type { TestEngine } from './engine.ts';

export interface CommandOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly directory?: string;
  /** Text of standard input. */
  readonly input?: string;
  readonly signal?: AbortSignal;
  /** Answers questions, as a person at a terminal; without it there is no terminal. */
  readonly ask?: (question: string) => Promise<string>;
  /** Called with each text for standard output. */
  readonly onOut?: (text: string) => void;
  /** Called with each text for standard error. */
  readonly onErr?: (text: string) => void;
}

export interface CommandResult {
  readonly exitCode: number;
  readonly out: string;
  readonly err: string;
}

export async function runCommand(args: readonly string[], options: CommandOptions = {}): Promise<CommandResult> {
  let out = '';
  let err = '';
  const exitCode = await runCli(args, {
    env: options.env ?? {},
    directory: options.directory ?? process.cwd(),
    paint: plain,
    out: (text) => {
      out += text;
      options.onOut?.(text);
    },
    err: (text) => {
      err += text;
      options.onErr?.(text);
    },
    ask: options.ask,
    input: async () => options.input ?? '',
    interrupted: () => options.signal ?? new AbortController().signal,
  });
  return { exitCode, out, err };
}

/** Makes the program without a terminal, for those who read its commands. */
export async function quietProgram(): Promise<Command> {
  const terminal = {
    env: {},
    directory: '/',
    paint: plain,
    out: () => undefined,
    err: () => undefined,
    input: async () => '',
    interrupted: () => new AbortController().signal,
  };
  return await createProgram(terminal, false);
}

/** Runs commands against a Temporal server, in the folder of its workers. */
export function commandsAt({ server, directory }: Pick<TestEngine, 'server' | 'directory'>) {
  const where = ['--address', server.address, '--namespace', server.namespace];
  return async (args: readonly string[], options: CommandOptions = {}): Promise<CommandResult> =>
    await runCommand([...args, ...where], { directory, ...options });
}

/** Parses the one JSON document that `--json` promises. */
export function documentOf<T>({ out }: CommandResult): T {
  if (!/^[^\n]+\n$/.test(out)) throw new Error(`not one line: ${out}`);
  // Sound: tests check what they use of it.
  return JSON.parse(out) as T;
}

export interface ReportedError {
  readonly code: string;
  readonly message: string;
  readonly facts: Readonly<Record<string, unknown>>;
}

/** Parses the error of a failed command with `--json`: the last line of standard error, behind the lines about waiting. */
export function errorOf({ out, err }: CommandResult): ReportedError {
  if (out !== '') throw new Error(`standard output is not empty: ${out}`);
  const lines = err.trimEnd().split('\n');
  const told = lines.slice(0, -1).filter((line) => !line.startsWith('{"waiting":'));
  if (told.length > 0) throw new Error(`standard error holds more than waiting and an error: ${err}`);
  // Sound: `cli/session/verb.ts` writes it in one shape, which its own tests hold.
  return (JSON.parse(lines.at(-1) ?? '') as { error: ReportedError }).error;
}
