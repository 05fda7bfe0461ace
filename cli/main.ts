/** The entry point of the `countersign` command. */
import { runCli } from './program.ts';
import { processTerminal } from './session/terminal.ts';

const exitCode = await runCli(process.argv.slice(2), processTerminal());
// The process is ended explicitly once all output is written, since a worker's native runtime would keep it alive.
process.stdout.write('', () => process.stderr.write('', () => process.exit(exitCode)));
