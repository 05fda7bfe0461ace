/** The `countersign` command. */
import { runCli } from './program.ts';
import { processTerminal } from './session/terminal.ts';

const exitCode = await runCli(process.argv.slice(2), processTerminal());
// Ended by hand, once all is written: the native runtime of a worker would keep the process alive.
process.stdout.write('', () => process.stderr.write('', () => process.exit(exitCode)));
