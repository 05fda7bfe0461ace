/** A run spec from a file or standard input. Its content is checked by the client library, not here. */
import type { RunSpecInput } from '../contracts/schemas/run-spec.ts';
import { readInput } from './input-file.ts';
import type { Terminal } from './terminal.ts';

/** @param source a path, or `-` */
export async function readSpec(source: string, terminal: Pick<Terminal, 'directory' | 'input'>): Promise<RunSpecInput> {
  // Sound: `startRun` parses it before anything else happens, and answers with code and path.
  return (await readInput(source, { what: 'run spec', code: 'SPEC_INVALID' }, terminal)) as RunSpecInput;
}
