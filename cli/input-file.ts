/** What a command is given as a file or on standard input: JSON or YAML. Its content is checked by whoever knows it. */
import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { LineCounter, parseDocument } from 'yaml';
import { CountersignError, type ErrorCode } from '../contracts/errors.ts';
import type { Terminal } from './terminal.ts';

export interface InputKind {
  /** As messages name it: `run spec`. */
  readonly what: string;
  /** Of what is neither JSON nor YAML. */
  readonly code: ErrorCode;
}

/** @param source a path, or `-` */
export async function readInput(
  source: string,
  kind: InputKind,
  terminal: Pick<Terminal, 'directory' | 'input'>,
): Promise<unknown> {
  const text =
    source === '-' ? await terminal.input() : await readText(resolve(terminal.directory, source), source, kind);
  return parse(text, source === '-' ? 'standard input' : source, kind);
}

async function readText(path: string, shown: string, { what }: InputKind): Promise<string> {
  return await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw new CountersignError(
      'USAGE',
      `The ${what} ${shown} cannot be read (${error.code ?? 'error'}). Name a file that exists, or - for standard input.`,
      {},
      { cause: error },
    );
  });
}

/** YAML 1.2 holds JSON. No error repeats a line of the file: it may hold a secret. */
function parse(text: string, shown: string, kind: InputKind): unknown {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false, uniqueKeys: true, strict: true });
  const problem = document.errors[0] ?? document.warnings[0];
  if (problem !== undefined) {
    const { line, col } = lines.linePos(problem.pos[0]);
    throw notReadable(kind, `${shown} is neither JSON nor YAML: line ${line}, column ${col} (${problem.code})`);
  }
  try {
    const value: unknown = document.toJS({ maxAliasCount: 100 });
    if (value === null || value === undefined) throw notReadable(kind, `${shown} is empty`);
    return value;
  } catch (error) {
    throw error instanceof CountersignError
      ? error
      : notReadable(kind, `${shown} has an alias without an anchor, or too many aliases`);
  }
}

function notReadable({ code, what }: InputKind, reason: string): CountersignError {
  return new CountersignError(code, `The ${what} ${reason}. Correct it and try again.`);
}
