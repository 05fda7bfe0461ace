/**
 * This program runs until it is asked to end, and then as long as its stdin is open, as a worker in its grace time. It
 * says which signals it has outlived.
 */
import { processTerminal } from '../../cli/session/terminal.ts';

const terminal = processTerminal();
const signal = terminal.interrupted();
signal.addEventListener('abort', () => terminal.out(`stops: ${String(signal.reason)}\n`));
// Called after the terminal's own, which may end the process.
for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(name, () => terminal.out(`outlived ${name}\n`));
terminal.out('runs\n');
await terminal.input();
process.exit(0);
