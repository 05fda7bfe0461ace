/** `countersign` in a clone: what only answers a question needs no Temporal CLI. */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from '@jest/globals';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** Where the only Temporal CLI is one that does not run: whoever asks for it fails. */
function countersign(...args: readonly string[]) {
  return spawnSync(process.execPath, [join(ROOT, 'scripts/countersign.mjs'), ...args], {
    cwd: tmpdir(),
    encoding: 'utf8',
    env: { PATH: process.env['PATH'] ?? '', TEMPORAL_CLI_PATH: '/nowhere/temporal' },
  });
}

test.each(['--help', '-h'])('dev %s says what dev does, and looks for no Temporal CLI', (flag) => {
  const { status, stdout, stderr } = countersign('dev', flag);
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  expect(stdout).toContain('Usage: countersign dev');
});

test('--version is that of package.json', () => {
  // Sound: npm takes no package without a version.
  const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { version: string };
  expect(countersign('--version')).toMatchObject({ status: 0, stdout: `${version}\n`, stderr: '' });
});

test('dev itself does ask for one', () => {
  const { status, stderr } = countersign('dev');
  expect(status).toBe(1);
  expect(stderr).toContain('TEMPORAL_CLI_PATH is /nowhere/temporal');
});
