/** A process whose log lies on a full disk goes on: the log loses lines, and nothing else is lost. */
import { spawnSync } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { expect, test } from '@jest/globals';
import { programArgs } from '../support/program.ts';

const ENTRY = programArgs('test/support/full-disk-entry.ts');

test('neither its log nor what a command says on the side ends it', () => {
  const full = openSync('/dev/full', 'w');
  const { status, stdout } = spawnSync(process.execPath, [...ENTRY], {
    stdio: ['ignore', 'pipe', full],
    encoding: 'utf8',
  });
  closeSync(full);
  expect({ status, stdout }).toEqual({ status: 0, stdout: 'It goes on.\n' });
});
