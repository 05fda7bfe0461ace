/** This program writes to its log and says things on the side, and ends with a line on stdout: its stderr takes nothing. */
import { setTimeout as pause } from 'node:timers/promises';
import { processTerminal } from '../../cli/session/terminal.ts';
import { Config } from '../../contracts/schemas/config.ts';
import { installLog } from '../../workers/log.ts';

const terminal = processTerminal();
const log = installLog(Config.parse({}));
for (let turn = 0; turn < 3; turn += 1) {
  terminal.err('warning: something\n');
  log.warn('Something happened.');
  // What a stream could not write it says a turn later.
  await pause(1);
}
process.stdout.write('It goes on.\n', () => process.exit(0));
