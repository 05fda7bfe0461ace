/** A reader that closes early (`| head`) ends the command, and its exit code is not that of success. */
import { spawnSync } from 'node:child_process';
import { expect, test } from '@jest/globals';
import { programArgs } from '../support/program.ts';

const ENTRY = [process.execPath, ...programArgs('test/support/closed-reader-entry.ts')];

/** The exit code of the command, by a shell that asks for that of each part of a pipeline. */
function pipedInto(reader: string): number | null {
  const command = `${ENTRY.map((part) => `'${part}'`).join(' ')} | ${reader} >/dev/null`;
  return spawnSync('bash', ['-o', 'pipefail', '-c', command]).status;
}

test('what was not read to its end did not end well: a pipeline that gates on it stops', () => {
  expect(pipedInto('head -1')).toBe(141);
  expect(pipedInto('cat')).toBe(7);
});
