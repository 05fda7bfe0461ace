/** A run spec from a file or standard input: JSON or YAML. Its content is checked by the client library, not here. */
import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { LineCounter, parseDocument } from 'yaml';
import { CountersignError } from '../contracts/errors.ts';
import type { RunSpecInput } from '../contracts/schemas/run-spec.ts';
import type { Terminal } from './terminal.ts';

/** @param source a path, or `-` */
export async function readSpec(source: string, terminal: Pick<Terminal, 'directory' | 'input'>): Promise<RunSpecInput> {
  const text = source === '-' ? await terminal.input() : await readText(resolve(terminal.directory, source), source);
  // Sound: `startRun` parses it before anything else happens, and answers with code and path.
  return parse(text, source === '-' ? 'standard input' : source) as RunSpecInput;
}

async function readText(path: string, shown: string): Promise<string> {
  return await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw new CountersignError(
      'USAGE',
      `The run spec ${shown} cannot be read (${error.code ?? 'error'}). Name a file that exists, or - for standard input.`,
      {},
      { cause: error },
    );
  });
}

/** YAML 1.2 holds JSON. No error repeats a line of the spec: it may hold a secret. */
function parse(text: string, what: string): unknown {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false, uniqueKeys: true, strict: true });
  const problem = document.errors[0] ?? document.warnings[0];
  if (problem !== undefined) {
    const { line, col } = lines.linePos(problem.pos[0]);
    throw notReadable(`${what} is neither JSON nor YAML: line ${line}, column ${col} (${problem.code})`);
  }
  try {
    const value: unknown = document.toJS({ maxAliasCount: 100 });
    if (value === null || value === undefined) throw notReadable(`${what} is empty`);
    return value;
  } catch (error) {
    throw error instanceof CountersignError
      ? error
      : notReadable(`${what} has an alias without an anchor, or too many aliases`);
  }
}

function notReadable(reason: string): CountersignError {
  return new CountersignError('SPEC_INVALID', `The run spec ${reason}. Correct it and try again.`);
}
