/** Terminal is what a command sees of its process; tests provide another one. */
import { createInterface } from 'node:readline/promises';
import { styleText } from 'node:util';

export interface Terminal {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly directory: string;
  readonly paint: Paint;
  out(text: string): void;
  /** Writes errors and side remarks to standard error, away from readers of answers. */
  err(text: string): void;
  /** Asks a person and returns their line. Absent if nobody sits at a terminal. */
  readonly ask?: ((question: string) => Promise<string>) | undefined;
  input(): Promise<string>;
  /** Aborted, with the signal's name, when the process is asked to end. The command then ends by itself. */
  interrupted(): AbortSignal;
}

export type Shade = 'bold' | 'dim' | 'green' | 'yellow' | 'red' | 'cyan';
export type Paint = (shade: Shade, text: string) => string;

export const plain: Paint = (_shade, text) => text;

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/** @param leaveSignals called once a command listens to signals itself */
export function processTerminal(leaveSignals?: () => void): Terminal {
  const { stdout, stderr, stdin, env } = process;
  // A reader that closes early (`| head`) ends the command. That is no error to tell, and no success either: shells say
  // 128 + 13 of a tool that SIGPIPE ends.
  stdout.on('error', (error: NodeJS.ErrnoException) => process.exit(error.code === 'EPIPE' ? 141 : 70));
  const colored = stdout.isTTY && (env['NO_COLOR'] ?? '') === '' && env['TERM'] !== 'dumb';
  // A log on a full disk, or a terminal that was closed: what the command does goes on.
  stderr.on('error', () => undefined);
  let controller: AbortController | undefined;
  return {
    env,
    directory: process.cwd(),
    paint: colored ? (shade, text) => styleText(shade, text) : plain,
    out: (text) => void stdout.write(text),
    err: (text) => void stderr.write(text),
    ask: stdin.isTTY && stdout.isTTY ? askPerson : undefined,
    input: async () => {
      let text = '';
      stdin.setEncoding('utf8');
      // Sound: with an encoding set, chunks are strings.
      for await (const chunk of stdin) text += chunk as string;
      return text;
    },
    interrupted: () => (controller ??= watchSignals(leaveSignals)).signal,
  };
}

/** Returns an empty line if the person closes the input. */
async function askPerson(question: string): Promise<string> {
  // Not as a terminal: Ctrl-C stays a signal of the process.
  const lines = createInterface({ input: process.stdin, output: process.stdout, terminal: false });
  try {
    const closed = new Promise<string>((resolve) => lines.once('close', () => resolve('')));
    return await Promise.race([lines.question(question), closed]);
  } finally {
    lines.close();
  }
}

/** The first signal aborts. A second SIGINT ends the process at once; other signals may be sent several times. */
function watchSignals(leaveSignals?: () => void): AbortController {
  const controller = new AbortController();
  let interrupts = 0;
  const take = (signal: NodeJS.Signals): void => {
    if (signal === 'SIGINT') interrupts += 1;
    if (interrupts > 1) process.exit(130);
    controller.abort(signal);
  };
  for (const signal of SIGNALS) process.on(signal, take);
  leaveSignals?.();
  return controller;
}
