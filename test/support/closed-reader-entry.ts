/** A command that tells of one thing after the other, as `replay` does, and fails at the end. */
import { setTimeout as pause } from 'node:timers/promises';
import { processTerminal } from '../../cli/session/terminal.ts';

const { out } = processTerminal();
for (let told = 0; told < 500; told += 1) {
  out(`${'ok    a history\n'.repeat(100)}`);
  await pause(1);
}
process.exit(7);
